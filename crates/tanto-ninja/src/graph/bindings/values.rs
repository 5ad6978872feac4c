//! Evaluation of the variables of one edge.

use std::sync::Arc;

use tanto_exec::text::shell;

use super::{BindingBlock, Escape};
use crate::error::{Error, Result};
use crate::graph::GraphView;
use crate::graph::env::{END_OF_MANIFEST, Env};
use crate::hash::Set;
use crate::ids::{NodeId, RuleId, ScopeId};
use crate::paths::PathTable;
use crate::syntax::expansion::{ValuePart, ValueParts, append_value, check_length};

/// `restat` set by dyndep files.
#[derive(Clone, Copy)]
pub(crate) struct DyndepRestat<'v> {
    /// The edge, which has bindings of its own, has this one too.
    pub(crate) edge: bool,
    /// Scopes with `restat`.
    pub(crate) scopes: &'v Set<ScopeId>,
}

/// Lookup of the path of a node.
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

/// The sources of an edge's variables.
pub(crate) struct EdgeVariables<'v> {
    pub(crate) env: &'v Env,
    pub(crate) paths: &'v dyn NodePaths,
    pub(crate) restat: DyndepRestat<'v>,
    pub(crate) rule: RuleId,
    pub(crate) rule_block: Arc<BindingBlock>,
    pub(crate) scope: ScopeId,
    /// Position of the edge in the manifests.
    pub(crate) position: u32,
    /// The edge's own bindings, if it has any.
    pub(crate) bindings: Option<BindingBlock>,
    /// The nodes of `$in` and `$out`.
    pub(crate) ins: &'v [NodeId],
    pub(crate) outs: &'v [NodeId],
}

impl EdgeVariables<'_> {
    /// Returns the value of a variable; variables of scopes have their values at `position`.
    pub(crate) fn value(&self, name: &[u8], escape: Escape, position: u32) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.append(name, escape, position, &mut value)?;
        Ok(value)
    }

    /// Appends the value of a variable.
    pub(crate) fn append(&self, name: &[u8], escape: Escape, position: u32, value: &mut Vec<u8>) -> Result<()> {
        Evaluator { values: self, escape, position, within: Vec::new() }.append(name, value)
    }

    /// Appends the value from the edge's own environment, which precedes the rule: its bindings or, if it has none at
    /// all, its file's variables. Returns false if there is no value.
    fn append_from_edge(&self, name: &[u8], position: u32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(block) = &self.bindings else { return Ok(append(self.in_scope(self.scope, name, position), out)) };
        if self.restat.edge && name == b"restat" {
            return Ok(append(Some(b"1"), out));
        }
        let Some(raw) = block.get(name) else { return Ok(false) };
        // Values of bindings are evaluated at the edge's position.
        append_value(raw, out, |name| self.env.variable(self.scope, name, self.position))?;
        Ok(true)
    }

    fn in_scope(&self, scope: ScopeId, name: &[u8], position: u32) -> Option<&[u8]> {
        if name == b"restat" && position == END_OF_MANIFEST && self.restat.scopes.contains(&scope) {
            return Some(b"1");
        }
        if self.env.may_set(name) { self.env.variable_in(scope, name, position) } else { None }
    }

    /// Returns the value from the scopes around the edge's own environment.
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

    /// Returns the unevaluated value from the rule. A response file belongs to the rule: without one, no outer scope
    /// can set it.
    fn rule_value(&self, name: &[u8]) -> Option<&[u8]> {
        let none =
            || (self.rule != RuleId::PHONY && matches!(name, b"rspfile" | b"rspfile_content")).then_some(&b""[..]);
        self.rule_block.get(name).or_else(none)
    }
}

fn append(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    value.inspect(|value| out.extend_from_slice(value)).is_some()
}

struct Evaluator<'e, 'v> {
    values: &'e EdgeVariables<'v>,
    escape: Escape,
    position: u32,
    /// The rule's variables under evaluation except the first, which ninja allows to occur once more.
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

    /// Appends the paths of `$in`, `$in_newline` or `$out`; returns false for another name.
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
                Escape::Shell => shell::quote_into(path, out),
                Escape::None => out.extend_from_slice(path),
            }
        }
        true
    }
}
