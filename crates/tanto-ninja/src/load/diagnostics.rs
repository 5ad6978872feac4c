//! Finds and words the first error of a load, with ninja's text and position.

use super::chunk::{RawEdge, shape};
use super::evaluate::{FileText, Segment, Target, unknown_rule};
use super::link::{LinkedEdges, Linker};
use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::bindings::BindingBlock;
use crate::graph::manifest_data::Notice;
use crate::ids::{EdgeId, NodeId, RuleId};
use crate::syntax::expansion::append_value;
use crate::syntax::lexer::{Lexer, Raw, did_you_mean};
use crate::syntax::statements::{self, BuildPaths};

/// An edge to be checked again.
struct EdgeDiagnosis<'s> {
    linker: &'s Linker<'s>,
    in_edges: &'s [EdgeId],
    segment: &'s Segment,
    raw: &'s RawEdge,
    id: u32,
}

impl EdgeDiagnosis<'_> {
    /// Returns the first error of the edge.
    ///
    /// Paths are evaluated after the whole statement, since they may use its variables. Like ninja's, errors from
    /// there on point at the text after the statement.
    fn error(&self) -> Error {
        let file = &self.linker.files[self.segment.file];
        let mut lexer = FileText::of(file).statement(self.raw.at).0;
        let checked = self.check(&mut lexer);
        checked.err().unwrap_or_else(|| lexer.error(&[b"the manifest changed while it was being read"]))
    }

    fn check<'t>(&self, lexer: &mut Lexer<'t>) -> Result<()> {
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
        let name = name.map_err(|error| if error.is_fatal() { error } else { lexer.error(&[&error.text()]) })?;
        let env = self.linker.env;
        if name.is_empty() || env.pool_named(&name, self.id).is_some() {
            return Ok(());
        }
        let error = statement_error(lexer, raws, &[b"unknown pool name '", &name, b"'"]);
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
        let value = self.evaluate(raw).map_err(|error| lexer.error(&[&error.text()]))?;
        if value.is_empty() {
            return Err(lexer.error_about(raw.text, &[b"empty path"]));
        }
        let node = self.linker.paths.lookup(&canonical(&value));
        node.ok_or_else(|| lexer.error(&[b"the manifest changed while it was being read"]))
    }

    fn evaluate(&self, raw: Raw<'_>) -> Result<Vec<u8>> {
        let look_up = |name: &[u8]| self.linker.env.variable(self.segment.scope, name, self.id);
        let own = BindingBlock::new(self.linker.text(self.raw.span(self.segment.file)).into());
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
        let path = path.map_err(|error| if error.is_fatal() { error } else { lexer.error(&[&error.text()]) })?;
        let find_target = self.linker.paths.lookup(&path).filter(|node| ins.contains(node));
        if path.is_empty() || find_target.is_some() {
            return Ok(());
        }
        Err(statement_error(lexer, raws, &[b"dyndep '", &path, b"' is not an input"]))
    }
}

/// An error of the whole statement.
fn statement_error(lexer: &Lexer<'_>, raws: &BuildPaths<'_>, message: &[&[u8]]) -> Error {
    match raws.outs.first() {
        Some(out) => lexer.error_about(out.text, message),
        None => lexer.error(message),
    }
}

/// An error and its position in the manifests.
pub(super) struct PositionedError {
    pub(super) error: Error,
    /// Number of valid edges before the error.
    pub(super) edge: u32,
    /// Number of notices, of statements other than `build`, before the error.
    pub(super) notices: usize,
}

pub(super) struct Diagnostics<'f> {
    pub(super) linker: &'f Linker<'f>,
    pub(super) linked: &'f LinkedEdges,
    pub(super) segments: &'f [Segment],
    /// Notices of statements other than `build`, with their positions.
    pub(super) notices: &'f [(u32, Notice)],
}

