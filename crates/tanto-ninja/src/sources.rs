//! The source files of targets: files they depend on that no command builds.

use std::borrow::Cow;

use crate::canon::canonical;
use crate::depfile;
use crate::disk::Disk;
use crate::error::Result;
use crate::graph::{Escape, Graph};
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId};
use crate::logs::DepsLog;

/// Returns the source files of these nodes, each once, from manifests, the deps log and depfiles. They need not
/// exist.
pub fn source_files(
    graph: &mut Graph<'_>,
    deps_log: &DepsLog,
    disk: &dyn Disk,
    mut nodes: Vec<NodeId>,
) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut seen: Set<NodeId> = Set::default();
    let mut edges: Set<EdgeId> = Set::default();
    while let Some(node) = nodes.pop() {
        let Some(edge) = graph.in_edge(node) else {
            if seen.insert(node) {
                found.push(graph.path(node).to_vec());
            }
            continue;
        };
        if !edges.insert(edge) {
            continue;
        }
        let it = graph.edge(edge);
        if it.is_phony() && it.ins.is_empty() {
            // A phony edge without inputs counts as a source. Generators write it for headers that may be missing.
            found.extend(it.outs.iter().map(|&out| graph.path(out).to_vec()));
        }
        nodes.extend(it.ins.iter().chain(it.validations));
        // Unreadable dependency records are ignored.
        nodes.extend(discovered(graph, deps_log, disk, it.outs[0], edge).unwrap_or_default());
    }
    found
}

/// Returns the dependencies that the compiler reported for an output, from the deps log or the depfile.
pub(crate) fn discovered(
    graph: &mut Graph<'_>,
    deps_log: &DepsLog,
    disk: &dyn Disk,
    output: NodeId,
    edge: EdgeId,
) -> Result<Vec<NodeId>> {
    if graph.flag(edge, b"deps")? {
        return Ok(deps_log.deps(output).map_or_else(Vec::new, |deps| deps.ins().collect()));
    }
    let path = graph.binding(edge, b"depfile", Escape::None)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    // Like ninja, ignores a depfile that is missing, malformed or belongs to another edge.
    let Ok(text) = disk.read(&path) else { return Ok(Vec::new()) };
    let Ok(parsed) = depfile::parse(&text) else { return Ok(Vec::new()) };
    if !describes(graph, edge, &parsed.outs) {
        return Ok(Vec::new());
    }
    Ok(parsed.ins.iter().map(|path| graph.intern(&canonical(path))).collect())
}

/// Checks that the first target of a depfile is the edge's first output, and that the others are outputs too.
fn describes(graph: &Graph<'_>, edge: EdgeId, targets: &[Cow<'_, [u8]>]) -> bool {
    let outs = graph.edge(edge).outs;
    let Some((first, others)) = targets.split_first() else { return false };
    outs.first().is_some_and(|out| graph.path(*out) == canonical(first))
        && others.iter().all(|target| outs.iter().any(|out| graph.path(*out) == &target[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::VirtualDisk;
    use crate::graph::Arena;
    use crate::load;

    #[test]
    fn files_without_a_command_are_sources() {
        let disk = VirtualDisk::new();
        disk.put(
            "build.ninja",
            "rule r\n  command = x\nrule d\n  command = x\n  depfile = $out.d\nbuild a.o: d a.c | gen.h || dir\n\
             build gen.h: r gen.in\nbuild opt.h: phony\nbuild app: r a.o |@ check\nbuild check: r check.c\nbuild other: r x\n",
        );
        disk.put("a.o.d", "a.o: a.c ./inc/a.h opt.h gen.h\n");
        disk.put("other.d", "other: y\n");
        let arena = Arena::new();
        let mut graph = load::load(&arena, &disk, b"build.ninja", Default::default(), &mut |_| {}).unwrap();
        let app = graph.lookup(b"app").unwrap();
        let mut found = source_files(&mut graph, &DepsLog::in_memory(), &disk, vec![app, app]);
        found.sort();
        let found: Vec<_> = found.iter().map(|path| String::from_utf8_lossy(path)).collect();
        assert_eq!(found, ["a.c", "check.c", "dir", "gen.in", "inc/a.h", "opt.h"]);
    }
}
