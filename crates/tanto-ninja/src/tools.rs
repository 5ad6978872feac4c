//! Ninja's `-t` tools: their table, and code that they share. To add a tool, add a row to [`TOOLS`].

use std::fmt;
use std::io::{self, Write};

use tanto_sys::threads::ThreadLimit;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::getopt::Bad;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{BuildLog, DepsLog};
use crate::targets::{self, LookupOptions};
use tanto_exec::text::suggest;

mod browse;
mod clean;
mod compdb;
mod flags;
mod graph;
mod listings;
mod missing_deps;
mod query;
mod rewrite_logs;
#[cfg(test)]
mod tests;
mod walk;

use self::flags::{Given, Plain, both, letter, name};
use RunAfter::{AfterFlags, AfterLoad, AfterLogs};

/// The files that must be loaded before a tool runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunAfter {
    /// No files; the graph is empty.
    AfterFlags,
    /// The manifest.
    AfterLoad,
    /// The manifest and both logs; `ToolOptions::builddir` is set.
    AfterLogs,
}

pub struct Tool {
    pub name: &'static str,
    /// `None` hides the tool from `-t list`.
    pub description: Option<&'static str>,
    pub when: RunAfter,
    run: fn(&mut Context<'_, '_>, &[Vec<u8>]) -> ToolResult,
}

impl PartialEq for Tool {
    /// Names are unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}

/// The command-line options that tools use.
#[derive(Clone, Default, Debug)]
pub struct ToolOptions {
    /// The prefix of messages; if empty, `ninja`.
    pub program: &'static str,
    /// `-n`: print actions without doing them.
    pub dry_run: bool,
    /// `-v`
    pub verbose: bool,
    /// The argument that named the tool (`clean` or `-tclean`), for usage errors.
    pub called: Vec<u8>,
    /// The manifest's `builddir`, or empty. Also empty if the tool does not run after the logs.
    pub builddir: Vec<u8>,
    /// `-f`
    pub manifest: Vec<u8>,
    /// For reading the logs.
    pub threads: ThreadLimit,
}

pub struct Context<'c, 't> {
    /// Tools load dyndep files into it.
    pub graph: &'c mut Graph<'t>,
    /// Empty unless the tool runs after the logs.
    pub build_log: &'c BuildLog,
    /// Empty unless the tool runs after the logs.
    pub deps_log: &'c DepsLog,
    pub disk: &'c mut dyn Disk,
    pub options: &'c ToolOptions,
    /// Buffered.
    pub out: &'c mut dyn Write,
    pub err: &'c mut dyn Write,
    /// Waits for the lock of a build directory (empty: the current directory). Returns true if it had to wait: then the
    /// loaded files may have changed. Tools call it before they write.
    pub lock_build_dir: &'c mut dyn FnMut(&[u8]) -> bool,
}

/// The outcome of running a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolOutcome {
    ExitCode(i32),
    /// The tool waited for the lock, and has not written or printed anything. The caller must load the files again and
    /// run the tool again.
    Rerun,
}

/// The reason a tool ended early.
enum ToolError {
    /// See `ToolOutcome::Rerun`.
    Rerun,
    /// `ninja: error: ...` or `ninja: fatal: ...`
    Error(Error),
    /// Print this usage on standard output.
    Usage(&'static str),
    /// Writing to standard output or error failed.
    Io(io::Error),
}

/// The exit code.
type ToolResult = std::result::Result<i32, ToolError>;

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        ToolError::Error(error)
    }
}

impl From<io::Error> for ToolError {
    fn from(error: io::Error) -> Self {
        ToolError::Io(error)
    }
}

/// All tools, in the order of `-t list`.
pub const TOOLS: &[Tool] = &[
    tool("browse", "browse dependency graph in a web browser", AfterLoad, browse::run),
    tool("clean", "clean built files", AfterLoad, clean::run),
    tool("commands", "list all commands required to rebuild given targets", AfterLoad, listings::commands),
    tool("inputs", "list all inputs required to rebuild given targets", AfterLoad, listings::inputs_of_targets),
    tool(
        "multi-inputs",
        "print one or more sets of inputs required to build targets",
        AfterLoad,
        listings::multi_inputs,
    ),
    tool("deps", "show dependencies stored in the deps log", AfterLogs, listings::deps),
    tool("missingdeps", "check deps log dependencies on generated files", AfterLogs, missing_deps::run),
    tool("graph", "output graphviz dot file for targets", AfterLoad, graph::run),
    tool("query", "show inputs/outputs for a path", AfterLogs, query::run),
    tool("targets", "list targets by their rule or depth in the DAG", AfterLoad, listings::targets_list),
    tool("compdb", "dump JSON compilation database to stdout", AfterLoad, compdb::run),
    tool(
        "compdb-targets",
        "dump JSON compilation database for a given list of targets to stdout",
        AfterLoad,
        compdb::run_for_targets,
    ),
    tool("recompact", "recompacts ninja-internal data structures", AfterLoad, rewrite_logs::run_recompact),
    tool("restat", "restats all outputs in the build log", AfterFlags, rewrite_logs::run_restat),
    tool("rules", "list all rules", AfterLoad, listings::rules),
    tool("cleandead", "clean built files that are no longer produced by the manifest", AfterLogs, clean::run_dead),
    Tool { name: "urtle", description: None, when: AfterFlags, run: listings::urtle },
];

