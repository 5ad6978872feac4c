//! What the edges of a subgraph read by their own account: the deps log's records, walked where they lie. Does not look at
//! files.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tanto_sys::threads::ThreadLimit;

use crate::error::Result;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{Deps, DepsLog};

use super::super::state::EdgeStates;
use super::parallel::map_indices;
use super::subgraph::Subgraph;

/// What is known of an edge's discovered inputs.
#[derive(Clone, Copy, Default)]
pub(super) enum EdgeDeps<'l> {
    /// A record is missing, or something is wrong: only the walk can tell.
    #[default]
    Unknown,
    /// It has none.
    None,
    /// By a depfile that was not read yet.
    Unread,
    /// By a depfile that was.
    Listed(&'l [NodeId]),
    /// By the deps log.
    Logged(Deps<'l>),
}

/// For so many edges another thread is started. Smaller, its start costs extra than it saves; larger, middling builds
/// are judged by one.
pub(super) const MIN_PER_THREAD: usize = 512;

/// Of a file, by its number in the deps log: some edge reads it, and none makes it.
const SOURCE: u8 = 1;
/// Some edge reads it, and one makes it.
const GENERATED: u8 = 2;

/// The discovered inputs of a subgraph's edges.
pub(super) struct DiscoveredDeps<'l> {
    /// By place in the subgraph.
    pub(super) edges: Vec<EdgeDeps<'l>>,
    /// By number in the deps log; made when the first record is found.
    marks: OnceLock<Vec<AtomicU8>>,
    /// EdgeStates, and what they read though the subgraph's order has nothing that makes it, or not before them.
    pub(super) misordered: Vec<(EdgeId, NodeId)>,
}

/// What is needed to look them up.
pub(super) struct DepsLookup<'s, 't, 'l> {
    pub(super) graph: &'s GraphView<'t>,
    pub(super) known: &'s EdgeStates<'l>,
    pub(super) subgraph: &'s Subgraph,
    pub(super) log: &'l DepsLog,
}

impl<'l> DepsLookup<'_, '_, 'l> {
    /// Looks up what all edges of the subgraph read.
    pub(super) fn all(&self, threads: ThreadLimit) -> DiscoveredDeps<'l> {
        let mut discovered = DiscoveredDeps { edges: Vec::new(), marks: OnceLock::new(), misordered: Vec::new() };
        let misordered = Mutex::new(Vec::new());
        discovered.edges = map_indices(threads, MIN_PER_THREAD, self.subgraph.edges.len(), |place| {
            let edge = self.subgraph.edges[place];
            let found = self.found(edge).unwrap_or_default();
            if let EdgeDeps::Logged(deps) = found {
                let marks =
                    discovered.marks.get_or_init(|| self.log.nodes().iter().map(|_| AtomicU8::new(0)).collect());
                if !all_are_sources(marks, deps) {
                    let new = self.misordered(marks, place, deps).map(|node| (edge, node));
                    misordered.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
                }
            }
            found
        });
        discovered.misordered = misordered.into_inner().unwrap_or_else(PoisonError::into_inner);
        discovered.misordered.sort_unstable();
        discovered
    }

    fn found(&self, id: EdgeId) -> Result<EdgeDeps<'l>> {
        let edge = self.graph.edge(id);
        if self.graph.flag(id, b"deps")? {
            let deps = self.log.deps(edge.outs[0]).filter(|_| !edge.is_phony());
            return Ok(deps.map_or(EdgeDeps::Unknown, EdgeDeps::Logged));
        }
        if !self.graph.flag(id, b"depfile")? {
            return Ok(EdgeDeps::None);
        }
        // What else an edge with a dyndep file reads is known only after that.
        let needs_walk = edge.is_phony() || edge.dyndep.is_some();
        Ok(match self.known.prefetched_depfile(id) {
            Some(ins) => EdgeDeps::Listed(ins),
            None if needs_walk || self.known.depfile_unusable(id) => EdgeDeps::Unknown,
            None => EdgeDeps::Unread,
        })
    }

    /// Marks the files, and says which of them are made too misordered.
    fn misordered<'s>(
        &'s self,
        marks: &'s [AtomicU8],
        place: usize,
        deps: Deps<'s>,
    ) -> impl Iterator<Item = NodeId> + 's {
        let is_misordered = move |number: u32| match marks[number as usize].load(Ordering::Relaxed) {
            SOURCE => false,
            0 => self.is_generated(&marks[number as usize], number) && self.is_misordered(number, place),
            _ => self.is_misordered(number, place),
        };
        deps.numbers().filter(move |&number| is_misordered(number)).map(|number| self.log.nodes()[number as usize])
    }

    /// Notes what the file is, which nobody has done before, or somebody does right now.
    #[cold]
    fn is_generated(&self, mark: &AtomicU8, number: u32) -> bool {
        let is_generated = self.graph.in_edge(self.log.nodes()[number as usize]).is_some();
        mark.store(if is_generated { GENERATED } else { SOURCE }, Ordering::Relaxed);
        is_generated
    }

    fn is_misordered(&self, number: u32, place: usize) -> bool {
        let maker = self.graph.in_edge(self.log.nodes()[number as usize]);
        maker.is_some_and(|maker| !self.known.is_done(maker) && !self.subgraph.is_before(maker, place))
    }
}

/// Are all of them known to be read, and made by no edge? Most are: to see that costs less than to look at each.
fn all_are_sources(marks: &[AtomicU8], deps: Deps<'_>) -> bool {
    let is_plain = |number: u32| marks.get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == SOURCE);
    deps.numbers().fold(true, |plain, number| plain & is_plain(number))
}

impl DiscoveredDeps<'_> {
    /// EdgeStates whose depfiles are to be read.
    pub(super) fn unread(&self, subgraph: &Subgraph) -> Vec<EdgeId> {
        let unread = self.edges.iter().zip(&subgraph.edges).filter(|(found, _)| matches!(found, EdgeDeps::Unread));
        unread.map(|(_, &edge)| edge).collect()
    }

    fn marks(&self) -> &[AtomicU8] {
        self.marks.get().map_or(&[], Vec::as_slice)
    }

    /// The numbers, in the deps log, of all files that are read; from small to large.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.marks()).filter(|(_, mark)| mark.load(Ordering::Relaxed) != 0).map(|(number, _)| number)
    }

    /// All files that are read.
    pub(super) fn nodes<'s>(&'s self, log: &'s DepsLog) -> impl Iterator<Item = NodeId> + 's {
        self.numbers().map(|number| log.nodes()[number as usize])
    }

    /// Does an edge make the file of this number?
    #[inline]
    pub(super) fn is_generated(&self, number: u32) -> bool {
        self.marks().get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == GENERATED)
    }
}
