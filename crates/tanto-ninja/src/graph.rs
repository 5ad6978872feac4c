//! The graph: nodes, edges, rules, pools and scopes, by id. Data of manifests lies in immutable arrays; additions
//! from depfiles, logs and dyndep files are kept beside them.

pub(crate) mod bindings;
pub(crate) mod command_hashes;
pub(crate) mod env;
pub(crate) mod hash_index;
pub(crate) mod lazy_text;
pub(crate) mod manifest_data;
pub(crate) mod text_pool;

use std::cell::OnceCell;

use bumpalo::Bump;
use hashbrown::HashTable;

use self::manifest_data::{HAS_BINDINGS, ManifestData};
use crate::hash::rapidhash as hash;
use crate::hash::{Map, Set};
use crate::ids::{EdgeId, NodeId, PoolId, RuleId, ScopeId};

pub use self::bindings::{CommandEvaluator, Escape};
pub use self::manifest_data::OutEdgeKind;

/// A build statement.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'t> {
    pub rule: RuleId,
    pub pool: PoolId,
    /// Explicit outputs, implicit ones, then those added by a dyndep file (implicit too).
    pub outs: &'t [NodeId],
    /// Number of explicit outputs.
    pub explicit_outs: u32,
    /// Explicit inputs, implicit ones (also those of a dyndep file), then order-only ones. Inputs from depfiles or
    /// the deps log are kept by the scan.
    pub ins: &'t [NodeId],
    /// Number of explicit inputs.
    pub explicit_ins: u32,
    /// Number of order-only inputs, at the end of `ins`.
    pub order_only_ins: u32,
    /// Nodes that are built as well if this edge is in the plan.
    pub validations: &'t [NodeId],
    /// The dyndep file, one of `ins`.
    pub dyndep: Option<NodeId>,
    /// A phony edge that had its own output among its inputs. Ninja drops that input but still counts it as a use of
    /// the output.
    pub names_itself: bool,
}

impl<'t> Edge<'t> {
    pub fn is_phony(&self) -> bool {
        self.rule == RuleId::PHONY
    }

    /// Explicit and implicit inputs: a change of one makes the edge dirty.
    pub fn dirtying_ins(&self) -> &'t [NodeId] {
        &self.ins[..self.ins.len() - self.order_only_ins as usize]
    }

    pub fn order_only(&self) -> &'t [NodeId] {
        &self.ins[self.ins.len() - self.order_only_ins as usize..]
    }

    /// The inputs in `$in`.
    pub fn explicit(&self) -> &'t [NodeId] {
        &self.ins[..self.explicit_ins as usize]
    }
}

/// Storage of graphs, with their text and id lists.
#[derive(Default)]
pub struct Arena {
    bump: Bump,
    first: GraphSlot,
}

/// Storage of one more graph. Earlier ones are borrowed and stay in place.
type GraphSlot = OnceCell<Box<StoredGraph>>;

struct StoredGraph {
    data: ManifestData,
    next: GraphSlot,
}

impl Arena {
    pub fn new() -> Self {
        Arena::default()
    }

    /// Returns a graph without a manifest.
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

/// A graph, and storage for later additions.
pub struct Graph<'t> {
    /// Storage of text and id lists of additions.
    pub arena: &'t Bump,
    view: GraphView<'t>,
}

impl<'t> std::ops::Deref for Graph<'t> {
    type Target = GraphView<'t>;

    fn deref(&self) -> &GraphView<'t> {
        &self.view
    }
}

/// The readable part of a graph, shared between threads.
pub struct GraphView<'t> {
    pub(crate) data: &'t ManifestData,
    /// Number of visible nodes of `data`: all, or those named by manifests.
    visible: usize,
    /// NUL-terminated paths of added nodes, and an index of them.
    added: Vec<&'t [u8]>,
    index: HashTable<NodeId>,
    /// Edges that build a node according to a dyndep file.
    dyndep_in_edges: Map<NodeId, EdgeId>,
    /// Outputs and inputs of edges changed by dyndep files.
    extended_edges: Map<EdgeId, (&'t [NodeId], &'t [NodeId])>,
    /// Dyndep files that were loaded, or that failed to load.
    read_dyndeps: Set<NodeId>,
    /// Edges with `restat` from a dyndep file: those with bindings of their own, and whole scopes for those without.
    pub(crate) restat_edges: Set<EdgeId>,
    pub(crate) restat_scopes: Set<ScopeId>,
}

