use std::collections::BTreeMap;
use std::io;

use super::*;
use crate::bindings::Escape;
use crate::disk::Mtime;
use crate::graph::EdgeId;

/// Files in memory, for reading.
#[derive(Default)]
pub(crate) struct Files(pub(crate) BTreeMap<Vec<u8>, Vec<u8>>);

impl Files {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Files(files.iter().map(|&(path, text)| (path.into(), text.into())).collect())
    }
}

impl Disk for Files {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        Ok(i64::from(self.0.contains_key(path)))
    }

    fn read(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        self.0.insert(path.into(), content.into());
        Ok(())
    }

    fn make_parents(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        Ok(self.0.remove(path).is_some())
    }
}

/// Loads `text` as the file `input`, among others.
fn try_load<'t>(arena: &'t Bump, text: &[u8], others: &[(&str, &str)]) -> Result<Graph<'t>> {
    let mut files = Files::of(others);
    files.0.insert(b"input".into(), text.into());
    load(arena, &mut files, b"input", LoadOptions::default(), &mut |_| {})
}

fn try_load_text<'t>(arena: &'t Bump, text: &str) -> Result<Graph<'t>> {
    try_load(arena, text.as_bytes(), &[])
}

#[track_caller]
fn refuse(text: &str, why: &str) {
    let arena = Bump::new();
    let error = try_load_text(&arena, text).err().expect("an error");
    assert_eq!(error.to_string(), why, "of {text:?}");
}

fn command(graph: &Graph<'_>, edge: u32) -> String {
    String::from_utf8(graph.binding(EdgeId(edge), b"command", Escape::Shell).unwrap()).unwrap()
}

fn paths(graph: &Graph<'_>, nodes: &[crate::graph::NodeId]) -> Vec<String> {
    nodes.iter().map(|&node| String::from_utf8_lossy(graph.path(node)).into_owned()).collect()
}

#[test]
fn a_build_statement_has_all_kinds_of_paths() {
    let arena = Bump::new();
    let text = "rule c\n  command = c $in $out\nbuild a b | c: c d e | f || g h |@ i\n";
    let graph = try_load_text(&arena, text).unwrap();
    let edge = graph.edge(EdgeId(0));
    assert_eq!(paths(&graph, edge.outs), ["a", "b", "c"]);
    assert_eq!(edge.explicit_outs, 2);
    assert_eq!(paths(&graph, edge.ins), ["d", "e", "f", "g", "h"]);
    assert_eq!(paths(&graph, edge.explicit()), ["d", "e"]);
    assert_eq!(paths(&graph, edge.order_only()), ["g", "h"]);
    assert_eq!(paths(&graph, edge.validations), ["i"]);
    assert_eq!(command(&graph, 0), "c d e a b");
    assert!(graph.nodes.iter().all(|node| !node.generated_by_dep_loader));
}

#[test]
fn errors_point_at_what_ninja_points_at() {
    refuse("subn", "input:1: expected '=', got eof\nsubn\n    ^ near here");
    refuse("x 3", "input:1: expected '=', got identifier\nx 3\n  ^ near here");
    refuse("x = 3", "input:1: unexpected EOF\nx = 3\n     ^ near here");
    refuse("x = $", "input:1: bad $-escape (literal $ must be written as $$)\nx = $\n    ^ near here");
    refuse("x = a$\n b$\n $\n", "input:4: unexpected EOF\n");
    refuse("build x:: y z\n", "input:1: expected build command name\nbuild x:: y z\n        ^ near here");
    refuse("build x: y z\n", "input:1: unknown build rule 'y'\nbuild x: y z\n         ^ near here");
    refuse(
        "rule c\n  command = c\nbuild $: c b.cc\n",
        "input:3: expected ':', got newline ($ also escapes ':')\nbuild $: c b.cc\n               ^ near here",
    );
    refuse("rule r\n  command = r\nbuild $a: r $c\n", "input:4: empty path\n");
    refuse("a = b\n\tc = d\n", "input:2: tabs are not allowed, use spaces\n");
}

#[test]
fn a_manifest_that_includes_itself_is_refused() {
    let error = "input:1: loading 'input': more than 1000 files include each other\ninclude input\n             ^ near \
                 here";
    refuse("include input\n", error);
    refuse("subninja input\n", &error.replace("include input\n ", "subninja input\n  "));
}
