//! The graph as the manifests say it: nodes, edges, rules, pools and scopes, by number. All text lies in one arena.
//! It does not know the file system's state, nor what is to be built.

use bumpalo::Bump;
use hashbrown::{HashMap, HashTable};

/// Text that lives as long as the graph: manifest bytes, paths, evaluated bindings.
pub type Text<'t> = &'t [u8];

/// A hash map with the crate's hash function.
pub type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the graph's vectors.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A file, by its canonical path.
    NodeId
    /// A build statement.
    EdgeId
    /// A rule. `RuleId::PHONY` is the builtin one.
    RuleId
    /// A pool. `PoolId::DEFAULT` is unlimited, `PoolId::CONSOLE` the builtin one of depth 1.
    PoolId
    /// A file's scope of variables and rules. Scope 0 is the top one.
    ScopeId
}

impl RuleId {
    /// The builtin rule `phony`.
    pub const PHONY: RuleId = RuleId(0);
}

impl PoolId {
    /// The pool without a name, for every edge that names none.
    pub const DEFAULT: PoolId = PoolId(0);
    /// The builtin pool `console`.
    pub const CONSOLE: PoolId = PoolId(1);
}

impl ScopeId {
    /// The scope of the manifest named by `-f`.
    pub const TOP: ScopeId = ScopeId(0);
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct Node<'t> {
    /// Its canonical path.
    pub path: Text<'t>,
    /// The edge that makes it.
    pub in_edge: Option<EdgeId>,
    /// No manifest names it as an input, output or validation: only a depfile, the deps log or a dyndep file does.
    /// Then it is no error if it is missing and no rule makes it.
    pub generated_by_dep_loader: bool,
    /// It is a dyndep file that has not been loaded yet.
    pub dyndep_pending: bool,
}

/// A rule. Its values are raw text: they are evaluated for each edge, with the values that the variables have at
/// the end of the manifest.
#[derive(Clone, Debug)]
pub struct Rule<'t> {
    /// Its name.
    pub name: Text<'t>,
    /// Name and unevaluated value of each binding, in the order of the manifest; a later one of the same name wins.
    pub bindings: Vec<(Text<'t>, Text<'t>)>,
}

/// A pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'t> {
    /// Its name; empty for the default pool.
    pub name: Text<'t>,
    /// How many of its edges may run at once; 0 for any number.
    pub depth: u32,
}

/// A manifest's variables and rules; a `subninja` has its own, whose parent is the includer's.
#[derive(Default, Debug)]
pub struct Scope<'t> {
    /// Where a name that is not here is looked up.
    pub parent: Option<ScopeId>,
    /// Evaluated values.
    pub variables: Map<Text<'t>, Text<'t>>,
    /// Rules by name.
    pub rules: Map<Text<'t>, RuleId>,
}

/// A build statement.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'t> {
    /// Its rule.
    pub rule: RuleId,
    /// Its pool.
    pub pool: PoolId,
    /// The scope of the file it stands in.
    pub scope: ScopeId,
    /// Its own bindings, evaluated; a later one of the same name wins. They shadow the rule's and the scope's.
    pub(crate) bindings: &'t [(Text<'t>, Text<'t>)],
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

/// The graph, and room for what joins it.
pub struct Graph<'t> {
    /// Where all text and all id lists lie.
    pub arena: &'t Bump,
    known: Known<'t>,
}

impl<'t> std::ops::Deref for Graph<'t> {
    type Target = Known<'t>;

    fn deref(&self) -> &Known<'t> {
        &self.known
    }
}

impl std::ops::DerefMut for Graph<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.known
    }
}

/// What is known of the graph. Several threads may read it.
pub struct Known<'t> {
    /// By `NodeId`.
    pub(crate) nodes: Vec<Node<'t>>,
    /// By `EdgeId`, in the order of the manifest.
    pub(crate) edges: Vec<Edge<'t>>,
    /// By `RuleId`.
    pub(crate) rules: Vec<Rule<'t>>,
    /// By `PoolId`.
    pub(crate) pools: Vec<Pool<'t>>,
    /// By `ScopeId`.
    pub(crate) scopes: Vec<Scope<'t>>,
    /// The targets of `default` statements.
    pub(crate) defaults: Vec<NodeId>,
    /// A scope sets a variable that a rule may have too (`restat = 1` for a whole file).
    pub(crate) scopes_set_reserved: bool,
    index: HashTable<NodeId>,
}

pub(crate) fn hash(path: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::default().hash_one(path)
}

impl<'t> Graph<'t> {
    /// A graph with the builtin rule, pools and top scope.
    pub fn new(arena: &'t Bump) -> Self {
        let phony = Rule { name: b"phony", bindings: Vec::new() };
        let mut top = Scope::default();
        top.rules.insert(b"phony", RuleId::PHONY);
        let known = Known {
            nodes: Vec::new(),
            edges: Vec::new(),
            rules: vec![phony],
            pools: vec![Pool { name: b"", depth: 0 }, Pool { name: b"console", depth: 1 }],
            scopes: vec![top],
            defaults: Vec::new(),
            scopes_set_reserved: false,
            index: HashTable::new(),
        };
        Graph { arena, known }
    }

    /// The node of a canonical path, made if need be; a new one counts as named by no manifest.
    pub fn intern(&mut self, path: &[u8]) -> NodeId {
        let arena = self.arena;
        self.intern_with(path, || arena.alloc_slice_copy(path))
    }

