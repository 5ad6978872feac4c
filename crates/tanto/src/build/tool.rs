//! `-t`: runs a tool instead of a build, as soon as what it needs is loaded. Does not know what the tools do.

use std::io::{self, BufWriter, ErrorKind};

use bumpalo::Bump;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::graph::{Graph, ScopeId};
use tanto_ninja::log::{BuildLog, DepsLog};
use tanto_ninja::tools::{self, Context, Options, Tool, When};

use tanto_record::ninja::Verbosity;

use super::logs::Logs;
use super::{End, Session, Step};
use crate::flags;

/// 128 and the number of SIGPIPE.
const KILLED_BY_PIPE: i32 = 141;

impl Session<'_> {
    /// Runs the tool if nothing has to be loaded for it.
    pub(super) fn tool_after_flags(&mut self) -> Step<()> {
        let Some(tool) = self.tool(When::AfterFlags) else { return Ok(()) };
        let arena = Bump::new();
        Err(self.run_tool(tool, &mut Graph::new(&arena), &no_logs()))
    }

    /// Runs the tool if the graph is all that it needs.
    pub(super) fn tool_after_load(&mut self, graph: &mut Graph<'_>) -> Step<()> {
        let Some(tool) = self.tool(When::AfterLoad) else { return Ok(()) };
        if !self.only_reads() {
            let builddir = graph.variable(ScopeId::TOP, b"builddir").unwrap_or(b"");
            self.take_turn(builddir);
        }
        Err(self.run_tool(tool, graph, &no_logs()))
    }

    /// Runs the tool, which needs the logs.
    pub(super) fn tool_after_logs(&mut self, graph: &mut Graph<'_>, logs: &Logs) -> Step<()> {
        let Some(tool) = self.tool(When::AfterLogs) else { return Ok(()) };
        Err(self.run_tool(tool, graph, logs))
    }

    fn tool(&self, when: When) -> Option<&'static Tool> {
        named(self.options).filter(|tool| tool.when == when)
    }

    fn run_tool(&mut self, tool: &Tool, graph: &mut Graph<'_>, logs: &Logs) -> End {
        let (args, called) = match &self.options.tool {
            Some(call) => (call.args.as_slice(), call.argv0.clone()),
            None => (&[] as &[Vec<u8>], Vec::new()),
        };
        let builddir = match tool.when {
            When::AfterLogs => graph.variable(ScopeId::TOP, b"builddir").unwrap_or(b"").to_vec(),
            When::AfterFlags | When::AfterLoad => Vec::new(),
        };
        let options = Options {
            program: self.options.door.name(),
            dry_run: self.options.dry_run,
            verbose: self.options.verbosity == Verbosity::Verbose,
            called,
            builddir,
            manifest: self.options.manifest.clone(),
        };
        let mut context = Context {
            graph,
            build_log: &logs.build,
            deps_log: &logs.deps,
            disk: &mut RealDisk,
            options: &options,
            out: &mut BufWriter::new(io::stdout().lock()),
            err: &mut io::stderr().lock(),
        };
        match tool.run(&mut context, args) {
            Ok(code) => End(code),
            // Whoever read has read enough: ninja dies of the signal, which a shell sees as this code.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => End(KILLED_BY_PIPE),
            Err(error) => self.fatal(&[b"writing the answer: ", &tanto_sys::error::text(&error)[..]].concat()),
        }
    }
}

/// The tool that the options ask for.
pub fn named(options: &flags::Options) -> Option<&'static Tool> {
    options.tool.as_ref().and_then(|call| tools::find(call.name.as_bytes()).ok())
}

fn no_logs() -> Logs {
    Logs { build: BuildLog::in_memory(7), deps: DepsLog::in_memory() }
}
