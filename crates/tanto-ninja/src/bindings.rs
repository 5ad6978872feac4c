//! What a variable means for an edge: `$in`, `$out`, its own bindings, its rule's, its scopes'. Does not know what
//! the values are for.

mod block;
mod values;

use crate::error::{Error, Result};
use crate::graph::base::HAS_BINDINGS;
use crate::graph::env::AT_THE_END;
use crate::graph::{EdgeId, Known, RuleId, ScopeId};

pub(crate) use self::block::{Block, Cache};
pub(crate) use self::values::{Restat, Values};

/// How `$in` and `$out` are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// Quoted for the shell where needed: for commands and everything that is not a file name.
    Shell,
    /// As they are: for `depfile`, `dyndep` and `rspfile`.
    None,
}

/// The variables that a rule may have. An edge and a scope may have any.
pub(crate) const RESERVED: [&[u8]; 11] = [
    b"command",
    b"depfile",
    b"deps",
    b"description",
    b"dyndep",
    b"generator",
    b"msvc_deps_prefix",
    b"pool",
    b"restat",
    b"rspfile",
    b"rspfile_content",
];

/// The bit by which a variable that a rule may have is told in sets of such.
pub(crate) fn reserved_bit(name: &[u8]) -> Option<u16> {
    RESERVED.iter().position(|reserved| *reserved == name).map(|at| 1 << at)
}

/// May a rule have this variable?
pub fn is_reserved(name: &[u8]) -> bool {
    reserved_bit(name).is_some()
}

/// Appends `text` as one word of a shell's command line, quoted only where needed.
pub fn shell_quote_into(text: &[u8], out: &mut Vec<u8>) {
    let safe = |b: &u8| b.is_ascii_alphanumeric() || b"_+-./".contains(b);
    if text.iter().all(safe) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'\'');
    for (number, part) in text.split(|&b| b == b'\'').enumerate() {
        if number > 0 {
            out.extend_from_slice(b"'\\''");
        }
        out.extend_from_slice(part);
    }
    out.push(b'\'');
}

impl<'t> Known<'t> {
    /// The value of a variable for an edge; empty where nothing sets it. An error is a cycle among the rule's
    /// variables, or a manifest that has changed.
    pub fn binding(&self, edge: EdgeId, name: &[u8], escape: Escape) -> Result<Vec<u8>> {
        if self.plainly_set(edge, name) == Some(false) {
            return Ok(Vec::new());
        }
        self.checked(self.values(edge)?.value(name, escape, AT_THE_END)?)
    }

    /// Is the variable set to something? (`restat`, `generator`; a dyndep file's `restat` counts.)
    pub fn flag(&self, edge: EdgeId, name: &[u8]) -> Result<bool> {
        match self.plainly_set(edge, name) {
            Some(set) => Ok(set),
            None => Ok(!self.binding(edge, name, Escape::Shell)?.is_empty()),
        }
    }

    /// The command, for the log's hash: with `;rspfile=` and the response file's content where there is one.
    pub fn command_for_hash(&self, edge: EdgeId) -> Result<Vec<u8>> {
        let values = self.values(edge)?;
        let mut command = values.value(b"command", Escape::Shell, AT_THE_END)?;
        if self.plainly_set(edge, b"rspfile_content") != Some(false) {
            let content = values.value(b"rspfile_content", Escape::Shell, AT_THE_END)?;
            if !content.is_empty() {
                command.extend_from_slice(b";rspfile=");
                command.extend_from_slice(&content);
            }
        }
        self.checked(command)
    }

    /// Text that was made from the graph, which may lie in a file that is damaged, or is being changed right now.
    fn checked(&self, text: Vec<u8>) -> Result<Vec<u8>> {
        if self.base.is_damaged() { Err(Error::from("the snapshot is damaged")) } else { Ok(text) }
    }

    /// A hash of the command of some kind, which `make` makes of the command if it is not known.
    pub(crate) fn command_hash(&self, edge: EdgeId, kind: u32, make: impl FnOnce(&[u8]) -> u64) -> Result<u64> {
        if let Some(hash) = self.base.hashes.get(edge, kind) {
            return Ok(hash);
        }
        let hash = make(&self.command_for_hash(edge)?);
        self.base.hashes.put(edge, kind, hash, self.edge_count());
        Ok(hash)
    }

    /// The unevaluated value that a rule gives to a variable.
    pub fn rule_text(&self, rule: RuleId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let block = self.rule_block(rule)?;
        Ok(block.get(name).map(<[u8]>::to_vec))
    }

    /// Whether a variable that a rule may have is set to something, if that can be told without its text.
    fn plainly_set(&self, edge: EdgeId, name: &[u8]) -> Option<bool> {
        let bit = reserved_bit(name)?;
        let shape = self.base.edges.get(edge.index());
        if shape.own & bit != 0 || self.may_set(name) || self.restat_edges.contains(&edge) {
            return None;
        }
        let rule = self.base.env.rule(RuleId(shape.rule));
        if rule.sets & bit == 0 {
            return Some(false);
        }
        (rule.variable & bit == 0).then_some(rule.full & bit != 0)
    }

    /// May a scope set it? Spares the look-ups of what every edge is asked for and hardly any file sets.
    fn may_set(&self, name: &[u8]) -> bool {
        self.base.env.may_set(name) || (!self.restat_scopes.is_empty() && name == b"restat")
    }

    fn rule_block(&self, rule: RuleId) -> Result<std::sync::Arc<Block>> {
        self.base.rule_blocks.get(rule, || self.base.manifests.read(self.base.env.rule(rule).span))
    }

    fn values(&self, edge: EdgeId) -> Result<Values<'_>> {
        let base = self.base;
        let (shape, text) = (base.edges.get(edge.index()), base.texts.get(edge.index()));
        let it = self.edge(edge);
        let own = match shape.flags & HAS_BINDINGS {
            0 => None,
            _ => Some(Block::new(base.manifests.read(text.span)?.into_owned())),
        };
        let restat = Restat { edge: self.restat_edges.contains(&edge), scopes: &self.restat_scopes };
        Ok(Values {
            env: &base.env,
            paths: self,
            restat,
            rule: it.rule,
            rule_block: self.rule_block(it.rule)?,
            scope: ScopeId(text.scope),
            place: edge.0,
            own,
            ins: it.explicit(),
            outs: &it.outs[..it.explicit_outs as usize],
        })
    }
}
