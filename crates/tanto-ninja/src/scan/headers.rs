//! What the edges of a cone read by their own account: the deps log's records, walked where they lie. Does not look at
//! files.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tanto_sys::threads::ThreadLimit;

use crate::error::Result;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::{Deps, DepsLog};

use super::cone::Cone;
use super::slices::answers;
use super::state::Edges;

/// What is known of an edge's discovered inputs.
#[derive(Clone, Copy, Default)]
pub(super) enum Found<'l> {
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

/// For so many edges another thread is started. Smaller, its start costs more than it saves; larger, middling builds
/// are judged by one.
pub(super) const WORTH_A_THREAD: usize = 512;

/// Of a file, by its number in the deps log: some edge reads it, and none makes it.
const READ: u8 = 1;
/// Some edge reads it, and one makes it.
const MADE: u8 = 2;

/// The discovered inputs of a cone's edges.
pub(super) struct Headers<'l> {
    /// By place in the cone.
    pub(super) found: Vec<Found<'l>>,
    /// By number in the deps log; made when the first record is found.
    marks: OnceLock<Vec<AtomicU8>>,
    /// Edges, and what they read though the cone's order has nothing that makes it, or not before them.
    pub(super) late: Vec<(EdgeId, NodeId)>,
}

/// What is needed to look them up.
pub(super) struct Lookup<'s, 't, 'l> {
    pub(super) graph: &'s GraphView<'t>,
    pub(super) known: &'s Edges<'l>,
    pub(super) cone: &'s Cone,
    pub(super) log: &'l DepsLog,
}

impl<'l> Lookup<'_, '_, 'l> {
    /// Looks up what all edges of the cone read.
    pub(super) fn all(&self, threads: ThreadLimit) -> Headers<'l> {
        let mut headers = Headers { found: Vec::new(), marks: OnceLock::new(), late: Vec::new() };
        let late = Mutex::new(Vec::new());
        headers.found = answers(threads, WORTH_A_THREAD, self.cone.edges.len(), |place| {
            let edge = self.cone.edges[place];
            let found = self.found(edge).unwrap_or_default();
            if let Found::Logged(deps) = found {
                let marks = headers.marks.get_or_init(|| self.log.nodes().iter().map(|_| AtomicU8::new(0)).collect());
                if !are_plain(marks, deps) {
                    let new = self.late(marks, place, deps).map(|node| (edge, node));
                    late.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
                }
            }
            found
        });
        headers.late = late.into_inner().unwrap_or_else(PoisonError::into_inner);
        headers.late.sort_unstable();
        headers
    }

    fn found(&self, id: EdgeId) -> Result<Found<'l>> {
        let edge = self.graph.edge(id);
        if self.graph.flag(id, b"deps")? {
            let deps = self.log.deps(edge.outs[0]).filter(|_| !edge.is_phony());
            return Ok(deps.map_or(Found::Unknown, Found::Logged));
        }
        if !self.graph.flag(id, b"depfile")? {
            return Ok(Found::None);
        }
        // What else an edge with a dyndep file reads is known only after that.
        let is_odd = edge.is_phony() || edge.dyndep.is_some();
        Ok(match self.known.read_ahead(id) {
            Some(ins) => Found::Listed(ins),
            None if is_odd || self.known.is_unreadable(id) => Found::Unknown,
            None => Found::Unread,
        })
    }

    /// Marks the files, and says which of them are made too late.
    fn late<'s>(&'s self, marks: &'s [AtomicU8], place: usize, deps: Deps<'s>) -> impl Iterator<Item = NodeId> + 's {
        let is_late = move |number: u32| match marks[number as usize].load(Ordering::Relaxed) {
            READ => false,
            0 => self.is_made(&marks[number as usize], number) && self.is_late(number, place),
            _ => self.is_late(number, place),
        };
        deps.numbers().filter(move |&number| is_late(number)).map(|number| self.log.nodes()[number as usize])
    }

    /// Notes what the file is, which nobody has done before, or somebody does right now.
    #[cold]
    fn is_made(&self, mark: &AtomicU8, number: u32) -> bool {
        let is_made = self.graph.in_edge(self.log.nodes()[number as usize]).is_some();
        mark.store(if is_made { MADE } else { READ }, Ordering::Relaxed);
        is_made
    }

    fn is_late(&self, number: u32, place: usize) -> bool {
        let maker = self.graph.in_edge(self.log.nodes()[number as usize]);
        maker.is_some_and(|maker| !self.known.is_done(maker) && !self.cone.is_before(maker, place))
    }
}

/// Are all of them known to be read, and made by no edge? Most are: to see that costs less than to look at each.
fn are_plain(marks: &[AtomicU8], deps: Deps<'_>) -> bool {
    let is_plain = |number: u32| marks.get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == READ);
    deps.numbers().fold(true, |plain, number| plain & is_plain(number))
}

impl Headers<'_> {
    /// Edges whose depfiles are to be read.
    pub(super) fn unread(&self, cone: &Cone) -> Vec<EdgeId> {
        let unread = self.found.iter().zip(&cone.edges).filter(|(found, _)| matches!(found, Found::Unread));
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
    pub(super) fn is_made(&self, number: u32) -> bool {
        self.marks().get(number as usize).is_some_and(|mark| mark.load(Ordering::Relaxed) == MADE)
    }
}
