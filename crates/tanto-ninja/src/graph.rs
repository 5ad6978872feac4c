//! The graph: nodes, edges, rules, pools and scopes, by number. What the manifests say lies in flat arrays that never
//! change; what depfiles, logs and dyndep files add lies beside it. Does not know the file system's state, nor what is
//! to be built.

pub(crate) mod bindings;
pub(crate) mod command_hashes;
pub(crate) mod env;
pub(crate) mod hash_index;
pub(crate) mod lazy_text;
pub(crate) mod manifest_data;
pub(crate) mod text_pool;

use crate::hash::Map;
use crate::hash::Set;
use crate::ids::EdgeId;
use crate::ids::NodeId;
use crate::ids::PoolId;
use crate::ids::RuleId;
use crate::ids::ScopeId;
use std::cell::OnceCell;

use bumpalo::Bump;
use hashbrown::HashTable;

use self::manifest_data::ManifestData;
use crate::hash::rapidhash as hash;

pub use self::bindings::{CommandEvaluator, Escape, shell_quote_into};
pub use self::manifest_data::OutEdgeKind;

/// A build statement.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'t> {
    /// Its rule.
    pub rule: RuleId,
    /// Its pool.
    pub pool: PoolId,
    /// What it makes: explicit, then implicit, then those that a dyndep file added (implicit too).
    pub outs: &'t [NodeId],
    /// How many of `outs` are explicit.
    pub explicit_outs: u32,
    /// What it needs: explicit, then implicit, then order-only. What a dyndep file adds is implicit; what a depfile
    /// or the deps log adds is not here but with the scan.
    pub ins: &'t [NodeId],
    /// How many of `ins` are explicit.
    pub explicit_ins: u32,
    /// How many of `ins`, at the end, are order-only.
    pub order_only_ins: u32,
    /// What is to be built as well when this edge is in the plan.
    pub validations: &'t [NodeId],
    /// The dyndep file, one of `ins`.
    pub dyndep: Option<NodeId>,
    /// It is phony and its own output was among its inputs, which ninja drops but goes on to count as a use of the
    /// output.
    pub names_itself: bool,
}

impl<'t> Edge<'t> {
    /// It groups others and runs nothing.
    pub fn is_phony(&self) -> bool {
        self.rule == RuleId::PHONY
    }

    /// Inputs whose change makes the edge dirty: explicit and implicit.
    pub fn dirtying_ins(&self) -> &'t [NodeId] {
        &self.ins[..self.ins.len() - self.order_only_ins as usize]
    }

    /// Inputs that must only be there first.
    pub fn order_only(&self) -> &'t [NodeId] {
        &self.ins[self.ins.len() - self.order_only_ins as usize..]
    }

    /// Inputs that `$in` names.
    pub fn explicit(&self) -> &'t [NodeId] {
        &self.ins[..self.explicit_ins as usize]
    }
}

/// Where graphs lie, with all their text and id lists.
#[derive(Default)]
pub struct Arena {
    bump: Bump,
    first: GraphSlot,
}

/// Room for one more graph's arrays: others refer to those that are there, so they stay where they are.
type GraphSlot = OnceCell<Box<StoredGraph>>;

struct StoredGraph {
    data: ManifestData,
    next: GraphSlot,
}

impl Arena {
    /// An empty one.
    pub fn new() -> Self {
        Arena::default()
    }

    /// A graph of no manifest: all that it will have joins it.
    pub fn empty(&self) -> Graph<'_> {
        self.hold(ManifestData::default())
    }

    pub(crate) fn hold(&self, data: ManifestData) -> Graph<'_> {
        let mut position = &self.first;
        while let Some(held) = position.get() {
            position = &held.next;
        }
        let held = position.get_or_init(|| Box::new(StoredGraph { data, next: GraphSlot::new() }));
        Graph { arena: &self.bump, view: GraphView::new(&held.data) }
    }
}

/// The graph, and room for what joins it.
pub struct Graph<'t> {
    /// Where the text and the id lists of what joins lie.
    pub arena: &'t Bump,
    view: GraphView<'t>,
}

impl<'t> std::ops::Deref for Graph<'t> {
    type Target = GraphView<'t>;

    fn deref(&self) -> &GraphView<'t> {
        &self.view
    }
}

/// What is known of the graph. Several threads may read it.
pub struct GraphView<'t> {
    pub(crate) data: &'t ManifestData,
    /// How many of its nodes are there: all, or those that the manifests name.
    shown: usize,
    /// The paths of nodes that added, each with a NUL at its end, and where to find them.
    added: Vec<&'t [u8]>,
    index: HashTable<NodeId>,
    /// Who makes a node, by a dyndep file.
    dyndep_in_edges: Map<NodeId, EdgeId>,
    /// Outputs and inputs of edges that dyndep files changed.
    extended_edges: Map<EdgeId, (&'t [NodeId], &'t [NodeId])>,
    /// Dyndep files that have been loaded, or were tried.
    read_dyndeps: Set<NodeId>,
    /// Who restats, by a dyndep file: edges with bindings of their own, and whole files for those that have none.
    pub(crate) restat_edges: Set<EdgeId>,
    pub(crate) restat_scopes: Set<ScopeId>,
}

