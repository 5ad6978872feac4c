//! Reads, touches and observes files for the records of commands.

use tanto_cas::FileDigest;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, wait_until_known};
use tanto_sys::machine::cpu;
use tanto_sys::threads::{ThreadLimit, map_parallel};

use super::{Renewal, Scan};
use crate::content::{ContentId, PathKey, SideEffects};
use crate::disk::Disk;
use crate::graph::{Escape, GraphView};
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId};

/// Files that a thread reads at a time.
const FILES_AT_A_TIME: usize = 16;

/// Length from which a file is not read that no command uses, in bytes.
const LARGE_RESULT: u64 = 64 << 20;

impl Scan<'_, '_> {
    /// The file systems of the files that were observed.
    pub(crate) fn systems(&self) -> &FileSystems {
        &self.systems
    }

    /// Returns whether a walk has seen the file.
    pub(crate) fn is_seen(&self, node: NodeId) -> bool {
        self.files.is_seen(node)
    }

    /// Returns the state in which a walk has seen the file.
    pub(crate) fn seen_state(&self, node: NodeId) -> Option<FileState> {
        self.files.is_seen(node).then(|| self.files.state(node))
    }

    /// Returns the current state of a file; that of a missing one if it cannot be examined.
    pub(crate) fn observe(&mut self, node: NodeId) -> FileState {
        self.disk.observe(self.graph.path(node), &self.systems).unwrap_or_default()
    }

    /// Returns the current states of many files.
    pub(crate) fn observe_all(&mut self, nodes: &[NodeId], threads: ThreadLimit) -> Vec<FileState> {
        let mut found = vec![FileState::default(); nodes.len()];
        let graph: &GraphView<'_> = self.graph;
        self.disk.observe_all(&|number| graph.path_with_nul(nodes[number]), &self.systems, &mut found, threads);
        found
    }

    /// Replaces what was known about a file.
    pub(crate) fn set_state(&mut self, node: NodeId, state: FileState) {
        let was_seen = self.files.is_seen(node);
        self.files.set_prefetched(node, state);
        if was_seen {
            self.files.mark_seen(node);
        }
        self.contents.iter_mut().for_each(|contents| contents.forget(node));
    }

    /// Returns whether the table has the content of the file.
    pub(crate) fn is_in_table(&mut self, node: NodeId) -> bool {
        let (key, state) = (PathKey::of(self.graph.path(node)), self.files.state(node));
        let entry = self.contents.as_mut().and_then(|contents| contents.table().file(key));
        entry.is_some_and(|entry| entry.is_of(state))
    }

