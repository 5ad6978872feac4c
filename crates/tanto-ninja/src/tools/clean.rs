//! `-t clean` and `-t cleandead`: remove outputs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use super::walk::{Dyndeps, NodeWalk};
use super::{Context, Flags, ToolError, ToolResult, letter};
use crate::builddir;
use crate::canon::canonical;
use crate::graph::Escape;
use tanto_sys::error::text as text_of;

use crate::error::Error;
use crate::graph::Graph;
use crate::ids::{EdgeId, NodeId, RuleId};

const FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'g'), letter(b'r')],
    usage: "\
usage: ninja -t clean [options] [targets]

options:
  -g     also clean files marked as ninja generator output
  -r     interpret targets as a list of rules to clean instead
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> ToolResult {
    let parsed = FLAGS.parse(context, args)?;
    if parsed.has("r") && parsed.operands.is_empty() {
        return Err(ToolError::Error("expected a rule to clean".into()));
    }
    let mut cleaner = Cleaner::new(context);
    let listed = match &parsed.operands[..] {
        [] => cleaner.all(parsed.has("g")),
        rules if parsed.has("r") => rules.iter().try_for_each(|name| cleaner.rule(name)),
        targets => cleaner.targets(targets),
    };
    cleaner.execute(listed)
}

enum CleanAction<'c> {
    /// Removes a file if it exists.
    Remove(Cow<'c, [u8]>),
    /// Prints a line in verbose mode.
    Print(Vec<u8>),
    /// Prints an error and sets the exit code.
    Error(Vec<u8>),
}

/// Collects all actions before executing them, so that the build directory is locked only if there is something to
/// remove.
pub(super) struct Cleaner<'a, 'c, 't> {
    context: &'a mut Context<'c, 't>,
    steps: Vec<CleanAction<'c>>,
    listed: HashSet<Cow<'c, [u8]>>,
}

impl<'a, 'c, 't> Cleaner<'a, 'c, 't> {
    /// Loads existing dyndep files for the outputs that they add, and ignores errors in them.
    pub(super) fn new(context: &'a mut Context<'c, 't>) -> Self {
        let dyndeps = Dyndeps::new(context.graph);
        for edge in context.graph.edge_ids() {
            let _ = dyndeps.load(context, edge);
        }
        Cleaner { context, steps: Vec::new(), listed: HashSet::new() }
    }

    pub(super) fn graph(&self) -> &Graph<'t> {
        self.context.graph
    }

    fn all(&mut self, generators_too: bool) -> Result<(), ToolError> {
        for edge in self.context.graph.edge_ids() {
            if self.context.graph.edge(edge).is_phony() {
                continue;
            }
            if !generators_too && self.context.graph.flag(edge, b"generator")? {
                continue;
            }
            self.edge(edge)?;
        }
        Ok(())
    }

    fn targets(&mut self, names: &[Vec<u8>]) -> Result<(), ToolError> {
        let mut walk = NodeWalk::new(self.context.graph);
        for name in names {
            if name.is_empty() {
                self.fail(b"failed to canonicalize '': empty path");
                continue;
            }
            let path = canonical(name);
            let Some(target) = self.context.graph.lookup(&path) else {
                self.fail(&[b"unknown target '".as_slice(), &path, b"'"].concat());
                continue;
            };
            self.tell(b"Target ", &path);
            walk.pre_order(target, |node| self.made(node))?;
        }
        Ok(())
    }

    /// Removes an output and its depfile and response file; returns the nodes to visit next.
    fn made(&mut self, node: NodeId) -> Result<&'t [NodeId], ToolError> {
        let Some(edge) = self.context.graph.in_edge(node) else { return Ok(&[]) };
        if !self.context.graph.edge(edge).is_phony() {
            self.remove(self.context.graph.path(node).into());
            self.side_files(edge)?;
        }
        Ok(self.context.graph.edge(edge).ins)
    }

    /// Removes the outputs of all rules with this name, in any scope, if the top scope has such a rule.
    fn rule(&mut self, name: &[u8]) -> Result<(), ToolError> {
        if self.top_rule(name).is_none() {
            self.fail(&[b"unknown rule '", name, b"'"].concat());
            return Ok(());
        }
        self.tell(b"Rule ", name);
        for edge in self.context.graph.edge_ids() {
            if self.context.rule_name(edge) == name {
                self.edge(edge)?;
            }
        }
        Ok(())
    }

    fn top_rule(&self, name: &[u8]) -> Option<RuleId> {
        self.context.graph.top_rule(name)
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), ToolError> {
        for &out in self.context.graph.edge(edge).outs {
            self.remove(self.context.graph.path(out).into());
        }
        self.side_files(edge)
    }

    /// Removes an edge's depfile and response file.
    fn side_files(&mut self, edge: EdgeId) -> Result<(), ToolError> {
        for name in [b"depfile".as_slice(), b"rspfile"] {
            let path = self.context.graph.binding(edge, name, Escape::None)?;
            if !path.is_empty() {
                self.remove(path.into());
            }
        }
        Ok(())
    }

    /// Adds a file, unless it was added before.
    pub(super) fn remove(&mut self, path: Cow<'c, [u8]>) {
        if self.listed.insert(path.clone()) {
            self.steps.push(CleanAction::Remove(path));
        }
    }

    fn tell(&mut self, what: &[u8], name: &[u8]) {
        self.steps.push(CleanAction::Print([what, name].concat()));
    }

    fn fail(&mut self, text: &[u8]) {
        self.steps.push(CleanAction::Error(text.into()));
    }

    /// Executes the actions and prints the number of removed files. The exit code is 1 after any error. If collecting
    /// the actions failed, returns that error after executing them.
    pub(super) fn execute(self, listed: Result<(), ToolError>) -> ToolResult {
        let Cleaner { context, steps, .. } = self;
        let dry_run = context.options.dry_run;
        if !dry_run && is_something_there(context, &steps) {
            context.before_writing(builddir::path(context.graph))?;
        }
        let verbose = context.options.verbose || dry_run;
        context.out.write_all(if verbose { b"Cleaning...\n" } else { b"Cleaning... " })?;
        context.out.flush()?;
        let mut work = Execution { context, verbose, dry_run, removed: 0, failed: false };
        steps.iter().try_for_each(|step| work.step(step))?;
        listed?;
        writeln!(work.context.out, "{} files.", work.removed)?;
        Ok(i32::from(work.failed))
    }
}

