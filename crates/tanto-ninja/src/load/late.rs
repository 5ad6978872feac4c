//! The third pass: the paths whose text has variables in it, or is not canonical. Does not know whose inputs or outputs
//! they are.

use tanto_sys::threads::each;

use super::chunk::{Chunk, LatePath, Part};
use super::crew::File;
use super::expand::append_value;
use super::order::Segment;
use crate::bindings::Block;
use crate::canon::canonicalize_into;
use crate::error::Result;
use crate::graph::NodeId;
use crate::graph::env::Env;
use crate::paths::Interner;

/// The late paths of a segment.
#[derive(Default)]
pub(super) struct Late {
    /// In their order; `NodeId::NONE` where the path is empty or cannot be evaluated.
    pub(super) nodes: Vec<NodeId>,
    /// The first edge with such a path.
    pub(super) fault: Option<u32>,
}

/// Those of all segments.
pub(super) fn nodes(segments: &[Segment], files: &[File], env: &Env, interner: &Interner, threads: usize) -> Vec<Late> {
    each(threads, segments.iter().collect(), |segment| {
        let chunk = &files[segment.file].chunks[segment.chunk];
        let late = of_segment(segment, chunk);
        if late.is_empty() { Late::default() } else { Evaluation::new(segment, chunk, env).run(late, interner) }
    })
}

/// The late paths of a segment's edges.
pub(super) fn of_segment<'c>(segment: &Segment, chunk: &'c Chunk) -> &'c [LatePath] {
    let start = chunk.late.partition_point(|late| late.edge < segment.edges.start);
    let end = chunk.late.partition_point(|late| late.edge < segment.edges.end);
    &chunk.late[start..end]
}

struct Evaluation<'e> {
    segment: &'e Segment,
    chunk: &'e Chunk,
    env: &'e Env,
    value: Vec<u8>,
    path: Vec<u8>,
    /// All paths so far, and where they are in it.
    text: Vec<u8>,
    parts: Vec<Part>,
}

impl<'e> Evaluation<'e> {
    fn new(segment: &'e Segment, chunk: &'e Chunk, env: &'e Env) -> Self {
        let (value, path, text, parts) = Default::default();
        Evaluation { segment, chunk, env, value, path, text, parts }
    }

    fn run(mut self, late: &[LatePath], interner: &Interner) -> Late {
        let mut fault = None;
        for path in late {
            let place = self.segment.first + (path.edge - self.segment.edges.start);
            self.value.clear();
            let evaluated = self.evaluate(path, place);
            if evaluated.is_err() || self.value.is_empty() {
                fault.get_or_insert(place);
                self.path.clear();
            } else {
                canonicalize_into(&self.value, &mut self.path);
            }
            let start = self.text.len() as u32;
            self.text.extend_from_slice(&self.path);
            self.parts.push(start..self.text.len() as u32);
        }
        let text = |part: &Part| &self.text[part.start as usize..part.end as usize];
        let paths: Vec<&[u8]> = self.parts.iter().map(text).collect();
        let mut nodes = Vec::with_capacity(paths.len());
        interner.writer().intern_all(&paths, &mut nodes);
        Late { nodes, fault }
    }

    fn evaluate(&mut self, path: &LatePath, place: u32) -> Result<()> {
        let text = |part| self.chunk.text(part);
        let scope = self.segment.scope;
        let raw = text(&path.text);
        if path.bindings.is_empty() {
            return append_value(raw, &mut self.value, |name| self.env.variable(scope, name, place));
        }
        let own = Block::new(text(&path.bindings).into());
        let own = own.evaluated(|name| self.env.variable(scope, name, place))?;
        append_value(raw, &mut self.value, |name| {
            let own = own.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.as_slice());
            own.or_else(|| self.env.variable(scope, name, place))
        })
    }
}