    /// Reads files; `None` for one that is not in its last state.
    pub(crate) fn read_digests(&self, nodes: &[NodeId], threads: ThreadLimit) -> Vec<Option<FileDigest>> {
        let (graph, disk): (&GraphView<'_>, &dyn Disk) = (self.graph, self.disk);
        let (files, systems) = (&self.files, &self.systems);
        let read = |node: NodeId| {
            let found = disk.digest(graph.path(node), systems).ok().flatten();
            found.filter(|found| found.state == files.state(node))
        };
        let pieces = nodes.chunks(FILES_AT_A_TIME).collect();
        let workers = threads.limit(cpu::count());
        let work = |nodes: &[NodeId]| nodes.iter().map(|&node| read(node)).collect::<Vec<_>>();
        map_parallel(workers, pieces, work).concat()
    }

    pub(crate) fn note_read_for_records(&mut self, node: NodeId, found: &FileDigest) {
        let is_source = self.graph.in_edge(node).is_none();
        let key = PathKey::of(self.graph.path(node));
        self.contents.iter_mut().for_each(|contents| contents.note_read_for_records(node, key, found, is_source));
    }

    /// Returns whether a file is long and no command uses it. It is not read: its state stands for its content.
    pub(crate) fn is_large_result(&mut self, node: NodeId) -> bool {
        let (key, fingerprint) = (PathKey::of(self.graph.path(node)), self.files.state(node).fingerprint);
        let entry = self.contents.as_mut().and_then(|contents| contents.table().file(key));
        if entry.is_some_and(|entry| entry.fingerprint == fingerprint) {
            return false;
        }
        let path = self.graph.path(node);
        self.graph.out_edges(node).all(|(edge, _)| self.graph.edge(edge).is_phony())
            && self.disk.size(path).is_ok_and(|size| size >= LARGE_RESULT)
            && self.systems.sets_change_times(path)
    }

    /// Adds a file, or the files of a group.
    pub(crate) fn add_files(&self, node: NodeId, files: &mut Set<NodeId>) {
        let mut nodes = vec![node];
        let mut groups = Set::default();
        while let Some(node) = nodes.pop() {
            match self.graph.in_edge(node).map(|edge| self.graph.edge(edge)).filter(|edge| edge.is_phony()) {
                None => _ = files.insert(node),
                Some(group) => {
                    if self.files.exists(node) {
                        files.insert(node);
                    }
                    if groups.insert(node) {
                        nodes.extend(group.dirtying_ins());
                    }
                }
            }
        }
    }

    /// Replaces the discovered inputs of an edge.
    pub(crate) fn set_discovered(&mut self, edge: EdgeId, ins: &[NodeId]) {
        self.edges.set_deps(edge, self.graph.arena.alloc_slice_copy(ins));
    }

    pub(crate) fn discovered_ins(&self, edge: EdgeId) -> Vec<NodeId> {
        self.edges.deps(edge).to_vec()
    }

    /// Returns whether the command may write more than its outputs. Everything else is unknown.
    pub(crate) fn side_effects(&self, edge: EdgeId) -> SideEffects {
        let line = self.graph.binding(edge, b"command", Escape::Shell);
        line.map_or(SideEffects::Possible, |line| SideEffects::of_command(&line))
    }

    /// Sets the mtimes of the outputs. Returns, for each renewal, whether that was possible for all of its outputs.
    pub(crate) fn renew_outputs(&mut self, renewals: &[Renewal]) -> Vec<bool> {
        let (graph, disk, systems): (&GraphView<'_>, &dyn Disk, _) = (self.graph, self.disk, &self.systems);
        let renew = |renewal: &Renewal| -> Option<Vec<FileState>> {
            let renew = |&(out, before)| disk.renew(graph.path(out), before, renewal.newest, systems).ok();
            renewal.outputs.iter().map(renew).collect()
        };
        let pieces = renewals.chunks(FILES_AT_A_TIME).collect();
        let work = |renewals: &[Renewal]| renewals.iter().map(renew).collect::<Vec<_>>();
        let workers = self.prefetch.threads.limit(cpu::count());
        let renewed = map_parallel(workers, pieces, work).into_iter().flatten();
        let mut done = Vec::with_capacity(renewals.len());
        for (renewal, states) in renewals.iter().zip(renewed) {
            done.push(states.is_some());
            for (&(out, _), state) in renewal.outputs.iter().zip(states.into_iter().flatten()) {
                let key = PathKey::of(self.graph.path(out));
                self.contents.iter_mut().for_each(|contents| contents.table().retime_file(key, state.fingerprint));
                self.files.set_state(out, state);
            }
        }
        done
    }

    /// Waits until outputs that were renewed before `renewed`, a value of `fine_now`, can be trusted, which costs less than
    /// to read them again.
    pub(crate) fn settle(&mut self, outputs: &[NodeId], renewed: i64) {
        if outputs.is_empty() {
            return;
        }
        wait_until_known(renewed);
        let found = self.observe_all(outputs, self.prefetch.threads);
        let Some(contents) = &mut self.contents else { return };
        for (&out, found) in outputs.iter().zip(found) {
            if found == self.files.state(out) && found.has_fine_times() {
                contents.table().settle_file(PathKey::of(self.graph.path(out)), found.fingerprint);
            }
        }
    }

    /// Returns whether an output that was written just now has the content that it had before. Then its state is the new
    /// one for its dependents.
    pub(crate) fn has_same_content(&mut self, out: NodeId, state: FileState, max_bytes: u64) -> bool {
        let (path, before) = (self.graph.path(out), self.files.state(out));
        let key = PathKey::of(path);
        let Some(contents) = &mut self.contents else { return false };
        let Some(entry) = contents.table().file(key).filter(|entry| entry.is_of(before)).copied() else { return false };
        if !self.disk.size(path).is_ok_and(|size| size <= max_bytes) {
            return false;
        }
        let Some(found) = self.disk.digest(path, &self.systems).ok().flatten() else { return false };
        if found.state != state || found.digest != entry.digest {
            return false;
        }
        contents.note_read(key, &found, false);
        self.files.set_state(out, state);
        contents.set_id(out, ContentId::of_file(path, &found.digest));
        true
    }
}
