//! The evaluation of one edge's variables. Does not know where their text came from.

use std::sync::Arc;

use super::{BindingBlock, Escape, shell_quote_into};
use crate::error::{Error, Result};
use crate::graph::GraphView;
use crate::graph::env::{END_OF_MANIFEST, Env};
use crate::hash::Set;
use crate::ids::{NodeId, RuleId, ScopeId};
use crate::paths::PathTable;
use crate::syntax::expansion::{ValuePart, ValueParts, append_value, check_length};

/// What dyndep files say about `restat`.
#[derive(Clone, Copy)]
pub(crate) struct DyndepRestat<'v> {
    /// The edge, which has bindings of its own, has this one too.
    pub(crate) edge: bool,
    /// So have these scopes.
    pub(crate) scopes: &'v Set<ScopeId>,
}

/// Where the paths of nodes are.
pub(crate) trait NodePaths {
    fn path_of(&self, node: NodeId) -> &[u8];
}

impl NodePaths for GraphView<'_> {
    fn path_of(&self, node: NodeId) -> &[u8] {
        self.path(node)
    }
}

impl NodePaths for PathTable {
    fn path_of(&self, node: NodeId) -> &[u8] {
        self.path(node)
    }
}

/// All that an edge's variables are made from.
pub(crate) struct EdgeVariables<'v> {
    pub(crate) env: &'v Env,
    pub(crate) paths: &'v dyn NodePaths,
    pub(crate) restat: DyndepRestat<'v>,
    pub(crate) rule: RuleId,
    pub(crate) rule_block: Arc<BindingBlock>,
    pub(crate) scope: ScopeId,
    /// Where in the manifests the edge stands.
    pub(crate) position: u32,
    /// Its own bindings, if it has some.
    pub(crate) bindings: Option<BindingBlock>,
    /// What `$in` and `$out` name.
    pub(crate) ins: &'v [NodeId],
    pub(crate) outs: &'v [NodeId],
}

impl EdgeVariables<'_> {
    /// The value of a variable; the scopes' as they are at a position.
    pub(crate) fn value(&self, name: &[u8], escape: Escape, position: u32) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.append(name, escape, position, &mut value)?;
        Ok(value)
    }

    /// Appends the value of a variable to nothing, or to what stands before it.
    pub(crate) fn append(&self, name: &[u8], escape: Escape, position: u32, value: &mut Vec<u8>) -> Result<()> {
        Evaluator { values: self, escape, position, within: Vec::new() }.append(name, value)
    }

    /// Appends the value that the edge's own environment gives, before its rule is asked: its bindings or, where it
    /// has none at all, its file's. False if it gives none.
    fn append_from_edge(&self, name: &[u8], position: u32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(block) = &self.bindings else { return Ok(append(self.in_scope(self.scope, name, position), out)) };
        if self.restat.edge && name == b"restat" {
            return Ok(append(Some(b"1"), out));
        }
        let Some(raw) = block.get(name) else { return Ok(false) };
        // Its values were meant where they stand.
        append_value(raw, out, |name| self.env.variable(self.scope, name, self.position))?;
        Ok(true)
    }

    fn in_scope(&self, scope: ScopeId, name: &[u8], position: u32) -> Option<&[u8]> {
        if name == b"restat" && position == END_OF_MANIFEST && self.restat.scopes.contains(&scope) {
            return Some(b"1");
        }
        if self.env.may_set(name) { self.env.variable_in(scope, name, position) } else { None }
    }

    /// The value that the scopes around the edge's own environment give.
    fn outer(&self, name: &[u8], position: u32) -> Option<&[u8]> {
        let mut next = if self.bindings.is_some() { Some(self.scope) } else { self.env.parent(self.scope) };
        while let Some(scope) = next {
            if let Some(value) = self.in_scope(scope, name, position) {
                return Some(value);
            }
            next = self.env.parent(scope);
        }
        None
    }

    /// The unevaluated value that the rule gives. A response file is the rule's alone: where a rule has none, no
    /// scope around gives it one.
    fn rule_value(&self, name: &[u8]) -> Option<&[u8]> {
        let none =
            || (self.rule != RuleId::PHONY && matches!(name, b"rspfile" | b"rspfile_content")).then_some(&b""[..]);
        self.rule_block.get(name).or_else(none)
    }
}

fn append(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    value.inspect(|value| out.extend_from_slice(value)).is_some()
}

/// One evaluation.
struct Evaluator<'e, 'v> {
    values: &'e EdgeVariables<'v>,
    escape: Escape,
    position: u32,
    /// The rule's variables that are being evaluated, but for the first: ninja lets it come once more.
    within: Vec<&'e [u8]>,
}

impl<'e> Evaluator<'e, '_> {
    fn append(&mut self, name: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.append_paths(name, out) {
            return Ok(());
        }
        let values = self.values;
        if values.append_from_edge(name, self.position, out)? {
        } else if let Some(raw) = values.rule_value(name) {
            self.append_raw(raw, out)?;
        } else {
            append(values.outer(name, self.position), out);
        }
        check_length(out, name)
    }

    fn append_raw(&mut self, raw: &'e [u8], out: &mut Vec<u8>) -> Result<()> {
        for piece in ValueParts(raw) {
            match piece {
                ValuePart::Text(text) => out.extend_from_slice(text),
                ValuePart::Variable(name) => self.append_nested(name, out)?,
            }
        }
        Ok(())
    }

    fn append_nested(&mut self, name: &'e [u8], out: &mut Vec<u8>) -> Result<()> {
        if let Some(first) = self.within.iter().position(|&outer| outer == name) {
            let cycle = [&self.within[first..], &[name]].concat().join(&b" -> "[..]);
            return Err(Error::fatal(&[b"cycle in rule variables: ", &cycle]));
        }
        let recorded = self.values.rule_value(name).is_some();
        if recorded {
            self.within.push(name);
        }
        self.append(name, out)?;
        if recorded {
            self.within.pop();
        }
        Ok(())
    }

    /// Appends the paths that the name stands for, if it does.
    fn append_paths(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let (nodes, separator) = match name {
            b"in" => (self.values.ins, b' '),
            b"in_newline" => (self.values.ins, b'\n'),
            b"out" => (self.values.outs, b' '),
            _ => return false,
        };
        for (number, &node) in nodes.iter().enumerate() {
            if number > 0 {
                out.push(separator);
            }
            let path = self.values.paths.path_of(node);
            match self.escape {
                Escape::Shell => shell_quote_into(path, out),
                Escape::None => out.extend_from_slice(path),
            }
        }
        true
    }
}
