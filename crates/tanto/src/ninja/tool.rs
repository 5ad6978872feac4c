//! `-t`: runs a tool instead of a build, after loading the files it needs.

use std::io::{self, BufWriter, ErrorKind};

use tanto_ninja::build_logs::BuildLogs;
use tanto_ninja::builddir;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::snapshot::deferred_output::{DeferredOutput, OutputGate};
use tanto_ninja::tools::{Context, RunAfter, ToolOptions, ToolOutcome};
use tanto_record::views::ninja::Verbosity;

use super::{BuildRun, ExitCode, Round, RunResult};
use crate::settings::parser::ToolCall;

/// 128 plus the number of SIGPIPE.
const KILLED_BY_PIPE: i32 = 141;

impl<'o> BuildRun<'o> {
    /// Runs a tool that needs no files. This and the two functions below return `Some` if the tool must run again in
    /// another round, and an exit code as the error otherwise.
    pub(super) fn tool_after_flags(&mut self) -> RunResult<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterFlags) else { return Ok(None) };
        let arena = Arena::new();
        self.run_tool(call, &mut arena.empty(), &BuildLogs::in_memory(None)).map(Some)
    }

    /// Runs a tool that needs the manifest.
    pub(super) fn tool_after_load(&mut self, graph: &mut Graph<'_>) -> RunResult<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterLoad) else { return Ok(None) };
        self.run_tool(call, graph, &BuildLogs::in_memory(None)).map(Some)
    }

    /// Runs a tool that needs the logs.
    pub(super) fn tool_after_logs(&mut self, graph: &mut Graph<'_>, logs: &BuildLogs) -> RunResult<Option<Round>> {
        let Some(call) = self.tool(RunAfter::AfterLogs) else { return Ok(None) };
        self.run_tool(call, graph, logs).map(Some)
    }

    fn tool(&self, when: RunAfter) -> Option<&'o ToolCall> {
        self.options.tool.as_ref().filter(|call| call.tool.when == when)
    }

    fn run_tool(&mut self, call: &ToolCall, graph: &mut Graph<'_>, logs: &BuildLogs) -> RunResult<Round> {
        let builddir = match call.tool.when {
            RunAfter::AfterLogs => builddir::path(graph).to_vec(),
            RunAfter::AfterFlags | RunAfter::AfterLoad => Vec::new(),
        };
        let options = ToolOptions {
            program: self.options.invocation.name(),
            dry_run: self.options.dry_run,
            verbose: self.options.settings.verbosity.value == Verbosity::Verbose,
            called: call.argv0.clone(),
            builddir,
            manifest: self.options.manifest.clone(),
            threads: self.options.settings.threads.value,
        };
        let blocks = graph.blocks().cloned();
        let gate = OutputGate::new(blocks.as_deref(), self.threads());
        // Deferring output is not possible for a server.
        if call.tool.is_server() && !gate.verify() {
            return Ok(Round::ReloadAfterWait);
        }
        let mut out = BufWriter::new(DeferredOutput::new(&gate, io::stdout().lock()));
        let mut err = DeferredOutput::new(&gate, io::stderr().lock());
        let mut context = Context {
            graph,
            build_log: &logs.build,
            deps_log: &logs.deps,
            disk: &mut RealDisk,
            options: &options,
            out: &mut out,
            err: &mut err,
            // Writes depend on the loaded graph, so verify it.
            lock_build_dir: &mut |builddir| self.lock_build_dir(builddir) || !gate.verify(),
        };
        let ended = call.tool.run(&mut context, &call.args);
        let out = out.into_parts().0;
        let ended = ended.and_then(|ended| out.end().and(err.end()).map(|()| ended));
        match ended {
            _ if self.checks.found_damage() => Ok(Round::ReloadAfterWait),
            Ok(ToolOutcome::Rerun) => Ok(Round::ReloadAfterWait),
            Ok(ToolOutcome::ExitCode(code)) => Err(ExitCode(code)),
            // The reader has closed the pipe. Ninja is killed by SIGPIPE, for which shells report this code.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ExitCode(KILLED_BY_PIPE)),
            Err(error) => Err(self.fatal(&[b"writing the answer: ", &tanto_sys::error::text(&error)[..]].concat())),
        }
    }
}