impl<'t> Graph<'t> {
    /// The node of a canonical path, made if need be; a new one counts as named by no manifest.
    ///
    /// # Panics
    /// If there are 2^32 nodes.
    pub fn intern(&mut self, path: &[u8]) -> NodeId {
        let view = &mut self.view;
        if let Some(node) = view.lookup_base(path) {
            return node;
        }
        let first = view.data.paths.len();
        let added = &mut view.added;
        let path_of = |id: &NodeId| without_nul(added[id.index() - first]);
        let entry = view.index.entry(hash(path), |id| path_of(id) == path, |id| hash(path_of(id)));
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(free) => {
                let id = NodeId(u32::try_from(first + added.len()).expect("under 2^32 paths"));
                free.insert(id);
                let text = self.arena.alloc_slice_fill_copy(path.len() + 1, 0);
                text[..path.len()].copy_from_slice(path);
                added.push(text);
                id
            }
        }
    }

    /// What a snapshot holds of the deps log's paths that no manifest names: these become nodes. False if others have
    /// added before, which may be the same.
    pub(crate) fn show_discovered(&mut self) -> bool {
        let view = &mut self.view;
        if view.added.is_empty() {
            view.shown = view.data.paths.len();
        }
        !view.hides()
    }

    /// They are none after all.
    pub(crate) fn hide_discovered(&mut self) {
        self.view.shown = self.view.data.named();
    }

    /// The dyndep file has been loaded, or that was tried.
    pub(crate) fn dyndep_is_read(&mut self, node: NodeId) {
        self.view.read_dyndeps.insert(node);
    }

    /// A dyndep file says that the edge makes the node; the edge that made it so far.
    pub(crate) fn set_in_edge(&mut self, node: NodeId, edge: EdgeId) -> Option<EdgeId> {
        let before = self.in_edge(node);
        self.view.dyndep_in_edges.insert(node, edge);
        before
    }

    /// A dyndep file says that the edge has more implicit outputs and inputs.
    pub(crate) fn extend_edge(&mut self, id: EdgeId, outs: &[NodeId], ins: &[NodeId]) {
        let edge = self.edge(id);
        let outs = self.arena.alloc_slice_copy(&[edge.outs, outs].concat());
        let ins = self.arena.alloc_slice_copy(&[edge.dirtying_ins(), ins, edge.order_only()].concat());
        self.view.extended_edges.insert(id, (outs, ins));
    }

    /// A dyndep file says that the edge restats, as if it had the binding; ninja gives it to the whole file where the
    /// edge has none of its own.
    pub(crate) fn set_restat(&mut self, edge: EdgeId) {
        if self.data.has_bindings(edge) {
            self.view.restat_edges.insert(edge);
        } else {
            let scope = self.data.scope(edge);
            self.view.restat_scopes.insert(scope);
        }
    }
}

impl<'t> GraphView<'t> {
    fn new(data: &'t ManifestData) -> Self {
        GraphView {
            data,
            shown: data.named(),
            added: Vec::new(),
            index: HashTable::new(),
            dyndep_in_edges: Map::default(),
            extended_edges: Map::default(),
            read_dyndeps: Set::default(),
            restat_edges: Set::default(),
            restat_scopes: Set::default(),
        }
    }

    /// Is all that the manifests say known to be what it was when they were loaded? Only a damaged snapshot's is not.
    pub fn is_intact(&self) -> bool {
        self.data.blocks.as_ref().is_none_or(|blocks| blocks.check_all(1))
    }

    /// Gives back the memory of what was read of the graph's snapshot, if it has one; it may be read again.
    pub(crate) fn release(&self) {
        self.data.blocks.iter().for_each(|blocks| blocks.release());
    }

    /// The paths of all manifests, as their includers name them.
    pub fn manifests(&self) -> impl Iterator<Item = &[u8]> {
        self.data.manifests.list.iter().map(|manifest| &manifest.path[..])
    }

