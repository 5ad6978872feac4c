//! The `build` statement. Does not know what its edge's variables are for, but for `pool` and `dyndep`.

use super::Loader;
use super::lexer::{Lexer, Raw, Token, did_you_mean};
use super::statement::Bindings;
use crate::bindings::Escape;
use crate::canon::{canonicalize_into, is_canonical};
use crate::error::{Error, Result};
use crate::graph::{Edge, EdgeId, Graph, NodeId, PoolId, RuleId, Scope, ScopeId, Text};

/// Buffers that every statement uses anew.
#[derive(Default)]
pub(super) struct Scratch<'t> {
    pub(super) value: Vec<u8>,
    pub(super) path: Vec<u8>,
    outs: Vec<Raw<'t>>,
    ins: Vec<Raw<'t>>,
    validations: Vec<Raw<'t>>,
    bindings: Vec<(Text<'t>, Text<'t>)>,
    nodes: Vec<NodeId>,
}

/// What stands on the line of a `build` statement besides paths.
struct Line {
    rule: RuleId,
    explicit_outs: usize,
    explicit_ins: usize,
    order_only_ins: usize,
}

impl<'t> Loader<'t, '_> {
    /// `build outs | outs: rule ins | ins || ins |@ validations`, and variables on indented lines
    ///
    /// Paths are evaluated after all has been read, since they may use the statement's own variables. So the
    /// errors from here on point at what comes behind it, as ninja's do.
    pub(super) fn build(&mut self) -> Result<()> {
        let line = self.build_line()?;
        let bindings = self.edge_bindings()?;
        let mut edge = Edge {
            rule: line.rule,
            pool: PoolId::DEFAULT,
            scope: self.scope,
            bindings,
            outs: &[],
            explicit_outs: 0,
            ins: &[],
            explicit_ins: 0,
            order_only_ins: 0,
            validations: &[],
            dyndep: None,
            names_itself: false,
        };
        edge.pool = self.pool_of(&edge)?;
        let id = EdgeId(u32::try_from(self.graph.edges.len()).expect("under 2^32 edges"));
        edge.outs = self.outs(id, bindings)?;
        edge.explicit_outs = line.explicit_outs as u32;
        edge.ins = self.ins(bindings)?;
        edge.explicit_ins = line.explicit_ins as u32;
        edge.order_only_ins = line.order_only_ins as u32;
        edge.validations = self.validations(bindings)?;
        if !self.options.phony_cycle_is_error {
            self.drop_self_reference(&mut edge);
        }
        edge.dyndep = self.dyndep_of(&edge)?;
        self.graph.edges.push(edge);
        Ok(())
    }

    fn build_line(&mut self) -> Result<Line> {
        let Scratch { outs, ins, validations, .. } = &mut self.scratch;
        [&mut *outs, ins, validations].into_iter().for_each(Vec::clear);
        let explicit_outs = self.lexer.paths(None, outs)?;
        self.lexer.paths(Some(Token::Pipe), outs)?;
        if outs.is_empty() {
            return Err(self.lexer.error(&[b"expected path"]));
        }
        self.lexer.expect(Token::Colon)?;
        let rule = rule_named(&mut self.lexer, &self.graph, self.scope)?;
        let explicit_ins = self.lexer.paths(None, ins)?;
        self.lexer.paths(Some(Token::Pipe), ins)?;
        let order_only_ins = self.lexer.paths(Some(Token::Pipe2), ins)?;
        self.lexer.paths(Some(Token::PipeAt), validations)?;
        self.lexer.expect(Token::Newline)?;
        Ok(Line { rule, explicit_outs, explicit_ins, order_only_ins })
    }

    /// The indented lines. Their values see the file's scope, not each other.
    fn edge_bindings(&mut self) -> Result<&'t [(Text<'t>, Text<'t>)]> {
        self.scratch.bindings.clear();
        while self.lexer.peek(Token::Indent) {
            let (name, raw) = self.assignment()?;
            let value = self.evaluate(raw, &[])?;
            self.scratch.bindings.push((name, value));
        }
        Ok(match self.scratch.bindings.as_slice() {
            [] => &[],
            bindings => self.graph.arena.alloc_slice_copy(bindings),
        })
    }

    /// Asked for before the edge has its paths: `$in` and `$out` are empty here.
    fn pool_of(&self, edge: &Edge<'t>) -> Result<PoolId> {
        let name = self.graph.value_for(edge, b"pool", Escape::Shell)?;
        match self.pools.get(name.as_slice()) {
            _ if name.is_empty() => Ok(PoolId::DEFAULT),
            Some(&pool) => Ok(pool),
            None => {
                let error = self.statement_error(&[b"unknown pool name '", &name, b"'"]);
                Err(did_you_mean(error, &name, self.graph.pools.iter().skip(1).map(|pool| pool.name)))
            }
        }
    }

    fn outs(&mut self, edge: EdgeId, bindings: Bindings<'_, 't>) -> Result<&'t [NodeId]> {
        self.scratch.nodes.clear();
        for number in 0..self.scratch.outs.len() {
            let raw = self.scratch.outs[number];
            let node = self.node(raw, bindings)?;
            match self.graph.nodes[node.index()].in_edge.replace(edge) {
                None => self.scratch.nodes.push(node),
                Some(same) if same == edge => {
                    let message = [self.graph.path(node), b" is defined as an output multiple times"];
                    return Err(self.lexer.error_about(raw.text, &message));
                }
                Some(_) => {
                    let message = [b"multiple rules generate ", self.graph.path(node)];
                    return Err(self.lexer.error_about(raw.text, &message));
                }
            }
        }
        Ok(self.graph.arena.alloc_slice_copy(&self.scratch.nodes))
    }

    fn ins(&mut self, bindings: Bindings<'_, 't>) -> Result<&'t [NodeId]> {
        self.scratch.nodes.clear();
        for number in 0..self.scratch.ins.len() {
            let node = self.node(self.scratch.ins[number], bindings)?;
            self.scratch.nodes.push(node);
        }
        Ok(self.graph.arena.alloc_slice_copy(&self.scratch.nodes))
    }

    fn validations(&mut self, bindings: Bindings<'_, 't>) -> Result<&'t [NodeId]> {
        self.scratch.nodes.clear();
        for number in 0..self.scratch.validations.len() {
            let node = self.node(self.scratch.validations[number], bindings)?;
            self.scratch.nodes.push(node);
        }
        Ok(self.graph.arena.alloc_slice_copy(&self.scratch.nodes))
    }

    /// The node of a path in the manifest.
    fn node(&mut self, raw: Raw<'t>, bindings: Bindings<'_, 't>) -> Result<NodeId> {
        let node = if raw.plain && is_canonical(raw.text) {
            self.graph.intern_text(raw.text)
        } else {
            let path = self.canonical_path(raw, bindings)?;
            let node = self.graph.intern(&path);
            self.scratch.path = path;
            node
        };
        self.graph.nodes[node.index()].generated_by_dep_loader = false;
        Ok(node)
    }

    /// The canonical path that a raw text stands for, in a buffer that is the scratch's to be given back.
    pub(super) fn canonical_path(&mut self, raw: Raw<'t>, bindings: Bindings<'_, 't>) -> Result<Vec<u8>> {
        let mut value = std::mem::take(&mut self.scratch.value);
        value.clear();
        self.append(raw, bindings, &mut value)?;
        if value.is_empty() {
            return Err(self.lexer.error_about(raw.text, &[b"empty path"]));
        }
        let mut path = std::mem::take(&mut self.scratch.path);
        canonicalize_into(&value, &mut path);
        self.scratch.value = value;
        Ok(path)
    }

    /// Old CMakes wrote phony edges that name their own output as an input: ninja drops that input. Its count of the
    /// order-only ones stays as it was, so that an explicit one may become order-only; a count of more than there
    /// are means none to it.
    fn drop_self_reference(&mut self, edge: &mut Edge<'t>) {
        let &[out] = edge.outs else { return };
        let implicit_ins = edge.ins.len() as u32 - edge.explicit_ins - edge.order_only_ins;
        let plain = edge.is_phony() && edge.explicit_outs == 1 && implicit_ins == 0;
        if !plain || !edge.ins.contains(&out) {
            return;
        }
        edge.ins = self
            .graph
            .arena
            .alloc_slice_fill_iter(edge.ins.iter().copied().filter(|&node| node != out).collect::<Vec<_>>());
        if edge.order_only_ins as usize > edge.ins.len() {
            edge.order_only_ins = 0;
        }
        edge.explicit_ins = edge.ins.len() as u32 - edge.order_only_ins;
        edge.names_itself = true;
        let path = self.graph.path(out);
        let words: [&[u8]; 3] = [b"phony target '", path, b"' names itself as an input; ignoring [-w phonycycle=warn]"];
        (self.warn)(&words.concat());
    }

    /// The dyndep file must be one of the edge's inputs.
    fn dyndep_of(&mut self, edge: &Edge<'t>) -> Result<Option<NodeId>> {
        let path = self.graph.value_for(edge, b"dyndep", Escape::None)?;
        if path.is_empty() {
            return Ok(None);
        }
        canonicalize_into(&path, &mut self.scratch.path);
        match self.graph.lookup(&self.scratch.path).filter(|node| edge.ins.contains(node)) {
            Some(node) => {
                self.graph.nodes[node.index()].dyndep_pending = true;
                Ok(Some(node))
            }
            None => Err(self.statement_error(&[b"dyndep '", &self.scratch.path, b"' is not an input"])),
        }
    }

    /// An error of the statement as a whole.
    fn statement_error(&self, message: &[&[u8]]) -> Error {
        match self.scratch.outs.first() {
            Some(out) => self.lexer.error_about(out.text, message),
            None => self.lexer.error(message),
        }
    }
}

fn rule_named<'t>(lexer: &mut Lexer<'t>, graph: &Graph<'t>, scope: ScopeId) -> Result<RuleId> {
    let name = lexer.name().ok_or_else(|| lexer.error(&[b"expected build command name"]))?;
    if let Some(rule) = scopes(graph, scope).find_map(|scope| scope.rules.get(name)) {
        return Ok(*rule);
    }
    let error = lexer.error(&[b"unknown build rule '", name, b"'"]);
    let mut known: Vec<_> = scopes(graph, scope).flat_map(|scope| scope.rules.keys().copied()).collect();
    known.sort_unstable();
    Err(did_you_mean(error, name, known))
}

/// A scope and those around it.
fn scopes<'g, 't>(graph: &'g Graph<'t>, scope: ScopeId) -> impl Iterator<Item = &'g Scope<'t>> {
    let first = Some(&graph.scopes[scope.index()]);
    std::iter::successors(first, |scope| scope.parent.map(|parent| &graph.scopes[parent.index()]))
}
