//! The first pass: parses a chunk of a manifest into edges, paths and statements. It needs no other chunk, so that
//! all chunks can be parsed in parallel, before it is known whether a file is included at all.

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

/// A byte range of a file, or of `Chunk::kept`.
pub(super) type Part = Range<u32>;

/// The content of a chunk.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    pub(super) edges: Vec<RawEdge>,
    /// The nodes of all edges; `NodeId::NONE` for each of `lazy`.
    pub(super) ids: Vec<NodeId>,
    /// Paths with variables, and paths that are not canonical.
    pub(super) lazy: Vec<LazyPath>,
    /// Text that later passes need: names, values, lazy paths. The manifest's own memory is released.
    pub(super) kept: Arc<Vec<u8>>,
    /// Offset of `kept` in the text of variables, once it is added.
    pub(super) value_offset: Option<u64>,
    /// All statements except `build`.
    pub(super) statements: Vec<Statement>,
    /// Start of a statement with a syntax error; nothing after it was read.
    pub(super) broken: Option<u32>,
    /// Position of a NUL, which ends the file.
    pub(super) nul: Option<u32>,
    /// Checksums of the text blocks that begin in this chunk.
    pub(super) checksums: Vec<u64>,
}

impl Chunk {
    /// Clears the content and keeps the capacity.
    fn clear(&mut self) {
        // `kept` is moved in at the end.
        let Chunk { edges, ids, lazy, kept: _, value_offset: _, statements, broken, nul, checksums } = self;
        edges.clear();
        ids.clear();
        lazy.clear();
        statements.clear();
        checksums.clear();
        (*broken, *nul) = (None, None);
    }

    pub(super) fn text(&self, part: &Part) -> &[u8] {
        &self.kept[part.start as usize..part.end as usize]
    }
}

/// A `build` statement before names are resolved.
#[derive(Clone, Default)]
pub(super) struct RawEdge {
    /// Start of the statement.
    pub(super) at: u32,
    /// Name of the rule in `Chunk::kept`.
    pub(super) rule: Part,
    /// Location of the bindings.
    pub(super) bindings: Part,
    /// `first` is an index into the chunk's ids; rule and pool are not set.
    pub(super) shape: EdgeShape,
}

/// A path that is evaluated later.
#[derive(Clone)]
pub(super) struct LazyPath {
    pub(super) edge: u32,
    /// Index of its node in the chunk's ids.
    pub(super) id: u32,
    /// Location in `Chunk::kept`.
    pub(super) text: Part,
    /// Location of the edge's bindings in `Chunk::kept` if its paths refer to them, else empty.
    pub(super) bindings: Part,
}

/// A statement other than `build`.
#[derive(Clone)]
pub(super) struct Statement {
    pub(super) kind: StatementKind,
    /// Start of the statement.
    pub(super) at: u32,
    /// Number of the chunk's edges before it.
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
    /// `include` or `subninja`, with the path if that has no variable.
    Include {
        path: Option<Part>,
    },
    /// Parsed again during evaluation: there are few.
    Other,
}

/// Number of paths interned at a time. Smaller: cache misses of lookups do not overlap. Larger: the paths are evicted
/// from the CPU cache before their lookup.
const BATCH: usize = 256;

/// Per-thread state of parsing.
pub(super) struct ChunkParser<'i> {
    interner: InternerHandle<'i>,
    /// Buffers that keep their capacity between chunks; results are copied from them with exact capacity.
    chunk: Chunk,
    kept: Vec<u8>,
}

impl<'i> ChunkParser<'i> {
    pub(super) fn new(interner: &'i Interner) -> Self {
        ChunkParser { interner: interner.handle(), chunk: Chunk::default(), kept: Vec::new() }
    }

    /// Parses `part` of the file `file`, which must begin and end between statements.
    pub(super) fn read(&mut self, file: u32, text: &[u8], part: Range<usize>) -> Chunk {
        self.chunk.clear();
        Reader::read(file, text, part, self);
        // `kept` is most of the result and too large to copy. The next chunk gets a new buffer of about this size.
        let task = Vec::with_capacity(self.kept.len() + self.kept.len() / 4);
        let kept = std::mem::replace(&mut self.kept, task);
        Chunk { kept: Arc::new(kept), ..self.chunk.clone() }
    }
}

/// Parses one chunk.
struct Reader<'t, 'd, 'i> {
    lexer: Lexer<'t>,
    file: u32,
    interner: &'d mut InternerHandle<'i>,
    chunk: &'d mut Chunk,
    kept: &'d mut Vec<u8>,
    raws: BuildPaths<'t>,
    /// Names of the edge's own variables.
    own: Vec<&'t [u8]>,
    /// Name of the last rule, to share it.
    last_rule: Part,
    /// Paths to be interned; empty for lazy ones.
    batch: Vec<&'t [u8]>,
}

impl<'t, 'd, 'i> Reader<'t, 'd, 'i> {
    fn read(file: u32, text: &'t [u8], part: Range<usize>, parser: &'d mut ChunkParser<'i>) {
        // Hashing first streams the text into the cache at full memory speed, and ensures that the hashed text is not
        // newer than the parsed one.
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
                _ => Err("not a statement".into()),
            };
            // The error is worded during evaluation, when all definitions before it are known.
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

    /// Keeps a rule's name, unless it is the last rule's.
    fn keep_rule(&mut self, name: &[u8]) -> Part {
        let last = self.last_rule.clone();
        if self.kept[last.start as usize..last.end as usize] != *name {
            self.last_rule = self.keep(name);
        }
        self.last_rule.clone()
    }

    fn statement(&mut self, kind: StatementKind, at: u32) {
        let edges_before = self.chunk.edges.len() as u32;
        self.chunk.statements.push(Statement { kind, at, edges_before });
    }

    fn variable(&mut self, at: u32) -> Result<()> {
        self.lexer.unread();
        let (name, value) = statements::assignment(&mut self.lexer)?;
        let kind = StatementKind::Variable { name: self.keep(name), value: self.keep(value.text), plain: value.plain };
        self.statement(kind, at);
        Ok(())
    }

    fn rule(&mut self, at: u32) -> Result<()> {
        let (name, mut body) = statements::rule(&mut self.lexer)?;
        body.span.file = self.file;
        let kind = StatementKind::Rule { name: self.keep_rule(name), body };
        self.statement(kind, at);
        Ok(())
    }

    fn include(&mut self, at: u32) -> Result<()> {
        let raw = self.lexer.path()?;
        let path = raw.plain.then(|| self.keep(raw.text));
        self.statement(StatementKind::Include { path }, at);
        self.lexer.expect(Token::Newline)
    }

    fn pool(&mut self, at: u32) -> Result<()> {
        statements::pool(&mut self.lexer)?;
        self.statement(StatementKind::Other, at);
        Ok(())
    }

    fn default(&mut self, at: u32) -> Result<()> {
        while !self.lexer.path()?.text.is_empty() {}
        self.lexer.expect(Token::Newline)?;
        self.statement(StatementKind::Other, at);
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

    /// Skips the indented bindings and returns their location.
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

/// Appends the checksums of the blocks that begin in a part of the text. Returns the position of the part's first
/// NUL.
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

/// Cuts a text into parts of about this length in bytes, each beginning at a statement.
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

/// Returns the first line start at or after `at` that surely begins a statement, or the end of the text. Such a line
/// begins with a letter or digit, and the line before does not end with `$`. (A comment may be followed by more lines
/// of the same statement.)
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