impl<'t> Graph<'t> {
    /// Returns the node of a canonical path; adds it if needed, as one that no manifest names.
    ///
    /// # Panics
    ///
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

    /// Makes nodes of the paths in the snapshot that only the deps log names. Returns false if nodes were added
    /// before, which may be the same.
    pub(crate) fn show_discovered(&mut self) -> bool {
        let view = &mut self.view;
        if view.added.is_empty() {
            view.visible = view.data.paths.len();
        }
        !view.has_hidden()
    }

    /// Undoes `show_discovered`.
    pub(crate) fn hide_discovered(&mut self) {
        self.view.visible = self.view.data.named();
    }

    /// Marks a dyndep file as loaded, or tried.
    pub(crate) fn dyndep_is_read(&mut self, node: NodeId) {
        self.view.read_dyndeps.insert(node);
    }

    /// Sets the edge that builds a node, from a dyndep file. Returns the previous one.
    pub(crate) fn set_in_edge(&mut self, node: NodeId, edge: EdgeId) -> Option<EdgeId> {
        let before = self.in_edge(node);
        self.view.dyndep_in_edges.insert(node, edge);
        before
    }

    /// Adds implicit outputs and inputs from a dyndep file.
    pub(crate) fn extend_edge(&mut self, id: EdgeId, outs: &[NodeId], ins: &[NodeId]) {
        let edge = self.edge(id);
        let outs = self.arena.alloc_slice_copy(&[edge.outs, outs].concat());
        let ins = self.arena.alloc_slice_copy(&[edge.dirtying_ins(), ins, edge.order_only()].concat());
        self.view.extended_edges.insert(id, (outs, ins));
    }

    /// Sets `restat` from a dyndep file, as if the edge had the binding. Like ninja, sets it for the whole scope if
    /// the edge has no bindings of its own.
    pub(crate) fn set_restat(&mut self, edge: EdgeId) {
        if self.data.edges.get(edge.index()).flags & HAS_BINDINGS != 0 {
            self.view.restat_edges.insert(edge);
        } else {
            let scope = self.data.edge_bindings.get(edge.index()).scope;
            self.view.restat_scopes.insert(ScopeId(scope));
        }
    }
}

impl<'t> GraphView<'t> {
    fn new(data: &'t ManifestData) -> Self {
        GraphView {
            data,
            visible: data.named(),
            added: Vec::new(),
            index: HashTable::new(),
            dyndep_in_edges: Map::default(),
            extended_edges: Map::default(),
            read_dyndeps: Set::default(),
            restat_edges: Set::default(),
            restat_scopes: Set::default(),
        }
    }

    /// Checks the whole snapshot; false if it is damaged. Always true for a graph loaded from text.
    pub fn is_intact(&self) -> bool {
        self.data.blocks.as_ref().is_none_or(|blocks| blocks.check_all(1))
    }

    /// Releases memory of the mapped snapshot; it can be read again.
    pub(crate) fn release(&self) {
        self.data.blocks.iter().for_each(|blocks| blocks.release());
    }

    /// Paths of all manifests, as written in the including file.
    pub fn manifests(&self) -> impl Iterator<Item = &[u8]> {
        self.data.manifests.list.iter().map(|manifest| &manifest.path[..])
    }

