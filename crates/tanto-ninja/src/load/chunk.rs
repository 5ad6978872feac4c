//! The first pass: a part of one manifest's text to edges, paths and statements. It needs nothing but the text, so all
//! parts of all manifests can be read at once. Does not know kind a variable or a rule's name stands for, nor whether a
//! file is included at all.

use std::ops::Range;
use std::sync::Arc;

use tanto_sys::bytes::checksum::{self, Checksum};

use crate::error::Result;
use crate::graph::manifest_data::{EdgeShape, HAS_BINDINGS};
use crate::hash;
use crate::ids::NodeId;
use crate::paths::{Interner, InternerHandle};
use crate::syntax::expansion::{ValuePart, ValueParts};
use crate::syntax::lexer::{Lexer, Raw, Token};
use crate::syntax::statements::{self, BuildLine, BuildPaths, RuleBody, reserved_bit};

/// A part of a file, or of kind a chunk has kept, in bytes from the beginning.
pub(super) type Part = Range<u32>;

/// StatementKind was found in a part of a manifest.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    pub(super) edges: Vec<RawEdge>,
    /// The nodes of all edges; `NodeId::NONE` for each of `lazy`.
    pub(super) ids: Vec<NodeId>,
    /// Paths that have variables in them, or are not canonical.
    pub(super) lazy: Vec<LazyPath>,
    /// StatementKind later passes need of the text: names, values, lazy paths. The manifest's own is given back.
    pub(super) kept: Arc<Vec<u8>>,
    /// Where that is among the values of variables, once it is.
    pub(super) home: Option<u64>,
    /// All statements but `build`.
    pub(super) events: Vec<Statement>,
    /// Where a statement begins that cannot be read; nothing behind it was.
    pub(super) broken: Option<u32>,
    /// Where a NUL ends the file within this part.
    pub(super) nul: Option<u32>,
    /// Those of the text's blocks that begin in this part.
    pub(super) checksums: Vec<u64>,
}

impl Chunk {
    /// Forgets everything but the task it had.
    fn clear(&mut self) {
        // StatementKind was kept is not here yet.
        let Chunk { edges, ids, lazy, kept: _, home: _, events, broken, nul, checksums } = self;
        edges.clear();
        ids.clear();
        lazy.clear();
        events.clear();
        checksums.clear();
        (*broken, *nul) = (None, None);
    }

    /// StatementKind was kept of the text.
    pub(super) fn text(&self, part: &Part) -> &[u8] {
        &self.kept[part.start as usize..part.end as usize]
    }
}

/// A `build` statement whose names mean nothing yet.
#[derive(Clone, Default)]
pub(super) struct RawEdge {
    /// Where the statement begins.
    pub(super) at: u32,
    /// Its rule's name, as kept.
    pub(super) rule: Part,
    /// Its indented lines.
    pub(super) bindings: Part,
    /// `first` counts in the chunk's ids; rule and pool are not known.
    pub(super) shape: EdgeShape,
}

/// A path whose node cannot be known yet.
#[derive(Clone)]
pub(super) struct LazyPath {
    /// Whose.
    pub(super) edge: u32,
    /// Where in the chunk's ids its node goes.
    pub(super) id: u32,
    /// As kept.
    pub(super) text: Part,
    /// The edge's bindings, likewise, if it sets a variable that it names in its paths.
    pub(super) bindings: Part,
}

/// A statement that is not `build`.
#[derive(Clone)]
pub(super) struct Statement {
    pub(super) kind: StatementKind,
    /// Where it begins.
    pub(super) at: u32,
    /// How many of the chunk's edges stand before it.
    pub(super) edges_before: u32,
}

#[derive(Clone)]
pub(super) enum StatementKind {
    Variable {
        name: Part,
        value: Part,
        plain: bool,
    },
    Rule {
        name: Part,
        body: RuleBody,
    },
    /// `include` or `subninja`; with the path, if that has no variable in it.
    Include {
        path: Option<Part>,
    },
    /// To be read again when its turn has come: there are few.
    Other,
}

/// So many paths are made nodes at a time. Smaller, their look-ups wait for memory one after the other; larger, they
/// are no longer in the processor's cache when they are looked up.
const BATCH: usize = 256;

/// StatementKind one thread needs to read part after part.
pub(super) struct ChunkParser<'i> {
    interner: InternerHandle<'i>,
    /// SegmentTask that has grown with the parts before: kind was found is copied from it, in its true size.
    chunk: Chunk,
    /// StatementKind is being kept.
    kept: Vec<u8>,
}

impl<'i> ChunkParser<'i> {
    pub(super) fn new(interner: &'i Interner) -> Self {
        ChunkParser { interner: interner.handle(), chunk: Chunk::default(), kept: Vec::new() }
    }

