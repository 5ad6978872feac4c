//! `-t clean`: removes what the manifest's edges make. Does not ask what was really built.

use std::collections::HashSet;
use std::io;

use super::dyndeps::Dyndeps;
use super::flags::{Flags, letter};
use super::walk::Walk;
use super::{Context, Outcome, Stop, stat_failed};
use crate::bindings::Escape;
use crate::canon;
use tanto_sys::error::text as text_of;

use crate::graph::{EdgeId, Graph, NodeId, RuleId, ScopeId};

const FLAGS: Flags = Flags {
    known: &[letter(b'h'), letter(b'g'), letter(b'r')],
    usage: "\
usage: ninja -t clean [options] [targets]

options:
  -g     also clean files marked as ninja generator output
  -r     interpret targets as a list of rules to clean instead
",
};

pub(super) fn run(context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Outcome {
    let parsed = FLAGS.parse(context, args)?;
    if parsed.has("r") && parsed.operands.is_empty() {
        return Err(Stop::Error("expected a rule to clean".into()));
    }
    let mut cleaner = Cleaner::start(context)?;
    match &parsed.operands[..] {
        [] => cleaner.all(parsed.has("g"))?,
        rules if parsed.has("r") => rules.iter().try_for_each(|name| cleaner.rule(name))?,
        targets => cleaner.targets(targets)?,
    }
    cleaner.end()
}

/// One run of `clean` or `cleandead`.
pub(super) struct Cleaner<'a, 'c, 't> {
    context: &'a mut Context<'c, 't>,
    tried: HashSet<Vec<u8>>,
    removed: usize,
    failed: bool,
}

impl<'a, 'c, 't> Cleaner<'a, 'c, 't> {
    /// Prints the head line and loads the dyndep files that are there, for the outputs that they add. One that does
    /// not load is passed over: what is known is cleaned.
    pub(super) fn start(context: &'a mut Context<'c, 't>) -> io::Result<Self> {
        let verbose = context.options.verbose || context.options.dry_run;
        context.out.write_all(if verbose { b"Cleaning...\n" } else { b"Cleaning... " })?;
        context.out.flush()?;
        let dyndeps = Dyndeps::new(context.graph);
        for edge in context.graph.edge_ids() {
            let _ = dyndeps.load(context, edge);
        }
        Ok(Cleaner { context, tried: HashSet::new(), removed: 0, failed: false })
    }

    /// The graph, with what the dyndep files say.
    pub(super) fn graph(&self) -> &Graph<'t> {
        self.context.graph
    }

    /// Prints the count; the exit code says whether all went well.
    pub(super) fn end(self) -> Outcome {
        writeln!(self.context.out, "{} files.", self.removed)?;
        Ok(i32::from(self.failed))
    }

    fn all(&mut self, generators_too: bool) -> Result<(), Stop> {
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

    fn targets(&mut self, names: &[Vec<u8>]) -> Result<(), Stop> {
        let mut walk = Walk::new(self.context.graph);
        for name in names {
            if name.is_empty() {
                self.fail(b"failed to canonicalize '': empty path")?;
                continue;
            }
            let mut path = Vec::new();
            canon::canonicalize_into(name, &mut path);
            let Some(target) = self.context.graph.lookup(&path) else {
                self.fail(&[b"unknown target '".as_slice(), &path, b"'"].concat())?;
                continue;
            };
            self.say_if_verbose(b"Target ", &path)?;
            walk.users_first(target, |node| self.made(node))?;
        }
        Ok(())
    }

    /// Removes one node and what lies beside it; says which nodes come next.
    fn made(&mut self, node: NodeId) -> Result<&'t [NodeId], Stop> {
        let Some(edge) = self.context.graph.node(node).in_edge else { return Ok(&[]) };
        if !self.context.graph.edge(edge).is_phony() {
            self.remove(self.context.graph.path(node))?;
            self.side_files(edge)?;
        }
        Ok(self.context.graph.edge(edge).ins)
    }

    /// Removes what all rules of this name make, in whatever scope they are, if the top scope has it.
    fn rule(&mut self, name: &[u8]) -> Result<(), Stop> {
        if self.top_rule(name).is_none() {
            return self.fail(&[b"unknown rule '", name, b"'"].concat());
        }
        self.say_if_verbose(b"Rule ", name)?;
        for edge in self.context.graph.edge_ids() {
            if self.context.rule_name(edge) == name {
                self.edge(edge)?;
            }
        }
        Ok(())
    }

    fn top_rule(&self, name: &[u8]) -> Option<RuleId> {
        self.context.graph.scopes[ScopeId::TOP.index()].rules.get(name).copied()
    }

    fn edge(&mut self, edge: EdgeId) -> Result<(), Stop> {
        for &out in self.context.graph.edge(edge).outs {
            self.remove(self.context.graph.path(out))?;
        }
        self.side_files(edge)
    }

    /// Removes an edge's depfile and response file.
    fn side_files(&mut self, edge: EdgeId) -> Result<(), Stop> {
        for name in [b"depfile".as_slice(), b"rspfile"] {
            let path = self.context.graph.binding(edge, name, Escape::None)?;
            if !path.is_empty() {
                self.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes a file once, and reports it; in a dry run only reports it.
    pub(super) fn remove(&mut self, path: &[u8]) -> Result<(), Stop> {
        if !self.tried.insert(path.to_vec()) {
            return Ok(());
        }
        let found = match self.context.options.dry_run {
            true => self.context.disk.mtime(path).map(|mtime| mtime != 0),
            false => self.context.disk.remove(path),
        };
        match found {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.removed += 1;
                self.say_if_verbose(b"Remove ", path)
            }
            Err(error) => self.could_not(path, &error),
        }
    }

    fn could_not(&mut self, path: &[u8], error: &io::Error) -> Result<(), Stop> {
        if self.context.options.dry_run {
            // A file that cannot be looked at counts as missing.
            return Ok(self.context.error(&stat_failed(path, error))?);
        }
        self.fail(&text_of(error))
    }

    fn fail(&mut self, text: &[u8]) -> Result<(), Stop> {
        self.failed = true;
        Ok(self.context.error(text)?)
    }

    fn say_if_verbose(&mut self, what: &[u8], name: &[u8]) -> Result<(), Stop> {
        if self.context.options.verbose || self.context.options.dry_run {
            self.context.out.write_all(&[what, name, b"\n"].concat())?;
        }
        Ok(())
    }
}
