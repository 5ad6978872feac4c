//! Loads an edge's discovered inputs from its depfile or the deps log.

use tanto_sys::error::text as os_text;

use super::Scan;
use crate::canon::{canonical, canonicalize_into};
use crate::depfile;
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::graph::Escape;
use crate::ids::{EdgeId, NodeId};

impl Scan<'_, '_> {
    /// Returns false if the discovered inputs are unknown and the edge must run.
    pub(super) fn load_deps(&mut self, edge: EdgeId) -> Result<bool> {
        if self.graph.flag(edge, b"deps")? {
            return Ok(self.load_logged_deps(edge));
        }
        let depfile = self.graph.binding(edge, b"depfile", Escape::None)?;
        if depfile.is_empty() { Ok(true) } else { self.load_depfile(edge, &depfile) }
    }

    fn load_logged_deps(&mut self, edge: EdgeId) -> bool {
        let out = self.graph.edge(edge).outs[0];
        let out_mtime = self.mtime(out);
        let Some(deps) = self.deps_log.deps(out) else {
            self.explanations.note(out, Explanation::NoDeps);
            return false;
        };
        if out_mtime > deps.mtime {
            self.explanations.note(out, Explanation::OldDeps { ours: deps.mtime, theirs: out_mtime });
            if self.contents.is_none() {
                return false;
            }
            self.edges.set_deps_stale(edge);
        }
        self.edges.set_deps(edge, self.graph.arena.alloc_slice_fill_iter(deps.ins()));
        true
    }

    fn load_depfile(&mut self, edge: EdgeId, path: &[u8]) -> Result<bool> {
        let out = self.graph.edge(edge).outs[0];
        let text = match self.disk.read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::new(&[b"loading '", path, b"': ", &os_text(&error)])),
        };
        if text.is_empty() {
            self.explanations.note(out, Explanation::Other([b"depfile '", path, b"' is missing"].concat()));
            return Ok(false);
        }
        let found = depfile::parse(&text).map_err(|error| Error::new(&[path, b": ", &error.text()]))?;
        if !self.depfile_is_for(edge, path, &found)? {
            return Ok(false);
        }
        let ins = self.intern_all(&found.ins);
        self.edges.set_deps(edge, self.graph.arena.alloc_slice_copy(&ins));
        Ok(true)
    }

    /// Returns the nodes of paths reported by a compiler.
    pub fn intern_all(&mut self, paths: &[impl AsRef<[u8]>]) -> Vec<NodeId> {
        let mut canonical = Vec::new();
        let intern = |path: &[u8]| {
            canonicalize_into(path, &mut canonical);
            self.graph.intern(&canonical)
        };
        let nodes = paths.iter().map(AsRef::as_ref).map(intern).collect();
        self.cover_new_nodes();
        nodes
    }

    /// Returns whether the depfile is for this edge: the edge's first output comes first. An output that the edge does
    /// not have is an error.
    fn depfile_is_for(&mut self, edge: EdgeId, path: &[u8], found: &depfile::Depfile) -> Result<bool> {
        let outs = self.graph.edge(edge).outs;
        let Some(first) = found.outs.first() else { return Err(Error::new(&[path, b": no outputs declared"])) };
        let primary = canonical(first);
        let expected = self.graph.path(outs[0]);
        if primary != expected {
            let parts: [&[u8]; 7] =
                [b"expected depfile '", path, b"' to mention '", expected, b"', got '", &primary, b"'"];
            self.explanations.note(outs[0], Explanation::Other(parts.concat()));
            return Ok(false);
        }
        let is_ours = |name: &[u8]| outs.iter().any(|&out| self.graph.path(out) == name);
        match found.outs[1..].iter().find(|name| !is_ours(name)) {
            None => Ok(true),
            Some(name) => {
                let tail = b"' as an output, but no such output was declared";
                Err(Error::new(&[path, b": depfile mentions '", name, tail]))
            }
        }
    }
}