    /// Reads `part` of the file `file`; it begins and ends where a statement does.
    pub(super) fn read(&mut self, file: u32, text: &[u8], part: Range<usize>) -> Chunk {
        self.chunk.clear();
        Reader::read(file, text, part, self);
        // The text is most of it, and too much to copy: the next part gets new task, of about the same size.
        let task = Vec::with_capacity(self.kept.len() + self.kept.len() / 4);
        let kept = std::mem::replace(&mut self.kept, task);
        Chunk { kept: Arc::new(kept), ..self.chunk.clone() }
    }
}

/// Reads one part.
struct Reader<'t, 'd, 'i> {
    lexer: Lexer<'t>,
    file: u32,
    interner: &'d mut InternerHandle<'i>,
    chunk: &'d mut Chunk,
    kept: &'d mut Vec<u8>,
    raws: BuildPaths<'t>,
    /// The names of the edge's own variables.
    own: Vec<&'t [u8]>,
    /// The name of the last rule that was named.
    last_rule: Part,
    /// Paths that wait for their nodes; empty ones for lazy ones.
    batch: Vec<&'t [u8]>,
}

impl<'t, 'd, 'i> Reader<'t, 'd, 'i> {
    fn read(file: u32, text: &'t [u8], part: Range<usize>, parser: &'d mut ChunkParser<'i>) {
        // All of it passes by once before it is read: so it comes from memory at full speed, and kind is summed is not
        // newer than kind is read.
        let nul = sum(text, part.clone(), &mut parser.chunk.checksums);
        let lexer = Lexer::of_part(b"", text, part.start..nul.unwrap_or(part.end));
        let ChunkParser { interner, chunk, kept } = parser;
        chunk.nul = nul.map(|at| at as u32);
        let mut reader = Reader {
            lexer,
            file,
            interner,
            chunk,
            kept,
            raws: BuildPaths::default(),
            own: Vec::new(),
            last_rule: 0..0,
            batch: Vec::with_capacity(BATCH),
        };
        reader.run();
        reader.flush();
    }

    fn run(&mut self) {
        loop {
            let token = self.lexer.token();
            let at = self.lexer.last() as u32;
            let result = match token {
                Token::Newline => continue,
                Token::Eof => return,
                Token::Build => self.build(at),
                Token::Ident => self.variable(at),
                Token::Rule => self.rule(at),
                Token::Include | Token::Subninja => self.include(at),
                Token::Pool => self.pool(at),
                Token::Default => self.default(at),
                _ => Err("no statement begins so".into()),
            };
            // StatementKind is wrong is found out when its turn has come, with all that is known then.
            if result.is_err() {
                self.chunk.broken = Some(at);
                return;
            }
        }
    }

    fn keep(&mut self, text: &[u8]) -> Part {
        let start = self.kept.len() as u32;
        self.kept.extend_from_slice(text);
        start..self.kept.len() as u32
    }

    /// Keeps a rule's name, unless it is that of the last rule.
    fn keep_rule(&mut self, name: &[u8]) -> Part {
        let last = self.last_rule.clone();
        if self.kept[last.start as usize..last.end as usize] != *name {
            self.last_rule = self.keep(name);
        }
        self.last_rule.clone()
    }

    fn event(&mut self, kind: StatementKind, at: u32) {
        let edges_before = self.chunk.edges.len() as u32;
        self.chunk.events.push(Statement { kind, at, edges_before });
    }

    fn variable(&mut self, at: u32) -> Result<()> {
        self.lexer.unread();
        let (name, value) = statements::assignment(&mut self.lexer)?;
        let kind = StatementKind::Variable { name: self.keep(name), value: self.keep(value.text), plain: value.plain };
        self.event(kind, at);
        Ok(())
    }

    fn rule(&mut self, at: u32) -> Result<()> {
        let (name, mut body) = statements::rule(&mut self.lexer)?;
        body.span.file = self.file;
        let kind = StatementKind::Rule { name: self.keep_rule(name), body };
        self.event(kind, at);
        Ok(())
    }

    fn include(&mut self, at: u32) -> Result<()> {
        let raw = self.lexer.path()?;
        let path = raw.plain.then(|| self.keep(raw.text));
        self.event(StatementKind::Include { path }, at);
        self.lexer.expect(Token::Newline)
    }

    fn pool(&mut self, at: u32) -> Result<()> {
        statements::pool(&mut self.lexer)?;
        self.event(StatementKind::Other, at);
        Ok(())
    }

    fn default(&mut self, at: u32) -> Result<()> {
        while !self.lexer.path()?.text.is_empty() {}
        self.lexer.expect(Token::Newline)?;
        self.event(StatementKind::Other, at);
        Ok(())
    }

