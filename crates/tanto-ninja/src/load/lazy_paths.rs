//! The third pass: evaluates paths with variables, and canonicalizes paths.

use tanto_sys::threads::map_parallel;

use super::chunk::{Chunk, LazyPath, Part};
use super::evaluate::Segment;
use super::loader::File;
use crate::canon::canonicalize_into;
use crate::error::Result;
use crate::graph::bindings::BindingBlock;
use crate::graph::env::Env;
use crate::ids::NodeId;
use crate::paths::Interner;
use crate::syntax::expansion::{ValuePart, ValueParts, append_value};

/// The nodes of a segment's lazy paths.
#[derive(Default)]
pub(super) struct LazyNodes {
    /// In order; `NodeId::NONE` for an empty or invalid path.
    pub(super) nodes: Vec<NodeId>,
    /// The first edge with an empty or invalid path.
    pub(super) first_error: Option<u32>,
}

/// Evaluates the lazy paths of all segments.
pub(super) fn nodes(
    segments: &[Segment],
    files: &[File],
    env: &Env,
    interner: &Interner,
    threads: usize,
) -> Vec<LazyNodes> {
    map_parallel(threads, segments.iter().collect(), |segment| {
        let chunk = &files[segment.file].chunks[segment.chunk];
        let lazy = of_segment(segment, chunk);
        if lazy.is_empty() { LazyNodes::default() } else { Evaluation::new(segment, chunk, env).run(lazy, interner) }
    })
}

/// The lazy paths of a segment.
pub(super) fn of_segment<'c>(segment: &Segment, chunk: &'c Chunk) -> &'c [LazyPath] {
    let start = chunk.lazy.partition_point(|lazy| lazy.edge < segment.edges.start);
    let end = chunk.lazy.partition_point(|lazy| lazy.edge < segment.edges.end);
    &chunk.lazy[start..end]
}

struct Evaluation<'e> {
    segment: &'e Segment,
    chunk: &'e Chunk,
    env: &'e Env,
    value: Vec<u8>,
    path: Vec<u8>,
    /// The text of the distinct paths, and their ranges in it.
    text: Vec<u8>,
    parts: Vec<Part>,
    /// By lazy path: index of its distinct path.
    indexes: Vec<u32>,
    stable: Vec<StablePath<'e>>,
}

/// A path with variables that do not change until the end of the segment.
struct StablePath<'e> {
    raw: &'e [u8],
    index: u32,
}

/// Number of stable paths that are cached. Trees have few recurring ones, such as the compiler; a larger cache makes
/// each search slower.
const MAX_STABLE_PATHS: usize = 8;

impl<'e> Evaluation<'e> {
    fn new(segment: &'e Segment, chunk: &'e Chunk, env: &'e Env) -> Self {
        let (value, path, text, parts, indexes, stable) = Default::default();
        Evaluation { segment, chunk, env, value, path, text, parts, indexes, stable }
    }

    fn run(mut self, lazy: &[LazyPath], interner: &Interner) -> LazyNodes {
        let mut first_error = None;
        for path in lazy {
            let position = self.segment.first + (path.edge - self.segment.edges.start);
            let raw = self.chunk.text(&path.text);
            let known = path.bindings.is_empty().then(|| self.stable.iter().find(|stable| stable.raw == raw)).flatten();
            if let Some(known) = known {
                self.indexes.push(known.index);
                continue;
            }
            if self.add(path, position).is_err() {
                first_error.get_or_insert(position);
            } else if path.bindings.is_empty() && self.stable.len() < MAX_STABLE_PATHS && self.is_stable(raw, position)
            {
                self.stable.push(StablePath { raw, index: self.parts.len() as u32 - 1 });
            }
        }
        let text = |part: &Part| &self.text[part.start as usize..part.end as usize];
        let paths: Vec<&[u8]> = self.parts.iter().map(text).collect();
        let mut nodes = Vec::with_capacity(paths.len());
        interner.handle().intern_all(&paths, &mut nodes);
        LazyNodes { nodes: self.indexes.iter().map(|index| nodes[*index as usize]).collect(), first_error }
    }

    /// Evaluates a path; an invalid one becomes empty.
    fn add(&mut self, path: &LazyPath, position: u32) -> Result<()> {
        self.value.clear();
        self.path.clear();
        let evaluated = self.evaluate(path, position);
        if evaluated.is_ok() {
            canonicalize_into(&self.value, &mut self.path);
        }
        let start = self.text.len() as u32;
        self.text.extend_from_slice(&self.path);
        self.indexes.push(self.parts.len() as u32);
        self.parts.push(start..self.text.len() as u32);
        if self.value.is_empty() { Err("empty path".into()) } else { evaluated }
    }

    fn is_stable(&self, raw: &[u8], position: u32) -> bool {
        ValueParts(raw).all(|piece| match piece {
            ValuePart::Text(_) => true,
            ValuePart::Variable(name) => self.env.is_stable(self.segment.scope, name, position),
        })
    }

    fn evaluate(&mut self, path: &LazyPath, position: u32) -> Result<()> {
        let text = |part| self.chunk.text(part);
        let scope = self.segment.scope;
        let raw = text(&path.text);
        if path.bindings.is_empty() {
            return append_value(raw, &mut self.value, |name| self.env.variable(scope, name, position));
        }
        let own = BindingBlock::new(text(&path.bindings).into());
        let own = own.evaluated(|name| self.env.variable(scope, name, position))?;
        append_value(raw, &mut self.value, |name| {
            let own = own.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.as_slice());
            own.or_else(|| self.env.variable(scope, name, position))
        })
    }
}
