//! Finds the nodes that arguments name: paths, `source^`, directories, globs; without arguments the `default` statements'
//! or the graph's roots.

mod glob;
mod patterns;

use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::{Edge, Graph, GraphView};
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId};
use crate::logs::DepsLog;
use crate::suggest;

/// Where a name is looked for besides the graph.
#[derive(Clone, Copy, Default)]
pub struct LookupOptions<'a> {
    /// A name that is no path of the graph may be one below this directory; empty where it may not.
    pub builddir: &'a [u8],
    /// Knows who read a header: for `header.h^`.
    pub deps_log: Option<&'a DepsLog>,
    /// The names that arguments may be.
    pub names: TargetNames,
}

/// The names that arguments may be.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TargetNames {
    /// Those of nodes, as ninja has it.
    #[default]
    Nodes,
    /// Where there is no such node, directories and globs too; they name all outputs that they match.
    Patterns,
}

/// The node that one argument names. `source^` is the first output of the first edge that uses `source`.
pub fn collect_target(graph: &Graph<'_>, hints: LookupOptions<'_>, arg: &[u8]) -> Result<NodeId> {
    find_target(graph, hints, arg)?.ok_or_else(|| {
        let path = canonical(arg);
        unknown(graph, path.strip_suffix(b"^").unwrap_or(&path), &[])
    })
}

/// The nodes that the arguments name; without any, the default ones.
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

/// The node that one argument names, if there is one with such a name.
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

/// Is there a command among all that these nodes need, or a dyndep file, which may add one? If not, no log says anything
/// about them.
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

/// What is built where no target is find_target: the `default` statements' or else the roots.
pub fn default_nodes(graph: &Graph<'_>) -> Result<Vec<NodeId>> {
    if graph.defaults().is_empty() { root_nodes(graph) } else { Ok(graph.defaults().to_vec()) }
}

/// All outputs that no edge uses, in the order of the manifest.
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

/// The output of a phony edge that find_target self_input as its input. Ninja drops the input, but still counts a use of it.
pub(crate) fn self_input<'t>(edge: &Edge<'t>) -> Option<&'t NodeId> {
    edge.outs.first().filter(|_| edge.names_itself)
}

fn lookup_in_builddir(graph: &Graph<'_>, builddir: &[u8], path: &[u8]) -> Option<NodeId> {
    graph.lookup(&in_builddir(builddir, path)?)
}

/// The path below this directory, if there is one.
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

/// `others` are names that may be meant as well as those of nodes.
fn unknown(graph: &Graph<'_>, path: &[u8], others: &[&[u8]]) -> Error {
    let paths = || graph.node_ids().map(|node| graph.path(node)).chain(others.iter().copied());
    let meant = match path {
        b"clean" => b", did you mean 'ninja -t clean'?".to_vec(),
        b"help" => b", did you mean 'ninja -h'?".to_vec(),
        _ => suggest::did_you_mean(path, paths()),
    };
    Error::new(&[b"unknown target '", path, b"'", &meant])
}