    fn build(&mut self, at: u32) -> Result<()> {
        let line = statements::build_line(&mut self.lexer, &mut self.raws, |_, _| Ok(()))?;
        let rule = self.keep_rule(line.rule);
        let mut shape = shape(&line, &self.raws);
        let bindings = self.bindings(&mut shape)?;
        shape.first = (self.chunk.ids.len() + self.batch.len()) as u32;
        let edge = RawEdge { at, rule, bindings, shape };
        self.chunk.edges.push(edge);
        for list in 0..3 {
            for number in 0..self.raws.list(list).len() {
                self.path(self.raws.list(list)[number]);
            }
        }
        if self.batch.len() >= BATCH {
            self.flush();
        }
        Ok(())
    }

    /// Skips the indented lines; says where they are.
    fn bindings(&mut self, shape: &mut EdgeShape) -> Result<Part> {
        let begin = self.lexer.at() as u32;
        let mut end = begin;
        self.own.clear();
        while let Some((name, _)) = statements::binding(&mut self.lexer)? {
            self.own.push(name);
            shape.reserved |= reserved_bit(name).unwrap_or(0);
            shape.flags |= HAS_BINDINGS;
            end = self.lexer.at() as u32;
        }
        Ok(begin..end)
    }

    fn path(&mut self, raw: Raw<'t>) {
        if raw.canonical {
            self.batch.push(raw.text);
        } else {
            self.lazy_path(raw);
            self.batch.push(b"");
        }
    }

    fn lazy_path(&mut self, raw: Raw<'t>) {
        let id = (self.chunk.ids.len() + self.batch.len()) as u32;
        let text = self.keep(raw.text);
        let edge = self.chunk.edges.len() as u32 - 1;
        let is_own = |piece| matches!(piece, ValuePart::Variable(name) if self.own.contains(&name));
        let bindings = if ValueParts(raw.text).any(is_own) { self.keep_bindings(edge) } else { 0..0 };
        self.chunk.lazy.push(LazyPath { edge, id, text, bindings });
    }

    fn keep_bindings(&mut self, edge: u32) -> Part {
        let bindings = &self.chunk.edges[edge as usize].bindings;
        let lines = self.lexer.text(bindings.start as usize..bindings.end as usize);
        self.keep(lines)
    }

    fn flush(&mut self) {
        self.interner.intern_all(&self.batch, &mut self.chunk.ids);
        self.batch.clear();
    }
}

/// Returns the path counts of a `build` statement.
pub(super) fn shape(line: &BuildLine<'_>, raws: &BuildPaths<'_>) -> EdgeShape {
    EdgeShape {
        outs: raws.outs.len() as u32,
        explicit_outs: line.explicit_outs as u32,
        ins: raws.ins.len() as u32,
        explicit_ins: line.explicit_ins as u32,
        order_only: line.order_only_ins as u32,
        validations: raws.validations.len() as u32,
        ..EdgeShape::default()
    }
}

/// Adds the checksums of the blocks that begin in a part of a text; says where the part's first NUL is.
fn sum(text: &[u8], part: Range<usize>, checksums: &mut Vec<u64>) -> Option<usize> {
    let find = |range: Range<usize>| Some(range.start + memchr::memchr(0, &text[range])?);
    let first = part.start.next_multiple_of(hash::TEXT_BLOCK).min(part.end);
    let mut nul = find(part.start..first);
    for start in (first..part.end).step_by(hash::TEXT_BLOCK) {
        let end = start + hash::TEXT_BLOCK;
        let Checksum { sum, has_nul } = checksum::of(&text[start..end.min(text.len())]);
        checksums.push(sum);
        if has_nul && nul.is_none() {
            nul = find(start..end.min(part.end));
        }
    }
    nul
}

/// Cuts a text into parts of about this length, in bytes, that begin where a statement does.
pub(super) fn parts(text: &[u8], length: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while text.len() - start > length.saturating_add(length / 2) {
        let end = statement_start(text, start + length);
        parts.push(start..end);
        start = end;
    }
    parts.push(start..text.len());
    parts
}

/// Where the first line at or behind `at` begins that is sure to begin a statement; the text's end if there is none.
/// It begins with a name's letter, and the line before does not end with a `$`. (After a comment more lines of the
/// statement before it may come.)
fn statement_start(text: &[u8], mut at: usize) -> usize {
    while let Some(length) = memchr::memchr(b'\n', &text[at..]) {
        let end = at + length;
        at = end + 1;
        let line = text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]);
        if text.get(at).is_some_and(u8::is_ascii_alphanumeric) && !line.ends_with(b"$") {
            return at;
        }
    }
    text.len()
}