    /// As `intern`, for a path that lies in the arena already.
    pub fn intern_text(&mut self, path: Text<'t>) -> NodeId {
        self.intern_with(path, || path)
    }

    fn intern_with(&mut self, path: &[u8], text: impl FnOnce() -> Text<'t>) -> NodeId {
        let Known { nodes, index, .. } = &mut self.known;
        let entry = index.entry(hash(path), |id| nodes[id.index()].path == path, |id| hash(nodes[id.index()].path));
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(free) => {
                let id = NodeId(u32::try_from(nodes.len()).expect("under 2^32 paths"));
                free.insert(id);
                nodes.push(Node { path: text(), in_edge: None, generated_by_dep_loader: true, dyndep_pending: false });
                id
            }
        }
    }

    /// A dyndep file says that the edge has more implicit outputs and inputs.
    pub(crate) fn extend_edge(&mut self, edge: EdgeId, outs: &[NodeId], ins: &[NodeId]) {
        let edge = &mut self.known.edges[edge.index()];
        edge.outs = self.arena.alloc_slice_copy(&[edge.outs, outs].concat());
        edge.ins = self.arena.alloc_slice_copy(&[edge.dirtying_ins(), ins, edge.order_only()].concat());
    }
}

impl<'t> Known<'t> {
    /// The node of a canonical path, if it has one.
    pub fn lookup(&self, path: &[u8]) -> Option<NodeId> {
        self.index.find(hash(path), |id| self.nodes[id.index()].path == path).copied()
    }

    /// How many nodes there are by now; their ids are smaller.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes, in no order that means anything.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The edge that makes a node.
    pub fn in_edge(&self, node: NodeId) -> Option<EdgeId> {
        self.nodes[node.index()].in_edge
    }

    /// No manifest names the node as an input, output or validation: only a depfile, the deps log or a dyndep file
    /// does. Then it is no error if it is missing and no rule makes it.
    pub fn is_discovered(&self, node: NodeId) -> bool {
        self.nodes[node.index()].generated_by_dep_loader
    }

    /// Is the node a dyndep file that has not been loaded yet?
    pub fn dyndep_pending(&self, node: NodeId) -> bool {
        self.nodes[node.index()].dyndep_pending
    }

    /// The dyndep file has been loaded, or that was tried.
    pub(crate) fn dyndep_is_read(&mut self, node: NodeId) {
        self.nodes[node.index()].dyndep_pending = false;
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The edge.
    pub fn edge(&self, id: EdgeId) -> Edge<'t> {
        self.edges[id.index()]
    }

    /// All edges, in the order of the manifest.
    pub fn edges(&self) -> impl Iterator<Item = Edge<'t>> {
        self.edges.iter().copied()
    }

    /// A dyndep file says that the edge makes the node; the edge that made it so far.
    pub(crate) fn set_in_edge(&mut self, node: NodeId, edge: EdgeId) -> Option<EdgeId> {
        self.nodes[node.index()].in_edge.replace(edge)
    }

    /// How many edges of a pool may run at once; 0 for any number.
    pub fn pool_depth(&self, pool: PoolId) -> u32 {
        self.pools[pool.index()].depth
    }

    /// The name of a rule.
    pub fn rule_name(&self, rule: RuleId) -> Text<'t> {
        self.rules[rule.index()].name
    }

    /// The rule of this name in the top scope.
    pub fn top_rule(&self, name: &[u8]) -> Option<RuleId> {
        self.scopes[ScopeId::TOP.index()].rules.get(name).copied()
    }

    /// The rules of the top scope, by name.
    pub fn top_rules(&self) -> Vec<RuleId> {
        let mut rules: Vec<_> = self.scopes[ScopeId::TOP.index()].rules.iter().collect();
        rules.sort_unstable();
        rules.into_iter().map(|(_, rule)| *rule).collect()
    }

    /// The targets of `default` statements.
    pub fn defaults(&self) -> &[NodeId] {
        &self.defaults
    }

    /// The path of a node.
    pub fn path(&self, id: NodeId) -> Text<'t> {
        self.nodes[id.index()].path
    }

    /// All edges, in the order of the manifest.
    pub fn edge_ids(&self) -> impl Iterator<Item = EdgeId> + use<> {
        (0..self.edges.len() as u32).map(EdgeId)
    }
}

/// For each node the edges that have it as an input, in the order of the manifest; made in one pass when someone
/// needs it.
pub struct OutEdges {
    starts: Vec<u32>,
    edges: Vec<EdgeId>,
}

impl OutEdges {
    /// Counts, then fills. `lists` says which of an edge's nodes count: its inputs, or its validations.
    pub fn new<'t>(graph: &Graph<'t>, lists: impl Fn(&Edge<'t>) -> &'t [NodeId]) -> Self {
        let mut starts = vec![0u32; graph.nodes.len() + 1];
        for edge in &graph.edges {
            for node in lists(edge) {
                starts[node.index() + 1] += 1;
            }
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut edges = vec![EdgeId(0); starts[starts.len() - 1] as usize];
        for (number, edge) in graph.edges.iter().enumerate() {
            for node in lists(edge) {
                edges[next[node.index()] as usize] = EdgeId(number as u32);
                next[node.index()] += 1;
            }
        }
        OutEdges { starts, edges }
    }

    /// The edges that have `node` as an input; an edge that names it twice comes twice.
    pub fn of(&self, node: NodeId) -> &[EdgeId] {
        let at = |i: usize| self.starts[i] as usize;
        &self.edges[at(node.index())..at(node.index() + 1)]
    }
}
