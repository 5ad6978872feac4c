//! Targets by directory (`lib/`) and by glob (`test/*.o`).

use super::{in_builddir, unknown};
use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::hash::Set;
use crate::ids::NodeId;
use crate::targets::glob::Glob;
use tanto_exec::text::suggest;

enum Pattern {
    /// All outputs below a directory.
    Below(Vec<u8>),
    Glob(Glob),
}

impl Pattern {
    fn of(path: &[u8], is_dir: bool) -> Pattern {
        let below = if is_dir { b"/**".as_slice() } else { b"" };
        match Glob::new(path) {
            Some(glob) if below.is_empty() => Pattern::Glob(glob),
            Some(_) => Pattern::of(&[path, below].concat(), false),
            None if path == b"." => Pattern::Below(Vec::new()),
            None => Pattern::Below([path, b"/"].concat()),
        }
    }

    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Pattern::Below(dir) if dir.is_empty() => !path.starts_with(b"/") && !path.starts_with(b"../"),
            Pattern::Below(dir) => path.starts_with(dir),
            Pattern::Glob(glob) => glob.matches(path),
        }
    }
}

/// The outputs that match an argument, in manifest order. It may be relative to `builddir`, unless that is empty.
pub(super) fn matching(graph: &Graph<'_>, builddir: &[u8], arg: &[u8]) -> Result<Vec<NodeId>> {
    let path = canonical(arg);
    let is_dir = arg.ends_with(b"/");
    for path in [Some(path.clone()), in_builddir(builddir, &path)].into_iter().flatten() {
        let nodes = outputs(graph, &Pattern::of(&path, is_dir));
        if !nodes.is_empty() {
            return Ok(nodes);
        }
    }
    Err(match Glob::new(&path) {
        Some(_) => no_match(graph, arg, &path),
        None if is_dir => nothing_below(graph, arg, &path),
        None => unknown(graph, &path, &directories(graph)),
    })
}

fn outputs(graph: &Graph<'_>, pattern: &Pattern) -> Vec<NodeId> {
    if let Pattern::Below(dir) = pattern
        && let Some(group) = group_of(graph, dir)
    {
        return vec![group];
    }
    all(graph).filter(|&node| pattern.matches(graph.path(node))).collect()
}

/// CMake's `DIR/all`. It is preferred to all outputs below the directory, which include `DIR/install` and
/// `DIR/edit_cache`.
fn group_of(graph: &Graph<'_>, dir: &[u8]) -> Option<NodeId> {
    let node = graph.lookup(&[dir, b"all"].concat())?;
    graph.in_edge(node).filter(|&edge| graph.edge(edge).is_phony()).map(|_| node)
}

/// All outputs, in manifest order.
fn all(graph: &Graph<'_>) -> impl Iterator<Item = NodeId> {
    graph.edges().flat_map(|edge| edge.outs).copied()
}

/// All directories and parent directories of outputs, without duplicates, in manifest order.
fn directories<'t>(graph: &Graph<'t>) -> Vec<&'t [u8]> {
    let mut seen: Set<&[u8]> = Set::default();
    let mut directories = Vec::new();
    for node in all(graph) {
        let mut path: &'t [u8] = graph.path(node);
        while let Some(dir) = parent(path).filter(|dir| seen.insert(dir)) {
            directories.push(dir);
            path = dir;
        }
    }
    directories
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    memchr::memrchr(b'/', path).map(|slash| &path[..slash]).filter(|dir| !dir.is_empty())
}

fn nothing_below(graph: &Graph<'_>, arg: &[u8], path: &[u8]) -> Error {
    let meant = suggest::closest(path, directories(graph));
    let meant = meant.map_or_else(Vec::new, |dir| [b", did you mean '", dir, b"/'?"].concat());
    Error::new(&[b"unknown target '", arg, b"': nothing is made below it", &meant])
}

fn no_match(graph: &Graph<'_>, arg: &[u8], path: &[u8]) -> Error {
    let deeper = [b"**/", path].concat();
    let meant = match Glob::new(&deeper).filter(|glob| all(graph).any(|node| glob.matches(graph.path(node)))) {
        Some(_) => [b", did you mean '", &deeper[..], b"'?"].concat(),
        None => suggest::did_you_mean(path, by_suffix(graph).iter().map(Vec::as_slice)),
    };
    Error::new(&[b"unknown target '", arg, b"': no output matches", &meant])
}

