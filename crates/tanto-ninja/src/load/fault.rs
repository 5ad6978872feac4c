//! What is wrong with an edge, worded and pointed at as ninja does. Looks at one edge alone, after all has been read.

use super::chunk::RawEdge;
use super::chunk::shape;
use super::link::Linker;
use super::order::{Segment, Text, unknown_rule};
use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::bindings::Block;
use crate::ids::{EdgeId, NodeId, RuleId};
use crate::syntax::expansion::append_value;
use crate::syntax::lexer::{Lexer, Raw, did_you_mean};
use crate::syntax::statements::{self, BuildPaths};

/// An edge that is looked at again.
pub(super) struct Suspect<'s> {
    pub(super) linker: &'s Linker<'s>,
    pub(super) in_edges: &'s [EdgeId],
    pub(super) segment: &'s Segment,
    pub(super) raw: &'s RawEdge,
    pub(super) id: u32,
}

impl Suspect<'_> {
    /// The first thing that is wrong with the edge.
    ///
    /// Paths are evaluated after all has been read, since they may use the statement's own variables. So the errors
    /// from there on point at what comes behind it, as ninja's do.
    pub(super) fn error(&self) -> Error {
        let file = &self.linker.files[self.segment.file];
        let whole = file.source.as_ref().map_or(&[][..], |source| source.bytes());
        let text = Text { path: &file.path, whole, end: file.end() };
        let mut lexer = text.statement(self.raw.at).0;
        let found = self.look(&mut lexer);
        found.err().unwrap_or_else(|| lexer.error(&[b"the manifest has changed while it was read"]))
    }

    fn look<'t>(&self, lexer: &mut Lexer<'t>) -> Result<()> {
        let mut raws = BuildPaths::default();
        let line = statements::build_line(lexer, &mut raws, |lexer, name| self.rule(lexer, name).map(|_| ()))?;
        let rule = self.rule(lexer, line.rule)?;
        while statements::binding(lexer)?.is_some() {}
        self.pool(lexer, &raws, rule)?;
        let outs = self.outs(lexer, &raws)?;
        let ins = self.nodes(lexer, &raws.ins)?;
        self.nodes(lexer, &raws.validations)?;
        let shape = shape(&line, &raws);
        let explicit = [&ins[..shape.explicit_ins as usize], &outs[..shape.explicit_outs as usize]];
        self.dyndep(lexer, &raws, rule, &ins, explicit)
    }

    fn rule(&self, lexer: &Lexer<'_>, name: &[u8]) -> Result<RuleId> {
        let (env, scope) = (self.linker.env, self.segment.scope);
        env.rule_for(scope, name, self.id).ok_or_else(|| unknown_rule(lexer, name, env.rule_names(scope, self.id)))
    }

    fn pool(&self, lexer: &Lexer<'_>, raws: &BuildPaths<'_>, rule: RuleId) -> Result<()> {
        let name = self.linker.pool_name(self.segment, (self.id, self.raw), rule);
        let name = name.map_err(|error| if error.fatal { error } else { lexer.error(&[&error.text]) })?;
        let env = self.linker.env;
        if name.is_empty() || env.pool_named(&name, self.id).is_some() {
            return Ok(());
        }
        let error = about(lexer, raws, &[b"unknown pool name '", &name, b"'"]);
        Err(did_you_mean(error, &name, env.pool_names(self.id)))
    }

    fn outs<'t>(&self, lexer: &Lexer<'t>, raws: &BuildPaths<'t>) -> Result<Vec<NodeId>> {
        let mut outs = Vec::new();
        for &raw in &raws.outs {
            let node = self.node(lexer, raw)?;
            let path = self.linker.paths.path(node);
            if outs.contains(&node) {
                return Err(lexer.error_about(raw.text, &[path, b" is defined as an output multiple times"]));
            }
            if self.in_edges[node.index()] < EdgeId(self.id) {
                return Err(lexer.error_about(raw.text, &[b"multiple rules generate ", path]));
            }
            outs.push(node);
        }
        Ok(outs)
    }

    fn nodes<'t>(&self, lexer: &Lexer<'t>, raws: &[Raw<'t>]) -> Result<Vec<NodeId>> {
        raws.iter().map(|raw| self.node(lexer, *raw)).collect()
    }

    fn node<'t>(&self, lexer: &Lexer<'t>, raw: Raw<'t>) -> Result<NodeId> {
        let value = self.evaluate(raw).map_err(|error| lexer.error(&[&error.text]))?;
        if value.is_empty() {
            return Err(lexer.error_about(raw.text, &[b"empty path"]));
        }
        let node = self.linker.paths.lookup(&canonical(&value));
        node.ok_or_else(|| lexer.error(&[b"the manifest has changed while it was read"]))
    }

    fn evaluate(&self, raw: Raw<'_>) -> Result<Vec<u8>> {
        let look_up = |name: &[u8]| self.linker.env.variable(self.segment.scope, name, self.id);
        let own = Block::new(self.linker.text(self.raw.span(self.segment.file)).into());
        let own = own.evaluated(look_up)?;
        let mut value = Vec::new();
        append_value(raw.text, &mut value, |name| {
            let own = own.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.as_slice());
            own.or_else(|| look_up(name))
        })?;
        Ok(value)
    }

    fn dyndep(
        &self,
        lexer: &Lexer<'_>,
        raws: &BuildPaths<'_>,
        rule: RuleId,
        ins: &[NodeId],
        explicit: [&[NodeId]; 2],
    ) -> Result<()> {
        let path = self.linker.dyndep_path(self.segment, (self.id, self.raw), rule, explicit);
        let path = path.map_err(|error| if error.fatal { error } else { lexer.error(&[&error.text]) })?;
        let known = self.linker.paths.lookup(&path).filter(|node| ins.contains(node));
        if path.is_empty() || known.is_some() {
            return Ok(());
        }
        Err(about(lexer, raws, &[b"dyndep '", &path, b"' is not an input"]))
    }
}

/// An error of the statement as a whole.
fn about(lexer: &Lexer<'_>, raws: &BuildPaths<'_>, message: &[&[u8]]) -> Error {
    match raws.outs.first() {
        Some(out) => lexer.error_about(out.text, message),
        None => lexer.error(message),
    }
}