/// Returns whether a file to remove exists. A file that cannot be checked may exist.
fn is_something_there(context: &mut Context<'_, '_>, steps: &[CleanAction<'_>]) -> bool {
    steps.iter().any(|step| match step {
        CleanAction::Remove(path) => !context.disk.mtime(path).is_ok_and(|mtime| mtime == 0),
        CleanAction::Print(_) | CleanAction::Error(_) => false,
    })
}

struct Execution<'a, 'c, 't> {
    context: &'a mut Context<'c, 't>,
    verbose: bool,
    dry_run: bool,
    removed: usize,
    failed: bool,
}

impl Execution<'_, '_, '_> {
    fn step(&mut self, step: &CleanAction<'_>) -> io::Result<()> {
        match step {
            CleanAction::Remove(path) => self.remove(path),
            CleanAction::Print(line) if self.verbose => self.context.out.write_all(&[line, b"\n".as_slice()].concat()),
            CleanAction::Print(_) => Ok(()),
            CleanAction::Error(text) => self.fail(text),
        }
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<()> {
        let found = match self.dry_run {
            true => self.context.disk.mtime(path).map(|mtime| mtime != 0),
            false => self.context.disk.remove(path),
        };
        match found {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.removed += 1;
                self.step(&CleanAction::Print([b"Remove ", path].concat()))
            }
            // A file that cannot be checked counts as missing.
            Err(error) if self.dry_run => self.context.error(&Error::stat(path, &error).text()),
            Err(error) => self.fail(&text_of(&error)),
        }
    }

    fn fail(&mut self, text: &[u8]) -> io::Result<()> {
        self.failed = true;
        self.context.error(text)
    }
}

/// `-t cleandead`: removes outputs that the build log contains but the manifest no longer names.
pub(super) fn run_dead(context: &mut Context<'_, '_>, _args: &[Vec<u8>]) -> ToolResult {
    let build_log = context.build_log;
    let mut cleaner = Cleaner::new(context);
    let graph = cleaner.graph();
    let named = named_by_edges(graph);
    let is_named = |path: &[u8]| graph.lookup(path).is_some_and(|node| named[node.index()]);
    let dead: Vec<_> = build_log.entries(graph).map(|(path, _)| path).filter(|path| !is_named(path)).collect();
    for path in dead {
        cleaner.remove(path.into());
    }
    cleaner.execute(Ok(()))
}

/// For each node, whether an edge has it as an output or input. The deps log may have added other nodes.
fn named_by_edges(graph: &Graph<'_>) -> Vec<bool> {
    let mut named = vec![false; graph.node_count()];
    for node in graph.edges().flat_map(|edge| edge.outs.iter().chain(edge.ins)) {
        named[node.index()] = true;
    }
    named
}