/// The globs `DIR/*.SUFFIX` of all outputs, without duplicates, in manifest order.
fn by_suffix(graph: &Graph<'_>) -> Vec<Vec<u8>> {
    let mut seen: Set<Vec<u8>> = Set::default();
    let glob = |node| {
        let path: &[u8] = graph.path(node);
        let name = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        let dot = name + memchr::memrchr(b'.', &path[name..]).unwrap_or(path.len() - name);
        [&path[..name], b"*", &path[dot..]].concat()
    };
    all(graph).map(glob).filter(|glob| seen.insert(glob.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{LookupOptions, TargetNames, collect_targets};
    use crate::disk::VirtualDisk;
    use crate::graph::Arena;
    use crate::load;

    const MANIFEST: &str = "builddir = out\nrule r\n  command = x\n  depfile = d\n\
        build lib/a.o lib/a.map: r src/a.c\nbuild lib/sub/b.o: r src/b.c\nbuild libs: r lib/a.o\nbuild out/gen/t.h: r\n\
        build star*: r\nbuild tool: r | lib\nbuild cm/x: r\nbuild cm/y: r\nbuild cm/all: phony cm/x\n\
        build ../up.o: r\nbuild /abs/z: r\n";

    fn collect(manifest: &str, args: &[&str]) -> std::result::Result<Vec<String>, String> {
        let disk = VirtualDisk::new();
        disk.put("build.ninja", manifest);
        let arena = Arena::new();
        let graph = load::load(&arena, &disk, b"build.ninja", Default::default(), &mut |_| {}).unwrap();
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let hints = LookupOptions { builddir: b"out", names: TargetNames::Patterns, ..LookupOptions::default() };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match collect_targets(&graph, hints, &args) {
            Ok(nodes) => Ok(nodes.iter().map(|&node| text(graph.path(node))).collect()),
            Err(error) => Err(text(&error.text())),
        }
    }

    fn resolve(args: &[&str]) -> Vec<String> {
        collect(MANIFEST, args).unwrap()
    }

    fn resolve_error(arg: &str) -> String {
        collect(MANIFEST, &[arg]).unwrap_err()
    }

    #[test]
    fn directory_matches_outputs_below_it() {
        assert_eq!(resolve(&["lib/sub"]), ["lib/sub/b.o"]);
        assert_eq!(resolve(&["./lib//sub/../sub/"]), ["lib/sub/b.o"]);
        assert_eq!(resolve(&["gen/", "out"]), ["out/gen/t.h", "out/gen/t.h"]);
        assert_eq!(resolve(&["/abs/"]), ["/abs/z"]);
        assert_eq!(resolve(&[".."]), ["../up.o"]);
        let without = MANIFEST.replace(" | lib\n", "\n");
        assert_eq!(collect(&without, &["lib/"]).unwrap(), ["lib/a.o", "lib/a.map", "lib/sub/b.o"]);
        let relative = collect(&without, &["."]).unwrap();
        assert!(relative.contains(&"libs".to_owned()) && !relative.iter().any(|path| path.starts_with(['.', '/'])));
    }

    #[test]
    fn node_takes_precedence_over_pattern() {
        assert_eq!(resolve(&["lib"]), ["lib"]);
        assert_eq!(resolve(&["lib/"]), ["lib"], "ninja drops the slash");
        assert_eq!(resolve(&["star*"]), ["star*"]);
        assert_eq!(resolve(&["src/a.c^"]), ["lib/a.o"]);
    }

    #[test]
    fn directory_with_an_all_target_resolves_to_it() {
        assert_eq!(resolve(&["cm/"]), ["cm/all"]);
        assert_eq!(resolve(&["cm/*"]), ["cm/x", "cm/y", "cm/all"]);
        let other = MANIFEST.replace("build cm/all: phony cm/x", "build cm/all: r cm/x");
        assert_eq!(collect(&other, &["cm/"]).unwrap(), ["cm/x", "cm/y", "cm/all"], "no group");
    }

    #[test]
    fn glob_matches_outputs() {
        assert_eq!(resolve(&["lib/*.o", "tool"]), ["lib/a.o", "tool"]);
        assert_eq!(resolve(&["lib/**/*.o"]), ["lib/a.o", "lib/sub/b.o"]);
        assert_eq!(resolve(&["l*/"]), ["lib/a.o", "lib/a.map", "lib/sub/b.o"]);
        assert_eq!(resolve(&["gen/?.h"]), ["out/gen/t.h"]);
        assert_eq!(resolve(&["src/[ab].c", "x"].map(|_| "lib/[a-b].map")), ["lib/a.map", "lib/a.map"]);
    }

    #[test]
    fn unmatched_argument_gets_a_suggestion() {
        assert_eq!(resolve_error("*.o"), "unknown target '*.o': no output matches, did you mean '**/*.o'?");
        assert_eq!(resolve_error("lub/*.o"), "unknown target 'lub/*.o': no output matches, did you mean 'lib/*.o'?");
        assert_eq!(resolve_error("src/*.c"), "unknown target 'src/*.c': no output matches");
        assert_eq!(
            resolve_error("./lib/su/"),
            "unknown target './lib/su/': nothing is made below it, did you mean 'lib/sub/'?"
        );
        assert_eq!(resolve_error("lib/su"), "unknown target 'lib/su', did you mean 'lib/sub'?");
        assert_eq!(resolve_error("nothing/"), "unknown target 'nothing/': nothing is made below it");
        assert!(resolve_error("lib/*.c^").starts_with("unknown target 'lib/*.c^': no output matches"));
        assert_eq!(resolve_error(""), "empty path");
    }

    #[test]
    fn ninja_has_no_patterns() {
        let disk = VirtualDisk::new();
        disk.put("build.ninja", MANIFEST);
        let arena = Arena::new();
        let graph = load::load(&arena, &disk, b"build.ninja", Default::default(), &mut |_| {}).unwrap();
        for arg in ["lib/sub/", "lib/*.o"] {
            assert!(collect_targets(&graph, LookupOptions::default(), &[arg.into()]).is_err(), "{arg}");
        }
    }
}
