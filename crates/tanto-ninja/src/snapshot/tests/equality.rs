//! Comparison of two graphs; the ids of nodes may differ.

use crate::graph::{Escape, Graph};
use crate::ids::{EdgeId, NodeId, RuleId};
use crate::syntax::statements::RESERVED;

/// Variables of the fixtures other than rule variables.
const NAMES: [&[u8]; 9] = [b"in", b"out", b"in_newline", b"x", b"y", b"z", b"d", b"builddir", b"none"];

fn paths<'t>(graph: &Graph<'t>, nodes: &[NodeId]) -> Vec<&'t [u8]> {
    nodes.iter().map(|node| graph.path(*node)).collect()
}

/// Everything observable of a graph, as text.
pub(super) fn all_of(graph: &Graph<'_>) -> String {
    let mut nodes: Vec<NodeId> = graph.node_ids().collect();
    nodes.sort_by_key(|node| graph.path(*node));
    let mut out = String::new();
    let mut say = |text: String| out.push_str(&(text + "\n"));
    for node in nodes {
        let path = graph.path(node);
        let made = graph.in_edge(node);
        let found = graph.lookup(path) == Some(node);
        let path = String::from_utf8_lossy(path);
        say(format!("node {path}: {made:?} {found} {}", graph.dyndep_pending(node)));
    }
    for edge in graph.edge_ids() {
        say(edge_of(graph, edge));
    }
    say(format!("{:?}", paths(graph, graph.defaults())));
    for rule in graph.top_rules() {
        say(format!("rule {:?} {:?}", graph.rule_name(rule), graph.rule_text(rule, b"command")));
    }
    say(format!("{:?}", graph.data.notices));
    out
}

fn edge_of(graph: &Graph<'_>, id: EdgeId) -> String {
    let edge = graph.edge(id);
    let nodes = [edge.outs, edge.ins, edge.validations].map(|nodes| paths(graph, nodes));
    let counts = [edge.explicit_outs, edge.explicit_ins, edge.order_only_ins];
    let dyndep = edge.dyndep.map(|node| graph.path(node));
    let names = NAMES.iter().chain(&RESERVED);
    let value = |name: &&[u8]| [Escape::Shell, Escape::None].map(|escape| graph.binding(id, name, escape));
    let values: Vec<_> = names.clone().map(value).collect();
    let flags: Vec<_> = names.map(|name| graph.flag(id, name)).collect();
    let rule = (edge.rule, graph.rule_name(edge.rule), graph.pool_depth(edge.pool), edge.names_itself);
    format!("{id:?} {rule:?} {nodes:?} {counts:?} {dyndep:?} {values:?} {flags:?} {:?}", graph.command_for_hash(id))
}

/// Shows the first difference.
#[track_caller]
pub(super) fn assert_same(one: &Graph<'_>, other: &Graph<'_>) {
    assert_eq!(all_of(one), all_of(other));
    assert_eq!(one.data.env.rows(), other.data.env.rows());
    assert_eq!(one.data.env.texts().concat(), other.data.env.texts().concat());
    assert_eq!(one.rule_name(RuleId::PHONY), other.rule_name(RuleId::PHONY));
}
