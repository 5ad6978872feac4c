//! Resolves target arguments to nodes: paths, `source^`, directories and globs; without arguments, the default targets.

mod glob;
mod patterns;

use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::{Edge, Graph, GraphView};
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId};
use crate::logs::DepsLog;
use tanto_exec::text::suggest;

#[derive(Clone, Copy, Default)]
pub struct LookupOptions<'a> {
    /// Names are also looked up below this directory, unless it is empty.
    pub builddir: &'a [u8],
    /// Used for `header.h^` with a discovered header.
    pub deps_log: Option<&'a DepsLog>,
    pub names: TargetNames,
}

/// The kinds of target arguments.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TargetNames {
    /// Node paths, as in ninja.
    #[default]
    Nodes,
    /// Also directories and globs, which match outputs, if no such node exists.
    Patterns,
}

/// Resolves one argument. `source^` is the first output of the first edge that reads `source`.
pub fn collect_target(graph: &Graph<'_>, hints: LookupOptions<'_>, arg: &[u8]) -> Result<NodeId> {
    find_target(graph, hints, arg)?.ok_or_else(|| {
        let path = canonical(arg);
        unknown(graph, path.strip_suffix(b"^").unwrap_or(&path), &[])
    })
}

/// Resolves all arguments; without any, returns the default targets.
pub fn collect_targets(graph: &Graph<'_>, hints: LookupOptions<'_>, args: &[Vec<u8>]) -> Result<Vec<NodeId>> {
    if args.is_empty() {
        return default_nodes(graph);
    }
    let mut nodes = Vec::with_capacity(args.len());
    for arg in args {
        match hints.names {
            TargetNames::Nodes => nodes.push(collect_target(graph, hints, arg)?),
            TargetNames::Patterns => match find_target(graph, hints, arg)? {
                Some(node) => nodes.push(node),
                None => nodes.extend(patterns::matching(graph, hints.builddir, arg)?),
            },
        }
    }
    Ok(nodes)
}

fn find_target(graph: &Graph<'_>, hints: LookupOptions<'_>, arg: &[u8]) -> Result<Option<NodeId>> {
    if arg.is_empty() {
        return Err("empty path".into());
    }
    let path = canonical(arg);
    let source = path.strip_suffix(b"^");
    let path = source.unwrap_or(&path);
    let Some(node) = graph.lookup(path).or_else(|| lookup_in_builddir(graph, hints.builddir, path)) else {
        return Ok(None);
    };
    if source.is_none() {
        return Ok(Some(node));
    }
    let found = dependent(graph, hints, node);
    found.map(Some).ok_or_else(|| Error::new(&[b"'", graph.path(node), b"' has no out edge"]))
}

/// Returns whether building these nodes could run a command. If not, the logs are not needed. A dyndep file may add a
/// command.
pub fn needs_command(graph: &GraphView<'_>, nodes: &[NodeId]) -> bool {
    let mut seen: Set<EdgeId> = Set::default();
    let mut nodes = nodes.to_vec();
    while let Some(node) = nodes.pop() {
        let Some(edge) = graph.in_edge(node).filter(|edge| seen.insert(*edge)) else { continue };
        let edge = graph.edge(edge);
        if !edge.is_phony() || edge.dyndep.is_some() {
            return true;
        }
        nodes.extend(edge.ins.iter().chain(edge.validations));
    }
    false
}

/// The targets of `default` statements or, without any, the root nodes.
pub fn default_nodes(graph: &Graph<'_>) -> Result<Vec<NodeId>> {
    if graph.defaults().is_empty() { root_nodes(graph) } else { Ok(graph.defaults().to_vec()) }
}

/// All outputs that are not an input of any edge, in manifest order.
pub fn root_nodes(graph: &Graph<'_>) -> Result<Vec<NodeId>> {
    let mut used = vec![false; graph.node_count()];
    for edge in graph.edges() {
        edge.ins.iter().chain(self_input(&edge)).for_each(|node| used[node.index()] = true);
    }
    let outs = graph.edges().flat_map(|edge| edge.outs).copied();
    let roots: Vec<_> = outs.filter(|node| !used[node.index()]).collect();
    if roots.is_empty() && graph.edge_count() > 0 {
        return Err("could not determine root nodes of build graph".into());
    }
    Ok(roots)
}

/// The output of a phony edge that has itself as an input. Like ninja, removes the input but still counts its use.
pub(crate) fn self_input<'t>(edge: &Edge<'t>) -> Option<&'t NodeId> {
    edge.outs.first().filter(|_| edge.names_itself)
}

fn lookup_in_builddir(graph: &Graph<'_>, builddir: &[u8], path: &[u8]) -> Option<NodeId> {
    graph.lookup(&in_builddir(builddir, path)?)
}

fn in_builddir(builddir: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    (!builddir.is_empty()).then(|| canonical(&[builddir, b"/", path].concat()))
}

fn dependent(graph: &Graph<'_>, hints: LookupOptions<'_>, node: NodeId) -> Option<NodeId> {
    let uses = |edge: &Edge<'_>| edge.ins.contains(&node) || self_input(edge) == Some(&node);
    match graph.edges().find(uses) {
        Some(edge) => edge.outs.first().copied(),
        None => hints.deps_log.and_then(|log| log.first_reader(node)),
    }
}

/// `others` are additional candidates for a suggestion.
fn unknown(graph: &Graph<'_>, path: &[u8], others: &[&[u8]]) -> Error {
    let paths = || graph.node_ids().map(|node| graph.path(node)).chain(others.iter().copied());
    let meant = match path {
        b"clean" => b", did you mean 'ninja -t clean'?".to_vec(),
        b"help" => b", did you mean 'ninja -h'?".to_vec(),
        _ => suggest::did_you_mean(path, paths()),
    };
    Error::new(&[b"unknown target '", path, b"'", &meant])
}
