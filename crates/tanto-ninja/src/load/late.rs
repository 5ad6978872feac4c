//! The third pass: the paths whose text has variables in it, or is not canonical. Does not know whose inputs or outputs
//! they are.

use tanto_sys::threads::map_parallel;

use super::chunk::{Chunk, LatePath, Part};
use super::crew::File;
use super::order::Segment;
use crate::canon::canonicalize_into;
use crate::error::Result;
use crate::graph::bindings::Block;
use crate::graph::env::Env;
use crate::ids::NodeId;
use crate::paths::Interner;
use crate::syntax::expansion::{Piece, Pieces, append_value};

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
    map_parallel(threads, segments.iter().collect(), |segment| {
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
    /// All different paths so far, and where they are in it.
    text: Vec<u8>,
    parts: Vec<Part>,
    /// Which of them each path is.
    which: Vec<u32>,
    settled: Vec<Settled<'e>>,
}

/// A path that means the same to the end of the segment.
struct Settled<'e> {
    raw: &'e [u8],
    which: u32,
}

/// So many settled paths are remembered. A tree has few (a compiler, above all) that come again and again; with more,
/// all others are compared with more.
const MOST_SETTLED: usize = 8;

impl<'e> Evaluation<'e> {
    fn new(segment: &'e Segment, chunk: &'e Chunk, env: &'e Env) -> Self {
        let (value, path, text, parts, which, settled) = Default::default();
        Evaluation { segment, chunk, env, value, path, text, parts, which, settled }
    }

    fn run(mut self, late: &[LatePath], interner: &Interner) -> Late {
        let mut fault = None;
        for path in late {
            let place = self.segment.first + (path.edge - self.segment.edges.start);
            let raw = self.chunk.text(&path.text);
            let known =
                path.bindings.is_empty().then(|| self.settled.iter().find(|settled| settled.raw == raw)).flatten();
            if let Some(known) = known {
                self.which.push(known.which);
                continue;
            }
            if self.add(path, place).is_err() {
                fault.get_or_insert(place);
            } else if path.bindings.is_empty() && self.settled.len() < MOST_SETTLED && self.is_settled(raw, place) {
                self.settled.push(Settled { raw, which: self.parts.len() as u32 - 1 });
            }
        }
        let text = |part: &Part| &self.text[part.start as usize..part.end as usize];
        let paths: Vec<&[u8]> = self.parts.iter().map(text).collect();
        let mut nodes = Vec::with_capacity(paths.len());
        interner.writer().intern_all(&paths, &mut nodes);
        Late { nodes: self.which.iter().map(|which| nodes[*which as usize]).collect(), fault }
    }

    /// Evaluates a path; what is none stays empty.
    fn add(&mut self, path: &LatePath, place: u32) -> Result<()> {
        self.value.clear();
        self.path.clear();
        let evaluated = self.evaluate(path, place);
        if evaluated.is_ok() {
            canonicalize_into(&self.value, &mut self.path);
        }
        let start = self.text.len() as u32;
        self.text.extend_from_slice(&self.path);
        self.which.push(self.parts.len() as u32);
        self.parts.push(start..self.text.len() as u32);
        if self.value.is_empty() { Err("empty path".into()) } else { evaluated }
    }

    fn is_settled(&self, raw: &[u8], place: u32) -> bool {
        Pieces(raw).all(|piece| match piece {
            Piece::Text(_) => true,
            Piece::Variable(name) => self.env.is_settled(self.segment.scope, name, place),
        })
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