const fn tool(
    name: &'static str,
    description: &'static str,
    when: RunAfter,
    run: fn(&mut Context<'_, '_>, &[Vec<u8>]) -> ToolResult,
) -> Tool {
    Tool { name, description: Some(description), when, run }
}

pub fn find(name: &[u8]) -> Result<&'static Tool> {
    if let Some(tool) = TOOLS.iter().find(|tool| tool.name.as_bytes() == name) {
        return Ok(tool);
    }
    let meant = suggest::did_you_mean(name, TOOLS.iter().map(|tool| tool.name.as_bytes()));
    Err(Error::fatal(&[b"unknown tool '", name, b"'", &meant]))
}

/// The output of `-t list`.
pub fn list() -> String {
    let line = |tool: &Tool| tool.description.map(|text| format!("{:>11}  {text}\n", tool.name));
    let lines: String = TOOLS.iter().filter_map(line).collect();
    format!("ninja subtools:\n{lines}")
}

impl Tool {
    pub fn is_read_only(&self) -> bool {
        !matches!(self.name, "clean" | "cleandead" | "recompact" | "restat")
    }

    /// The tool runs until it is killed.
    pub fn is_server(&self) -> bool {
        self.name == "browse"
    }

    /// Runs the tool and prints its messages. Errors are those of standard output or error, such as a closed pipe.
    pub fn run(&self, context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> io::Result<ToolOutcome> {
        let ended = match (self.run)(context, args) {
            Ok(code) => ToolOutcome::ExitCode(code),
            Err(stop) => context.report(stop)?,
        };
        context.out.flush()?;
        Ok(ended)
    }
}

impl<'t> Context<'_, 't> {
    fn report(&mut self, stop: ToolError) -> io::Result<ToolOutcome> {
        match stop {
            ToolError::Rerun => return Ok(ToolOutcome::Rerun),
            ToolError::Error(error) if error.is_fatal() => self.print_message(b"fatal", &error.text())?,
            ToolError::Error(error) => self.print_message(b"error", &error.text())?,
            ToolError::Usage(text) => self.out.write_all(text.as_bytes())?,
            ToolError::Io(error) => return Err(error),
        }
        Ok(ToolOutcome::ExitCode(1))
    }

    /// Must be called before anything is printed, or written below `builddir`.
    fn before_writing(&mut self, builddir: &[u8]) -> std::result::Result<(), ToolError> {
        if (self.lock_build_dir)(builddir) { Err(ToolError::Rerun) } else { Ok(()) }
    }

    /// Prints a line on standard error after flushing standard output.
    fn print_message(&mut self, level: &[u8], text: &[u8]) -> io::Result<()> {
        self.out.flush()?;
        let program = if self.options.program.is_empty() { "ninja" } else { self.options.program };
        self.err.write_all(&[program.as_bytes(), b": ", level, b": ", text, b"\n"].concat())
    }

    fn error(&mut self, text: &[u8]) -> io::Result<()> {
        self.print_message(b"error", text)
    }

    fn warn(&mut self, text: &[u8]) -> io::Result<()> {
        self.print_message(b"warning", text)
    }

    fn warn_if(&mut self, text: Option<Vec<u8>>) -> io::Result<()> {
        text.map_or(Ok(()), |text| self.warn(&text))
    }

    fn hints(&self) -> LookupOptions<'_> {
        LookupOptions { builddir: &self.options.builddir, deps_log: Some(self.deps_log), ..LookupOptions::default() }
    }

    fn target(&self, arg: &[u8]) -> Result<NodeId> {
        targets::collect_target(self.graph, self.hints(), arg)
    }

    fn targets(&self, args: &[Vec<u8>]) -> Result<Vec<NodeId>> {
        targets::collect_targets(self.graph, self.hints(), args)
    }

    fn rule_name(&self, edge: EdgeId) -> &'t [u8] {
        self.graph.rule_name(self.graph.edge(edge).rule)
    }
}

/// A tool's flags. `-h` prints the usage of every tool.
struct Flags {
    known: &'static [Plain],
    /// Printed for `-h` and after an error.
    usage: &'static str,
}

impl Flags {
    /// Reports errors like `getopt`, prefixed with the argument that named the tool.
    fn parse(&self, context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> std::result::Result<Given, ToolError> {
        match Given::read(self.known, args) {
            Ok(given) if given.has("h") => Err(ToolError::Usage(self.usage)),
            Ok(given) => Ok(given),
            Err(Bad { message: text, .. }) => {
                context.err.write_all(&[&context.options.called, b": ".as_slice(), &text, b"\n"].concat())?;
                Err(ToolError::Usage(self.usage))
            }
        }
    }
}
