//! Evaluation of variables of an edge: `$in`, `$out`, its bindings, its rule's, its scopes'.

mod block;
mod commands;
mod values;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::GraphView;
use crate::graph::env::END_OF_MANIFEST;
use crate::graph::manifest_data::HAS_BINDINGS;
use crate::ids::{EdgeId, RuleId, ScopeId};
use crate::syntax::statements::{Span, reserved_bit};

pub(crate) use self::block::{BindingBlock, RuleBlockCache};
pub use self::commands::CommandEvaluator;
pub(crate) use self::values::{DyndepRestat, EdgeVariables};

/// Quoting of `$in` and `$out`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// Quoted for the shell where needed: for commands and everything else that is not a file name.
    Shell,
    /// Unquoted: for `depfile`, `dyndep` and `rspfile`.
    None,
}

impl<'t> GraphView<'t> {
    /// Returns the value of a variable for an edge; empty if it is not set. Fails on a cycle among the rule's
    /// variables, or if a manifest has changed.
    pub fn binding(&self, edge: EdgeId, name: &[u8], escape: Escape) -> Result<Vec<u8>> {
        if self.known_set(edge, name) == Some(false) {
            return Ok(Vec::new());
        }
        self.checked(self.values(edge)?.value(name, escape, END_OF_MANIFEST)?)
    }

    /// Returns true if the variable has a nonempty value, such as `restat` or `generator`. Includes `restat` from a
    /// dyndep file.
    pub fn flag(&self, edge: EdgeId, name: &[u8]) -> Result<bool> {
        match self.known_set(edge, name) {
            Some(set) => Ok(set),
            None => Ok(!self.binding(edge, name, Escape::Shell)?.is_empty()),
        }
    }

    /// Returns the command as hashed for the log: followed by `;rspfile=` and the content of the response file, if
    /// there is one.
    pub fn command_for_hash(&self, edge: EdgeId) -> Result<Vec<u8>> {
        let mut command = Vec::new();
        self.append_for_hash(edge, &self.values(edge)?, &mut command)?;
        self.checked(command)
    }

    /// Returns the text unless the graph's snapshot is damaged.
    fn checked(&self, text: Vec<u8>) -> Result<Vec<u8>> {
        self.check()?;
        Ok(text)
    }

    fn check(&self) -> Result<()> {
        if self.data.is_damaged() { Err(Error::SnapshotDamaged) } else { Ok(()) }
    }

    /// Returns the hash of the command; computed with `make` if it is not known. `kind` names the hash function.
    pub(crate) fn command_hash(&self, edge: EdgeId, kind: u32, make: impl FnOnce(&[u8]) -> u64) -> Result<u64> {
        if let Some(hash) = self.known_command_hash(edge, kind) {
            return Ok(hash);
        }
        let hash = make(&self.command_for_hash(edge)?);
        self.note_command_hash(edge, kind, hash);
        Ok(hash)
    }

    /// Like `command_hash`, with the command given as `line`.
    pub(crate) fn hash_of(&self, edge: EdgeId, line: &[u8], kind: u32, make: impl FnOnce(&[u8]) -> u64) -> Result<u64> {
        if self.known_set(edge, b"rspfile_content") != Some(false) {
            return self.command_hash(edge, kind, make);
        }
        let known = self.known_command_hash(edge, kind);
        let hash = known.unwrap_or_else(|| make(line));
        if known.is_none() {
            self.note_command_hash(edge, kind, hash);
        }
        Ok(hash)
    }

    /// Returns the hash of the edge's command if it is known.
    pub(crate) fn known_command_hash(&self, edge: EdgeId, kind: u32) -> Option<u64> {
        // A command may contain `$restat`, which a dyndep file changes for this run only.
        if self.has_dyndep_restats() { None } else { self.data.hashes.get(edge, kind) }
    }

    /// Stores the hash of the edge's command.
    pub(crate) fn note_command_hash(&self, edge: EdgeId, kind: u32, hash: u64) {
        if !self.has_dyndep_restats() {
            self.data.hashes.put(edge, kind, hash, self.edge_count());
        }
    }

    fn append_for_hash(&self, edge: EdgeId, values: &EdgeVariables<'_>, command: &mut Vec<u8>) -> Result<()> {
        values.append(b"command", Escape::Shell, END_OF_MANIFEST, command)?;
        if self.known_set(edge, b"rspfile_content") != Some(false) {
            let content = values.value(b"rspfile_content", Escape::Shell, END_OF_MANIFEST)?;
            if !content.is_empty() {
                command.extend_from_slice(b";rspfile=");
                command.extend_from_slice(&content);
            }
        }
        Ok(())
    }

    /// Returns the unevaluated value of a rule's variable.
    pub fn rule_text(&self, rule: RuleId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let block = self.rule_block(rule)?;
        Ok(block.get(name).map(<[u8]>::to_vec))
    }

    /// Returns whether a rule variable has a nonempty value; `None` if that needs its text.
    fn known_set(&self, edge: EdgeId, name: &[u8]) -> Option<bool> {
        let bit = reserved_bit(name)?;
        let shape = self.data.edges.get(edge.index());
        if shape.reserved & bit != 0 || self.may_set(name) || self.restat_edges.contains(&edge) {
            return None;
        }
        let rule = self.data.env.rule(RuleId(shape.rule));
        if rule.set_vars & bit == 0 {
            return Some(false);
        }
        (rule.dynamic & bit == 0).then_some(rule.nonempty & bit != 0)
    }

    /// Returns true if a scope may set the variable. Saves lookups, since hardly any file sets these.
    fn may_set(&self, name: &[u8]) -> bool {
        self.data.env.may_set(name) || (!self.restat_scopes.is_empty() && name == b"restat")
    }

    fn rule_block(&self, rule: RuleId) -> Result<Arc<BindingBlock>> {
        self.data.rule_blocks.get(rule, || self.data.manifests.read(self.data.env.rule(rule).span))
    }

    fn values(&self, edge: EdgeId) -> Result<EdgeVariables<'_>> {
        let bindings = match self.bindings_span(edge) {
            None => None,
            Some(span) => Some(BindingBlock::new(self.data.manifests.read(span)?.into_owned())),
        };
        let rule = RuleId(self.data.edges.get(edge.index()).rule);
        Ok(self.values_of(edge, bindings, self.rule_block(rule)?))
    }

    /// Returns the location of the edge's bindings, if it has any.
    fn bindings_span(&self, edge: EdgeId) -> Option<Span> {
        let shape = self.data.edges.get(edge.index());
        (shape.flags & HAS_BINDINGS != 0).then(|| self.data.edge_bindings.get(edge.index()).span)
    }

    fn values_of(
        &self,
        edge: EdgeId,
        bindings: Option<BindingBlock>,
        rule_block: Arc<BindingBlock>,
    ) -> EdgeVariables<'_> {
        let data = self.data;
        let it = self.edge(edge);
        let restat = DyndepRestat { edge: self.restat_edges.contains(&edge), scopes: &self.restat_scopes };
        EdgeVariables {
            env: &data.env,
            paths: self,
            restat,
            rule: it.rule,
            rule_block,
            scope: ScopeId(data.edge_bindings.get(edge.index()).scope),
            position: edge.0,
            bindings,
            ins: it.explicit(),
            outs: &it.outs[..it.explicit_outs as usize],
        }
    }
}