    /// Returns the node of a canonical path.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        self.lookup_base(path).or_else(|| self.lookup_added(path))
    }

    fn lookup_base(&self, path: &[u8]) -> Option<NodeId> {
        self.data.paths.lookup(path).filter(|node| node.index() < self.visible)
    }

    /// Appends the node of each canonical path. A batch is cheaper than single lookups.
    pub fn lookup_all(&self, paths: &[&[u8]], nodes: &mut Vec<Option<NodeId>>) {
        let before = nodes.len();
        self.data.paths.lookup_all(paths, nodes);
        if !self.added.is_empty() || self.has_hidden() {
            for (path, node) in paths.iter().zip(&mut nodes[before..]) {
                *node = node.filter(|node| node.index() < self.visible).or_else(|| self.lookup_added(path));
            }
        }
    }

    fn lookup_added(&self, path: &[u8]) -> Option<NodeId> {
        if self.added.is_empty() {
            return None;
        }
        self.index.find(hash(path), |id| self.path(*id) == path).copied()
    }

    /// Number of node ids. Ids without a node have an empty path.
    pub fn node_count(&self) -> usize {
        self.data.paths.len() + self.added.len()
    }

    /// Returns true if the snapshot has nodes that are not visible yet.
    fn has_hidden(&self) -> bool {
        self.visible < self.data.paths.len()
    }

    /// Nodes with smaller ids exist for good. Later nodes get larger ids.
    pub(crate) fn steady_count(&self) -> usize {
        if self.has_hidden() { self.visible } else { self.node_count() }
    }

    /// All nodes, in unspecified order.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        let there = (0..self.visible).chain(self.data.paths.len()..self.node_count());
        there.map(|node| NodeId(node as u32)).filter(|node| !self.path(*node).is_empty())
    }

    #[inline]
    pub fn path(&self, node: NodeId) -> &'t [u8] {
        match node.index().checked_sub(self.data.paths.len()) {
            None => self.data.paths.path(node),
            Some(added) => without_nul(self.added[added]),
        }
    }

    /// The NUL-terminated path of a node.
    #[inline]
    pub fn path_with_nul(&self, node: NodeId) -> &'t [u8] {
        match node.index().checked_sub(self.data.paths.len()) {
            None => self.data.paths.c_path(node).to_bytes_with_nul(),
            Some(added) => self.added[added],
        }
    }

    /// The edge that builds a node.
    #[inline]
    pub fn in_edge(&self, node: NodeId) -> Option<EdgeId> {
        if !self.dyndep_in_edges.is_empty()
            && let Some(edge) = self.dyndep_in_edges.get(&node)
        {
            return Some(*edge);
        }
        if node.index() < self.data.named() { self.data.in_edge(node) } else { None }
    }

    /// Returns true if no manifest names the node: it comes from a depfile, the deps log or a dyndep file. It may
    /// then be missing without an edge that builds it.
    pub fn is_discovered(&self, node: NodeId) -> bool {
        node.index() >= self.data.named()
    }

    /// Returns true for a dyndep file that was not loaded yet.
    pub fn dyndep_pending(&self, node: NodeId) -> bool {
        self.data.dyndep_files.all().contains(&node) && !self.read_dyndeps.contains(&node)
    }

    /// Returns true if a dyndep file set `restat` for any edge.
    pub(crate) fn has_dyndep_restats(&self) -> bool {
        !self.restat_edges.is_empty() || !self.restat_scopes.is_empty()
    }

    pub fn edge_count(&self) -> usize {
        self.data.edge_count()
    }

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

    /// All edge ids, in the order of the manifest.
    pub fn edge_ids(&self) -> impl Iterator<Item = EdgeId> + use<> {
        (0..self.edge_count() as u32).map(EdgeId)
    }

    /// All edges, in the order of the manifest.
    pub fn edges(&self) -> impl Iterator<Item = Edge<'t>> {
        self.edge_ids().map(|id| self.edge(id))
    }

    /// Edges that have the node as an input or validation, in manifest order, without changes by dyndep files. An
    /// edge that names it twice comes twice.
    pub fn out_edges(&self, node: NodeId) -> impl Iterator<Item = (EdgeId, OutEdgeKind)> {
        self.data.out_edges(node)
    }

    /// Edges with a dyndep file, and that file, in the order of the manifest.
    pub fn dyndeps(&self) -> impl Iterator<Item = (EdgeId, NodeId)> {
        self.data.dyndep_edges.all().iter().copied().zip(self.data.dyndep_files.all().iter().copied())
    }

    /// Maximum number of running edges of a pool; 0 means unlimited.
    pub fn pool_depth(&self, pool: PoolId) -> u32 {
        self.data.env.pool(pool).depth
    }

    pub fn rule_name(&self, rule: RuleId) -> &'t [u8] {
        self.data.env.rule_name(rule)
    }

    /// The rule with this name in the top scope.
    pub fn top_rule(&self, name: &[u8]) -> Option<RuleId> {
        self.data.env.rule_in(ScopeId::TOP, name)
    }

    /// The rules of the top scope, sorted by name.
    pub fn top_rules(&self) -> Vec<RuleId> {
        let mut rules: Vec<_> = self.data.env.rules_in(ScopeId::TOP).collect();
        rules.sort_unstable_by_key(|rule| self.rule_name(*rule));
        rules
    }

    /// The value of a variable at the end of the manifest, in a scope or its parents.
    pub fn variable(&self, scope: ScopeId, name: &[u8]) -> Option<&'t [u8]> {
        self.data.env.variable(scope, name, env::END_OF_MANIFEST)
    }

    pub fn defaults(&self) -> &'t [NodeId] {
        self.data.defaults.all()
    }
}

fn without_nul(text: &[u8]) -> &[u8] {
    &text[..text.len() - 1]
}