impl Diagnostics<'_> {
    /// Returns the nodes of `default` statements, or the first error. `evaluation_error` ended the evaluation.
    pub(super) fn check(
        &self,
        targets: &[Target],
        evaluation_error: Option<Error>,
    ) -> std::result::Result<Vec<NodeId>, PositionedError> {
        match self.defaults(targets) {
            Err(target) if self.linked.first_error.is_none_or(|edge| edge >= target.edge) => Err(target),
            defaults => match (self.first_error(), evaluation_error) {
                (Some(error), _) => Err(error),
                (None, Some(error)) => Err(PositionedError { error, edge: u32::MAX, notices: self.notices.len() }),
                (None, None) => defaults,
            },
        }
    }

    /// Returns the first error of an edge.
    fn first_error(&self) -> Option<PositionedError> {
        let id = self.linked.first_error?;
        let segment = &self.segments[self.segments.partition_point(|segment| segment.first <= id) - 1];
        let chunk = &self.linker.files[segment.file].chunks[segment.chunk];
        let raw = &chunk.edges[(segment.edges.start + id - segment.first) as usize];
        let diagnosis = EdgeDiagnosis { linker: self.linker, in_edges: &self.linked.in_edges, segment, raw, id };
        let notices = self.notices.partition_point(|(position, _)| *position <= id);
        // The self-reference is reported too, unless the error precedes it. In that case another edge builds the
        // output.
        let warns = self.linked.self_references.contains(&EdgeId(id)) && self.builds_its_output(id);
        Some(PositionedError { error: diagnosis.error(), edge: id + u32::from(warns), notices })
    }

    fn builds_its_output(&self, id: u32) -> bool {
        self.linked.in_edges[self.first_output(EdgeId(id)).index()] == EdgeId(id)
    }

    fn first_output(&self, edge: EdgeId) -> NodeId {
        self.linked.ids[self.linked.edges[edge.index()].first as usize]
    }

    /// Returns all notices, or those before an error, in manifest order.
    pub(super) fn notices(&self, error: Option<&PositionedError>) -> Vec<Notice> {
        let (end, count) = error.map_or((u32::MAX, self.notices.len()), |error| (error.edge, error.notices));
        let self_references = self.linked.self_references.iter().take_while(|edge| edge.0 < end);
        let warnings = self_references.map(|edge| (edge.0, self.self_reference_warning(*edge)));
        let mut notices: Vec<_> = self.notices[..count].iter().cloned().chain(warnings).collect();
        notices.sort_by_key(|(position, _)| *position);
        notices.into_iter().map(|(_, notice)| notice).collect()
    }

    fn self_reference_warning(&self, edge: EdgeId) -> Notice {
        let path = self.linker.paths.path(self.first_output(edge));
        let words: [&[u8]; 3] = [b"phony target '", path, b"' names itself as an input; ignoring [-w phonycycle=warn]"];
        Notice::Warning(words.concat())
    }

    /// Returns the nodes of `default` targets, or the error of the first unknown one.
    fn defaults(&self, targets: &[Target]) -> std::result::Result<Vec<NodeId>, PositionedError> {
        let error = |target: &Target| PositionedError {
            error: self.unknown_target(target),
            edge: target.position,
            notices: target.notices,
        };
        targets.iter().map(|target| self.find_target(target).ok_or_else(|| error(target))).collect()
    }

    /// Returns the target's node if an edge before its position names it.
    fn find_target(&self, target: &Target) -> Option<NodeId> {
        let node = self.linker.paths.lookup(&target.path)?;
        if self.linked.in_edges.get(node.index())?.0 < target.position {
            return Some(node);
        }
        self.ids_before(target.position).contains(&node).then_some(node)
    }

    /// The nodes of edges before a position.
    fn ids_before(&self, position: u32) -> &[NodeId] {
        let edges = self.linked.edges.get(..position as usize).unwrap_or_default();
        let end = edges.last().map_or(0, |last| last.first as usize + last.ids());
        &self.linked.ids[..end]
    }

    fn unknown_target(&self, target: &Target) -> Error {
        let Target { path, file, part, last, .. } = target;
        let FileText { path: file, whole, end } = FileText::of(&self.linker.files[*file]);
        let lexer = Lexer::of_part(file, whole, *last as usize..end);
        let part = &whole[part.start as usize..part.end as usize];
        let error = lexer.error_about(part, &[b"unknown target '", path, b"'"]);
        did_you_mean(error, path, self.paths_before(target.position))
    }

    /// Their paths in manifest order: the first of equally similar paths is suggested.
    fn paths_before(&self, position: u32) -> impl Iterator<Item = &[u8]> {
        let ids = self.ids_before(position).iter().filter(|id| **id != NodeId::NONE);
        ids.map(|id| self.linker.paths.path(*id))
    }
}
