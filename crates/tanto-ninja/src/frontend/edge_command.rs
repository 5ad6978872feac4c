//! The evaluated bindings of an edge.

use crate::error::Result;
use crate::graph::{Escape, GraphView};
use crate::ids::EdgeId;

/// The source of an edge's discovered inputs.
pub(super) struct DepsSource {
    /// `gcc`, `msvc` or empty.
    pub(super) kind: Vec<u8>,
    /// For `msvc`: the prefix of lines that name an included file.
    pub(super) prefix: Vec<u8>,
}

impl DepsSource {
    pub(super) fn of(graph: &GraphView<'_>, edge: EdgeId) -> Result<DepsSource> {
        let kind = graph.binding(edge, b"deps", Escape::Shell)?;
        let prefix = || graph.binding(edge, b"msvc_deps_prefix", Escape::Shell);
        Ok(DepsSource { prefix: if kind == b"msvc" { prefix()? } else { Vec::new() }, kind })
    }
}

/// The evaluated bindings of an edge.
pub(super) struct EdgeCommand {
    pub(super) command: Vec<u8>,
    pub(super) description: Vec<u8>,
    /// Hash version and hash.
    pub(super) hash: (u32, u64),
    pub(super) depfile: Vec<u8>,
    pub(super) rspfile: Vec<u8>,
    pub(super) rspfile_content: Vec<u8>,
    pub(super) generator: bool,
    pub(super) deps: DepsSource,
}

impl EdgeCommand {
    pub(super) fn of(graph: &GraphView<'_>, edge: EdgeId) -> Result<EdgeCommand> {
        let rspfile = graph.binding(edge, b"rspfile", Escape::None)?;
        let content = || graph.binding(edge, b"rspfile_content", Escape::Shell);
        Ok(EdgeCommand {
            generator: graph.flag(edge, b"generator")?,
            deps: DepsSource::of(graph, edge)?,
            depfile: graph.binding(edge, b"depfile", Escape::None)?,
            rspfile_content: if rspfile.is_empty() { Vec::new() } else { content()? },
            rspfile,
            command: graph.binding(edge, b"command", Escape::Shell)?,
            hash: (0, 0),
            description: graph.binding(edge, b"description", Escape::Shell)?,
        })
    }
}