    /// The node of a canonical path, if it has one.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        self.lookup_base(path).or_else(|| self.lookup_added(path))
    }

    fn lookup_base(&self, path: &[u8]) -> Option<NodeId> {
        self.data.paths.lookup(path).filter(|node| node.index() < self.shown)
    }

    /// Appends the node of each of these canonical paths, if it has one. Many at once cost less than each alone.
    pub fn lookup_all(&self, paths: &[&[u8]], nodes: &mut Vec<Option<NodeId>>) {
        let before = nodes.len();
        self.data.paths.lookup_all(paths, nodes);
        if !self.added.is_empty() || self.hides() {
            for (path, node) in paths.iter().zip(&mut nodes[before..]) {
                *node = node.filter(|node| node.index() < self.shown).or_else(|| self.lookup_added(path));
            }
        }
    }

    fn lookup_added(&self, path: &[u8]) -> Option<NodeId> {
        if self.added.is_empty() {
            return None;
        }
        self.index.find(hash(path), |id| self.path(*id) == path).copied()
    }

    /// How many node ids there are by now. Some of them may stand for no node: those have no path.
    pub fn node_count(&self) -> usize {
        self.data.paths.len() + self.added.len()
    }

    /// Does a snapshot hold nodes that are none yet?
    fn hides(&self) -> bool {
        self.shown < self.data.paths.len()
    }

    /// Nodes that have smaller numbers than this are there and stay there. Others may join under larger ones.
    pub(crate) fn steady_count(&self) -> usize {
        if self.hides() { self.shown } else { self.node_count() }
    }

    /// All nodes, in no order that means anything.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        let there = (0..self.shown).chain(self.data.paths.len()..self.node_count());
        there.map(|node| NodeId(node as u32)).filter(|node| !self.path(*node).is_empty())
    }

    /// The path of a node.
    #[inline]
    pub fn path(&self, node: NodeId) -> &'t [u8] {
        match node.index().checked_sub(self.data.paths.len()) {
            None => self.data.paths.path(node),
            Some(added) => without_nul(self.added[added]),
        }
    }

    /// The path of a node with a NUL at its end.
    #[inline]
    pub fn path_with_nul(&self, node: NodeId) -> &'t [u8] {
        match node.index().checked_sub(self.data.paths.len()) {
            None => self.data.paths.c_path(node).to_bytes_with_nul(),
            Some(added) => self.added[added],
        }
    }

    /// The edge that makes a node.
    #[inline]
    pub fn in_edge(&self, node: NodeId) -> Option<EdgeId> {
        if !self.dyndep_in_edges.is_empty()
            && let Some(edge) = self.dyndep_in_edges.get(&node)
        {
            return Some(*edge);
        }
        if node.index() < self.data.named() { self.data.in_edge(node) } else { None }
    }

    /// No manifest names the node as an input, output or validation: only a depfile, the deps log or a dyndep file
    /// does. Then it is no error if it is missing and no rule makes it.
    pub fn is_discovered(&self, node: NodeId) -> bool {
        node.index() >= self.data.named()
    }

    /// Is the node a dyndep file that has not been loaded yet?
    pub fn dyndep_pending(&self, node: NodeId) -> bool {
        self.data.is_dyndep(node) && !self.read_dyndeps.contains(&node)
    }

    /// Has a dyndep file said that an edge restats?
    pub(crate) fn has_dyndep_restats(&self) -> bool {
        !self.restat_edges.is_empty() || !self.restat_scopes.is_empty()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.data.edge_count()
    }

    /// The edge.
    #[inline]
    pub fn edge(&self, id: EdgeId) -> Edge<'t> {
        let mut edge = self.data.edge(id);
        if !self.extended_edges.is_empty()
            && let Some(&(outs, ins)) = self.extended_edges.get(&id)
        {
            (edge.outs, edge.ins) = (outs, ins);
        }
        edge
    }

    /// All edges by number, in the order of the manifest.
    pub fn edge_ids(&self) -> impl Iterator<Item = EdgeId> + use<> {
        (0..self.edge_count() as u32).map(EdgeId)
    }

    /// All edges, in the order of the manifest.
    pub fn edges(&self) -> impl Iterator<Item = Edge<'t>> {
        self.edge_ids().map(|id| self.edge(id))
    }

    /// Which edges have a node as an input or validation, as the manifests say and in their order; an edge that names it
    /// twice comes twice.
    pub fn out_edges(&self, node: NodeId) -> impl Iterator<Item = (EdgeId, OutEdgeKind)> {
        self.data.out_edges(node)
    }

    /// The edges that have a dyndep file, with it, in the order of the manifest.
    pub fn dyndeps(&self) -> impl Iterator<Item = (EdgeId, NodeId)> {
        self.data.dyndep_edges.all().iter().copied().zip(self.data.dyndep_files.all().iter().copied())
    }

    /// How many edges of a pool may run at once; 0 for any number.
    pub fn pool_depth(&self, pool: PoolId) -> u32 {
        self.data.env.pool(pool).depth
    }

    /// The name of a rule.
    pub fn rule_name(&self, rule: RuleId) -> &'t [u8] {
        self.data.env.rule_name(rule)
    }

    /// The rule of this name in the top scope.
    pub fn top_rule(&self, name: &[u8]) -> Option<RuleId> {
        self.data.env.rule_in(ScopeId::TOP, name)
    }

    /// The rules of the top scope, by name.
    pub fn top_rules(&self) -> Vec<RuleId> {
        let mut rules: Vec<_> = self.data.env.rules_in(ScopeId::TOP).collect();
        rules.sort_unstable_by_key(|rule| self.rule_name(*rule));
        rules
    }

    /// The value of a variable at the end of the manifest, in a scope or, where it has none, in those around it.
    pub fn variable(&self, scope: ScopeId, name: &[u8]) -> Option<&'t [u8]> {
        self.data.env.variable(scope, name, env::END_OF_MANIFEST)
    }

    /// The targets of `default` statements.
    pub fn defaults(&self) -> &'t [NodeId] {
        self.data.defaults.all()
    }
}

/// A text but for the NUL at its end.
fn without_nul(text: &[u8]) -> &[u8] {
    &text[..text.len() - 1]
}
