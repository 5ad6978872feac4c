//! Everything observable of a graph, as text.

use std::fmt::Write;

use crate::error::Result;
use crate::graph::{Edge, Escape, Graph};
use crate::ids::{EdgeId, NodeId, RuleId, ScopeId};
use crate::syntax::statements::RESERVED;

/// Variables that test manifests set, or must not set.
const NAMES: [&[u8]; 14] = [
    b"in",
    b"in_newline",
    b"out",
    b"v0",
    b"v1",
    b"v2",
    b"dir",
    b"e",
    b"n",
    b"name",
    b"v-1_x",
    b"d.t",
    b"builddir",
    b"",
];

/// Equal manifests give equal text.
pub(super) fn dump(graph: &Graph<'_>) -> String {
    let mut dump = Dump { graph, text: String::new() };
    graph.edge_ids().for_each(|edge| dump.edge(edge));
    dump.nodes();
    dump.top();
    dump.text
}

struct Dump<'g, 't> {
    graph: &'g Graph<'t>,
    text: String,
}

impl<'t> Dump<'_, 't> {
    fn line(&mut self, kind: &str, value: &[u8]) {
        let _ = writeln!(self.text, "{kind} {}", value.escape_ascii());
    }

    fn result(&mut self, kind: &str, value: Result<Vec<u8>>) {
        match value {
            Ok(value) if value.is_empty() => {}
            Ok(value) => self.line(kind, &value),
            Err(error) => self.line(&format!("{kind} fails"), &error.text()),
        }
    }

    fn paths(&mut self, kind: &str, nodes: &[NodeId]) {
        let paths: Vec<&[u8]> = nodes.iter().map(|node| self.graph.path(*node)).collect();
        self.line(kind, &paths.join(&b"\n"[..]));
    }

    fn edge(&mut self, id: EdgeId) {
        let graph = self.graph;
        let edge = graph.edge(id);
        let Edge { rule, pool, explicit_outs, explicit_ins, order_only_ins, names_itself, .. } = edge;
        let depth = graph.pool_depth(pool);
        let numbers = format!("{pool:?} {depth} {explicit_outs} {explicit_ins} {order_only_ins} {names_itself}");
        self.line(&format!("{id:?} {rule:?} {numbers}"), graph.rule_name(rule));
        self.paths("outs", edge.outs);
        self.paths("ins", edge.ins);
        self.paths("validations", edge.validations);
        self.paths("dyndep", edge.dyndep.as_slice());
        for name in RESERVED.iter().chain(&NAMES) {
            let kind = String::from_utf8_lossy(name);
            let [quoted, plain] = [Escape::Shell, Escape::None].map(|escape| graph.binding(id, name, escape));
            let flag = graph.flag(id, name);
            assert_eq!(flag.ok(), quoted.as_ref().ok().map(|value| !value.is_empty()), "{kind} of {id:?}");
            if quoted != plain {
                self.result(&format!("plain {kind}"), plain);
            }
            self.result(&kind, quoted);
        }
        self.result("hashed", graph.command_for_hash(id));
    }

    fn nodes(&mut self) {
        let graph = self.graph;
        let mut nodes: Vec<NodeId> = graph.node_ids().collect();
        nodes.sort_by_key(|node| graph.path(*node));
        for node in nodes {
            assert_eq!(graph.lookup(graph.path(node)), Some(node));
            let (maker, pending) = (graph.in_edge(node), graph.dyndep_pending(node));
            self.line(&format!("{maker:?} {pending} {}", graph.is_discovered(node)), graph.path(node));
        }
    }

    fn top(&mut self) {
        let graph = self.graph;
        self.paths("defaults", graph.defaults());
        for name in RESERVED.iter().chain(&NAMES) {
            if let Some(value) = graph.variable(ScopeId::TOP, name) {
                self.line(&String::from_utf8_lossy(name), value);
            }
        }
        graph.top_rules().into_iter().for_each(|rule| self.rule(rule));
    }

    fn rule(&mut self, rule: RuleId) {
        self.line(&format!("{rule:?}"), self.graph.rule_name(rule));
        for name in RESERVED {
            match self.graph.rule_text(rule, name) {
                Ok(None) => {}
                Ok(Some(raw)) => self.line("is", &raw),
                Err(error) => self.line("fails", &error.text()),
            }
        }
    }
}
