//! Finds the files whose content changed, on several threads.

use tanto_cas::FileDigest;
use tanto_sys::fs::fingerprint::{FileSystems, Trust};
use tanto_sys::threads::ThreadLimit;

use crate::content::{ContentId, ContentTable, Contents, PathKey, PreparedFile};
use crate::disk::Disk;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};

use super::super::state::FileStates;
use super::bit_set::BitSet;
use super::discovered_deps::EdgeDeps;
use super::parallel::map_indices;
use super::subgraph::Subgraph;

/// Files that justify another thread.
const MIN_PER_THREAD: usize = 128;

/// The builds that found the content of files first.
pub(super) struct ContentChanges<'s> {
    table: &'s ContentTable,
    /// By node: the number of the build; 0 if it is unknown.
    changes: Vec<u32>,
    newest: u32,
}

/// The state of a file in the table.
#[derive(Clone, Default)]
enum Found {
    #[default]
    NotInTable,
    Unchanged(u32),
    Read(PathKey, FileDigest),
    /// It may have changed, and could not be read.
    Unreadable,
}

/// Returns the sum of the fingerprints of all files.
fn sum(subgraph: &Subgraph, files: &FileStates) -> u64 {
    let term = |node: usize| {
        let fingerprint = files.state(NodeId(node as u32)).fingerprint.0;
        let key = (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(fingerprint ^ key) * u128::from(key | 1);
        (product as u64) ^ (product >> 64) as u64
    };
    subgraph.nodes.iter().map(term).fold(1, u64::wrapping_add)
}

/// Finds out whether any file may have changed since everything was up to date, and reads those that may.
pub(super) fn find_changes(
    contents: &mut Contents,
    graph: &GraphView<'_>,
    disk: (&dyn Disk, &FileSystems),
    subgraph: &Subgraph,
    files: &FileStates,
    threads: ThreadLimit,
) {
    let sum = sum(subgraph, files);
    contents.sum = Some(sum);
    contents.is_unchanged = contents.clean_sums().contains(&sum);
    if !contents.is_unchanged {
        read_changed(contents, graph, disk, subgraph, files, threads);
    }
}

/// Reads the files that have another fingerprint than in the table.
fn read_changed(
    contents: &mut Contents,
    graph: &GraphView<'_>,
    (disk, systems): (&dyn Disk, &FileSystems),
    subgraph: &Subgraph,
    files: &FileStates,
    threads: ThreadLimit,
) {
    let nodes: Vec<NodeId> =
        subgraph.nodes.iter().map(|node| NodeId(node as u32)).filter(|&node| files.exists(node)).collect();
    let table = &*contents.table();
    let found = map_indices(threads, MIN_PER_THREAD, nodes.len(), |number| {
        let (node, path) = (nodes[number], graph.path(nodes[number]));
        let state = files.state(node);
        let key = PathKey::of(path);
        match table.file(key) {
            None => Found::NotInTable,
            Some(entry) if entry.may_be_of(state) => Found::Unchanged(entry.changed),
            Some(_) => match disk.digest(path, systems) {
                Ok(Some(digest)) if digest.state.fingerprint == state.fingerprint => Found::Read(key, digest),
                _ => Found::Unreadable,
            },
        }
    });
    // Equal fingerprints will not mean that everything is up to date.
    let mut any_unknown = false;
    for (&node, found) in nodes.iter().zip(found) {
        match found {
            Found::NotInTable => {}
            Found::Unreadable => any_unknown = true,
            Found::Unchanged(changed) => contents.set_last_change(node, changed),
            Found::Read(key, found) => {
                any_unknown |= found.trust == Trust::Racy;
                let is_source = graph.in_edge(node).is_none();
                let changed = contents.note_read(key, &found, is_source);
                contents.set_last_change(node, changed);
            }
        }
    }
    contents.sum = contents.sum.filter(|_| !any_unknown);
}

/// Determines everything about files that is needed to compare these edges with their records.
pub(super) fn prepare_comparison(
    contents: &mut Contents,
    graph: &GraphView<'_>,
    disk: &dyn Disk,
    subgraph: &Subgraph,
    (edges, files): (&[EdgeId], &FileStates),
    threads: ThreadLimit,
) {
    let mut outputs = BitSet::new(graph.node_count());
    edges.iter().flat_map(|&edge| graph.edge(edge).outs).for_each(|out| outputs.add(out.index()));
    let nodes: Vec<NodeId> =
        subgraph.nodes.iter().map(|node| NodeId(node as u32)).filter(|&node| files.exists(node)).collect();
    let table = &*contents.table();
    let found = map_indices(threads, MIN_PER_THREAD, nodes.len(), |number| {
        let (node, path) = (nodes[number], graph.path(nodes[number]));
        let entry = table.file(PathKey::of(path)).filter(|entry| entry.is_of(files.state(node)));
        let id = entry.map(|entry| ContentId::of_file(path, &entry.digest));
        PreparedFile { id, may_renew: outputs.has(node.index()).then(|| disk.may_renew(path)) }
    });
    contents.set_prepared(graph.node_count(), nodes.into_iter().zip(found));
}

impl<'s> ContentChanges<'s> {
    /// Uses what `read_changed` has found.
    pub(super) fn new(contents: &'s mut Contents, graph: &GraphView<'_>, subgraph: &Subgraph) -> ContentChanges<'s> {
        let mut changes = vec![0; graph.node_count()];
        for node in subgraph.nodes.iter() {
            changes[node] = contents.last_change(NodeId(node as u32)).unwrap_or(0);
        }
        // Members of groups come first in the order.
        for edge in subgraph.edges.iter().map(|&edge| graph.edge(edge)).filter(|edge| edge.is_phony()) {
            let newest = edge.dirtying_ins().iter().map(|input| changes[input.index()]).max().unwrap_or(0);
            edge.outs.iter().for_each(|out| changes[out.index()] = changes[out.index()].max(newest));
        }
        let newest = changes.iter().copied().max().unwrap_or(0);
        ContentChanges { table: contents.table(), changes, newest }
    }

    /// Returns whether an input of the edge changed after the last run of its command.
    pub(super) fn concern(&self, graph: &GraphView<'_>, id: EdgeId, deps: &EdgeDeps<'_>, nodes: &[NodeId]) -> bool {
        let edge = graph.edge(id);
        let Some(record) = self.table.command(PathKey::of(graph.path(edge.outs[0]))) else { return false };
        let is_later = |node: NodeId| self.changes[node.index()] > record.made;
        record.made < self.newest
            && (edge.dirtying_ins().iter().any(|&input| is_later(input))
                || match deps {
                    EdgeDeps::Logged(deps) => deps.numbers().any(|number| is_later(nodes[number as usize])),
                    EdgeDeps::Listed(ins) => ins.iter().any(|&input| is_later(input)),
                    EdgeDeps::None | EdgeDeps::Unknown | EdgeDeps::Unread => false,
                })
    }
}
