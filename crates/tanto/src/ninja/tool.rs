//! `-t`: runs a tool instead of a build, as soon as what it needs is loaded. Does not know what the tools do.

use std::io::{self, BufWriter, ErrorKind};

use tanto_ninja::builddir;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::tools::{Context, RunAfter, ToolOptions, ToolOutcome};
use tanto_record::views::ninja::Verbosity;

use super::deferred_output::{Gate, Held};
use super::logs::Logs;
use super::{End, Invocation, Round, Step};
use crate::flags::low::ToolCall;

/// 128 and the number of SIGPIPE.
const KILLED_BY_PIPE: i32 = 141;

impl<'o> Invocation<'o> {
    /// Runs the tool if nothing has to be loaded for it. As the two below: nothing comes after a tool but, if it had
    /// to wait for its turn, the next round, which `Some` asks for.
    pub(super) fn tool_after_flags(&mut self) -> Step<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterFlags) else { return Ok(None) };
        let arena = Arena::new();
        self.run_tool(call, &mut arena.empty(), &no_logs()).map(Some)
    }

    /// Runs the tool if the graph is all that it needs.
    pub(super) fn tool_after_load(&mut self, graph: &mut Graph<'_>) -> Step<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterLoad) else { return Ok(None) };
        self.run_tool(call, graph, &no_logs()).map(Some)
    }

    /// Runs the tool, which needs the logs.
    pub(super) fn tool_after_logs(&mut self, graph: &mut Graph<'_>, logs: &Logs) -> Step<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterLogs) else { return Ok(None) };
        self.run_tool(call, graph, logs).map(Some)
    }

    fn tool(&self, when: RunAfter) -> Option<&'o ToolCall> {
        self.options.tool.as_ref().filter(|call| call.tool.when == when)
    }

    fn run_tool(&mut self, call: &ToolCall, graph: &mut Graph<'_>, logs: &Logs) -> Step<Round> {
        let builddir = match call.tool.when {
            RunAfter::AfterLogs => builddir::path(graph).to_vec(),
            RunAfter::AfterFlags | RunAfter::AfterLoad => Vec::new(),
        };
        let options = ToolOptions {
            program: self.options.door.name(),
            dry_run: self.options.dry_run,
            verbose: self.options.verbosity == Verbosity::Verbose,
            called: call.argv0.clone(),
            builddir,
            manifest: self.options.manifest.clone(),
            threads: self.options.threads,
        };
        let blocks = graph.blocks().cloned();
        let gate = Gate::new(blocks.as_deref(), self.threads());
        // A server never comes to the end of its answer.
        if call.tool.is_server() && !gate.opens() {
            return Ok(Round::AgainAfterWait);
        }
        let mut out = BufWriter::new(Held::new(&gate, io::stdout().lock()));
        let mut err = Held::new(&gate, io::stderr().lock());
        let mut context = Context {
            graph,
            build_log: &logs.build,
            deps_log: &logs.deps,
            disk: &mut RealDisk,
            options: &options,
            out: &mut out,
            err: &mut err,
            // What is written hangs on what was loaded.
            lock_build_dir: &mut |builddir| self.take_turn(builddir) || !gate.opens(),
        };
        let ended = call.tool.run(&mut context, &call.args);
        let out = out.into_parts().0;
        let ended = ended.and_then(|ended| out.end().and(err.end()).map(|()| ended));
        match ended {
            _ if self.doubts.are_right() => Ok(Round::AgainAfterWait),
            Ok(ToolOutcome::Rerun) => Ok(Round::AgainAfterWait),
            Ok(ToolOutcome::ExitCode(code)) => Err(End(code)),
            // Whoever read has read enough: ninja dies of the signal, which a shell sees as this code.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(End(KILLED_BY_PIPE)),
            Err(error) => Err(self.fatal(&[b"writing the answer: ", &tanto_sys::error::text(&error)[..]].concat())),
        }
    }
}

fn no_logs() -> Logs {
    Logs { build: BuildLog::in_memory(7), deps: DepsLog::in_memory() }
}
