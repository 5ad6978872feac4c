//! Looks up the discovered inputs of all edges in a subgraph, reading deps log records in place.

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

/// An edge's discovered inputs.
#[derive(Clone, Copy, Default)]
pub(super) enum EdgeDeps<'l> {
    /// A record is missing or invalid; left to the walk.
    #[default]
    Unknown,
    /// The edge has neither `deps` nor a depfile.
    None,
    /// In a depfile that was not read yet.
    Unread,
    /// From a depfile.
    Listed(&'l [NodeId]),
    /// From the deps log.
    Logged(Deps<'l>),
}

/// The number of edges that justify another thread. With fewer, starting it costs more than it saves.
pub(super) const MIN_PER_THREAD: usize = 512;

/// Mark of a deps log id: read by some edge, made by none.
const SOURCE: u8 = 1;
/// Read by some edge, made by another.
const GENERATED: u8 = 2;

pub(super) struct DiscoveredDeps<'l> {
    /// By position in the subgraph.
    pub(super) edges: Vec<EdgeDeps<'l>>,
    /// By deps log id; allocated for the first record.
    marks: OnceLock<Vec<AtomicU8>>,
    /// Edges with a discovered input that is made later in the order, or by an edge outside it.
    pub(super) misordered: Vec<(EdgeId, NodeId)>,
}

pub(super) struct DepsLookup<'s, 't, 'l> {
    pub(super) graph: &'s GraphView<'t>,
    pub(super) known: &'s EdgeStates<'l>,
    pub(super) subgraph: &'s Subgraph,
    pub(super) log: &'l DepsLog,
}

impl<'l> DepsLookup<'_, '_, 'l> {
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
        // More inputs of an edge with a dyndep file become known when that is loaded.
        let needs_walk = edge.is_phony() || edge.dyndep.is_some();
        Ok(match self.known.prefetched_depfile(id) {
            Some(ins) => EdgeDeps::Listed(ins),
            None if needs_walk || self.known.depfile_unusable(id) => EdgeDeps::Unknown,
            None => EdgeDeps::Unread,
        })
    }

    /// Marks the inputs and returns those that are made too late in the order.
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

    /// Sets the mark of a file. Concurrent calls store the same value.
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

/// Fast path: most headers are sources that were marked before.
fn all_are_sources(marks: &[AtomicU8], deps: Deps<'_>) -> bool {
    let is_plain = |number: u32| marks.get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == SOURCE);
    deps.numbers().fold(true, |plain, number| plain & is_plain(number))
}

impl DiscoveredDeps<'_> {
    /// Edges with a depfile that must be read.
    pub(super) fn unread(&self, subgraph: &Subgraph) -> Vec<EdgeId> {
        let unread = self.edges.iter().zip(&subgraph.edges).filter(|(found, _)| matches!(found, EdgeDeps::Unread));
        unread.map(|(_, &edge)| edge).collect()
    }

    fn marks(&self) -> &[AtomicU8] {
        self.marks.get().map_or(&[], Vec::as_slice)
    }

    /// The deps log ids of all files read, in ascending order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.marks()).filter(|(_, mark)| mark.load(Ordering::Relaxed) != 0).map(|(number, _)| number)
    }

    pub(super) fn nodes<'s>(&'s self, log: &'s DepsLog) -> impl Iterator<Item = NodeId> + 's {
        self.numbers().map(|number| log.nodes()[number as usize])
    }

    #[inline]
    pub(super) fn is_generated(&self, number: u32) -> bool {
        self.marks().get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == GENERATED)
    }
}
