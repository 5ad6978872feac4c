//! The second pass: evaluates all statements except `build` in manifest order. Sets variables, follows includes and
//! numbers the edges.

use std::ops::Range;
use std::sync::Arc;

use super::chunk::{Chunk, Part, Statement, StatementKind};
use super::loader::{File, Loader};
use super::{MAX_INCLUDE_DEPTH, MAX_INCLUDES, version};
use crate::canon::canonical;
use crate::error::{Error, Result};
use crate::graph::env::EnvBuilder;
use crate::graph::manifest_data::Notice;
use crate::ids::ScopeId;
use crate::syntax::expansion::append_value;
use crate::syntax::lexer::{Lexer, Token, did_you_mean};
use crate::syntax::statements::{self, BuildPaths, RuleBody};

/// Consecutive edges of a chunk without an include between them.
pub(super) struct Segment {
    pub(super) file: usize,
    pub(super) chunk: usize,
    /// Indexes in the chunk.
    pub(super) edges: Range<u32>,
    /// Id of the first edge.
    pub(super) first: u32,
    pub(super) scope: ScopeId,
}

/// A target of a `default` statement.
pub(super) struct Target {
    /// Canonical.
    pub(super) path: Vec<u8>,
    pub(super) file: usize,
    /// Location of the path in the file.
    pub(super) part: Part,
    /// Position of the lexer's last token, for errors.
    pub(super) last: u32,
    pub(super) position: u32,
    /// Number of notices before it.
    pub(super) notices: usize,
}

/// The result of the evaluation.
#[derive(Default)]
pub(super) struct Evaluated {
    pub(super) env: EnvBuilder,
    pub(super) segments: Vec<Segment>,
    /// Number of edges.
    pub(super) edges: u32,
    pub(super) targets: Vec<Target>,
    /// With their positions.
    pub(super) notices: Vec<(u32, Notice)>,
    /// The error that ended the evaluation.
    pub(super) error: Option<Error>,
}

/// A file under evaluation.
struct Frame {
    file: usize,
    scope: ScopeId,
    chunk: usize,
    statement: usize,
    /// Number of the chunk's edges that are in segments.
    edges_done: u32,
    /// Start of the current `include` statement.
    include: Option<u32>,
}

/// Evaluates the file `top` and everything it includes.
pub(super) fn evaluate(loader: &mut Loader<'_>, top: usize) -> Evaluated {
    let mut evaluator = StatementEvaluator {
        loader,
        out: Evaluated { env: EnvBuilder::new(), ..Evaluated::default() },
        frames: vec![Frame::new(top, ScopeId::TOP)],
        includes: 0,
    };
    evaluator.out.error = evaluator.run().err();
    evaluator.out
}

impl Frame {
    fn new(file: usize, scope: ScopeId) -> Self {
        Frame { file, scope, chunk: 0, statement: 0, edges_done: 0, include: None }
    }
}

struct StatementEvaluator<'w, 'c> {
    loader: &'w mut Loader<'c>,
    out: Evaluated,
    frames: Vec<Frame>,
    includes: u32,
}

impl StatementEvaluator<'_, '_> {
    fn run(&mut self) -> Result<()> {
        while let Some(mut frame) = self.frames.pop() {
            if let Some(inner) = self.continue_file(&mut frame)? {
                self.frames.push(frame);
                self.frames.push(inner);
            }
        }
        Ok(())
    }

    /// Evaluates a file up to its end or its next include, and returns the included file.
    fn continue_file(&mut self, frame: &mut Frame) -> Result<Option<Frame>> {
        let file = self.loader.file(frame.file);
        file.used = true;
        // An unreadable file is an error of the statement that includes it.
        let Ok(source) = file.source.as_ref().map(Arc::clone) else { return Ok(None) };
        let (path, parts) = (file.path.clone(), file.chunks.len());
        let text = FileText { path: &path, whole: source.bytes(), end: file.end() };
        if let Some(at) = frame.include.take() {
            text.include_end(at)?;
        }
        while frame.chunk < parts {
            let mut chunk = std::mem::take(&mut self.loader.file(frame.file).chunks[frame.chunk]);
            self.add_values(&mut chunk);
            let ends_file = chunk.nul.is_some();
            let found = self.chunk(frame, &text, &chunk);
            self.loader.file(frame.file).chunks[frame.chunk] = chunk;
            if let Some(inner) = found? {
                return Ok(Some(inner));
            }
            if ends_file {
                break;
            }
            *frame = Frame { chunk: frame.chunk + 1, ..Frame::new(frame.file, frame.scope) };
        }
        Ok(None)
    }

    /// Adds the text of a chunk that contains values.
    fn add_values(&mut self, chunk: &mut Chunk) {
        let sets = |statement: &Statement| matches!(statement.kind, StatementKind::Variable { plain: true, .. });
        if chunk.value_offset.is_none() && chunk.statements.iter().any(sets) {
            chunk.value_offset = Some(self.out.env.add_text(&chunk.kept));
        }
    }

    fn chunk(&mut self, frame: &mut Frame, text: &FileText<'_>, chunk: &Chunk) -> Result<Option<Frame>> {
        while let Some(statement) = chunk.statements.get(frame.statement) {
            frame.statement += 1;
            let position = self.out.edges + (statement.edges_before - frame.edges_done);
            let found = match &statement.kind {
                StatementKind::Variable { name, value, plain } => {
                    self.variable(frame.scope, (text, chunk), statement, (name, value), *plain, position)
                }
                StatementKind::Rule { name, body } => {
                    self.rule(frame.scope, (text, chunk), statement, name, *body, position)
                }
                StatementKind::Include { .. } => {
                    self.segment(frame, statement.edges_before);
                    frame.include = Some(statement.at);
                    return self.include(frame, text, chunk).map(Some);
                }
                StatementKind::Other => self.other(frame, text, statement.at, position),
            };
            if found.is_err() {
                self.segment(frame, statement.edges_before);
            }
            found?;
        }
        self.segment(frame, chunk.edges.len() as u32);
        match chunk.broken {
            Some(at) => Err(self.broken(frame, text, at)),
            None => Ok(None),
        }
    }

    /// Assigns ids to the chunk's edges before `end`.
    fn segment(&mut self, frame: &mut Frame, end: u32) {
        let edges = std::mem::replace(&mut frame.edges_done, end)..end;
        let (first, count) = (self.out.edges, edges.len() as u32);
        if count > 0 {
            let Frame { file, chunk, scope, .. } = *frame;
            self.out.segments.push(Segment { file, chunk, edges, first, scope });
            self.out.edges += count;
        }
    }

    fn value(&self, scope: ScopeId, lexer: &Lexer<'_>, raw: &[u8]) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        let look_up = |name: &[u8]| self.out.env.variable(scope, name);
        append_value(raw, &mut value, look_up).map_err(|error| lexer.error(&[&error.text()]))?;
        Ok(value)
    }

    fn variable(
        &mut self,
        scope: ScopeId,
        (text, chunk): (&FileText<'_>, &Chunk),
        statement: &Statement,
        (name, value): (&Part, &Part),
        plain: bool,
        position: u32,
    ) -> Result<()> {
        let (name, raw) = (chunk.text(name), chunk.text(value));
        if let Some(value_offset) = chunk.value_offset.filter(|_| plain && name != b"ninja_required_version") {
            self.out.env.set_part(scope, name, value_offset + u64::from(value.start), value.len() as u32, position);
            return Ok(());
        }
        let (mut lexer, _) = text.statement(statement.at);
        lexer.unread();
        statements::assignment(&mut lexer)?;
        let value = self.value(scope, &lexer, raw)?;
        if name == b"ninja_required_version" {
            version::check(&value, &mut |_| {})?;
            self.out.notices.push((position, Notice::Requires(value.clone())));
        }
        self.out.env.set(scope, name, &value, position);
        Ok(())
    }

    fn rule(
        &mut self,
        scope: ScopeId,
        (text, chunk): (&FileText<'_>, &Chunk),
        statement: &Statement,
        name: &Part,
        body: RuleBody,
        position: u32,
    ) -> Result<()> {
        let name = chunk.text(name);
        if self.out.env.has_rule(scope, name) {
            return self.checked_rule(scope, &mut text.statement(statement.at).0);
        }
        self.out.env.add_rule(scope, name, position, body);
        Ok(())
    }

    /// Parses a rule with an error again.
    fn checked_rule(&self, scope: ScopeId, lexer: &mut Lexer<'_>) -> Result<()> {
        let name = statements::heading(lexer, b"rule name")?;
        if self.out.env.has_rule(scope, name) {
            return Err(lexer.error(&[b"duplicate rule '", name, b"'"]));
        }
        statements::rule_body(lexer, name).map(|_| ())
    }

    fn other(&mut self, frame: &Frame, text: &FileText<'_>, at: u32, position: u32) -> Result<()> {
        let (mut lexer, token) = text.statement(at);
        match token {
            Token::Pool => self.pool(frame.scope, &mut lexer, position),
            _ => self.default(frame, &mut lexer, position),
        }
    }

    /// Evaluates `pool name` and its `depth`.
    fn pool(&mut self, scope: ScopeId, lexer: &mut Lexer<'_>, position: u32) -> Result<()> {
        let name = statements::heading(lexer, b"pool name")?;
        if self.out.env.has_pool(name) {
            return Err(lexer.error(&[b"duplicate pool '", name, b"'"]));
        }
        let mut depth = None;
        while let Some((key, raw)) = statements::binding(lexer)? {
            if key != b"depth" {
                return Err(lexer.error(&[b"unexpected variable '", key, b"'"]));
            }
            let value = self.value(scope, lexer, raw.text)?;
            let number = version::leading_number(&value);
            depth = Some(u32::try_from(number).map_err(|_| lexer.error(&[b"invalid pool depth"]))?);
        }
        let depth = depth.ok_or_else(|| lexer.error_about(name, &[b"expected 'depth =' line"]))?;
        self.out.env.add_pool(name, depth, position);
        Ok(())
    }

    /// Evaluates `default targets...`. Whether the targets exist is checked when all nodes are known.
    fn default(&mut self, frame: &Frame, lexer: &mut Lexer<'_>, position: u32) -> Result<()> {
        let mut raw = lexer.path()?;
        if raw.text.is_empty() {
            return Err(lexer.error(&[b"expected target name"]));
        }
        while !raw.text.is_empty() {
            let value = self.value(frame.scope, lexer, raw.text)?;
            if value.is_empty() {
                return Err(lexer.error_about(raw.text, &[b"empty path"]));
            }
            let part = lexer.range_of(raw.text);
            self.out.targets.push(Target {
                path: canonical(&value),
                file: frame.file,
                part: part.start as u32..part.end as u32,
                last: lexer.last() as u32,
                position,
                notices: self.out.notices.len(),
            });
            raw = lexer.path()?;
        }
        lexer.expect(Token::Newline)
    }

    /// Returns the file included by the statement before `frame.statement`.
    fn include(&mut self, frame: &Frame, text: &FileText<'_>, chunk: &Chunk) -> Result<Frame> {
        let (mut lexer, token) = text.statement(chunk.statements[frame.statement - 1].at);
        let raw = lexer.path()?;
        let path = self.value(frame.scope, &lexer, raw.text)?;
        self.includes += 1;
        let limit = match (self.frames.len() >= MAX_INCLUDE_DEPTH, self.includes > MAX_INCLUDES) {
            (true, _) => Some(format!("': more than {MAX_INCLUDE_DEPTH} files include each other")),
            (_, true) => Some(format!("': more than {MAX_INCLUDES} includes")),
            _ => None,
        };
        if let Some(limit) = limit {
            return Err(lexer.error(&[b"loading '", &path, limit.as_bytes()]));
        }
        let file = match self.loader.number(&path) {
            Some(known) => known,
            None => self.read_ahead(frame, text, chunk, path),
        };
        let file_read = self.loader.file(file);
        if let Err(error) = &file_read.source {
            return Err(lexer.error(&[&unreadable(&file_read.path, error).text()]));
        }
        let scope = if token == Token::Subninja { self.out.env.add_scope(frame.scope) } else { frame.scope };
        Ok(Frame::new(file, scope))
    }

    /// Reads a file with a variable in its name and, speculatively, those that the next statements include. Variables
    /// in their names may change before, but hardly ever do.
    fn read_ahead(&self, frame: &Frame, text: &FileText<'_>, chunk: &Chunk, path: Vec<u8>) -> usize {
        let mut paths = vec![path];
        if !self.loader.speculative {
            return self.loader.read(&paths);
        }
        for statement in &chunk.statements[frame.statement..] {
            if let StatementKind::Include { path: None } = statement.kind {
                let mut lexer = text.statement(statement.at).0;
                paths.extend(lexer.path().and_then(|raw| self.value(frame.scope, &lexer, raw.text)));
            }
        }
        self.loader.read(&paths)
    }

    /// Returns the error of a statement that the first pass could not parse.
    fn broken(&mut self, frame: &Frame, text: &FileText<'_>, at: u32) -> Error {
        let position = self.out.edges;
        let (mut lexer, token) = text.statement(at);
        let result = match token {
            Token::Build => self.broken_build(frame.scope, &mut lexer),
            Token::Ident => {
                lexer.unread();
                statements::assignment(&mut lexer).map(|_| ())
            }
            Token::Rule => self.checked_rule(frame.scope, &mut lexer),
            Token::Pool => self.pool(frame.scope, &mut lexer, position),
            Token::Default => self.default(frame, &mut lexer, position),
            Token::Include | Token::Subninja => lexer.path().and_then(|_| lexer.expect(Token::Newline)),
            Token::Error => Err(lexer.lexing_error()),
            other => Err(lexer.error(&[b"unexpected ", other.name().as_bytes()])),
        };
        result.err().unwrap_or_else(|| lexer.error(&[b"lexing error"]))
    }

    fn broken_build(&self, scope: ScopeId, lexer: &mut Lexer<'_>) -> Result<()> {
        statements::build_line(lexer, &mut BuildPaths::default(), |lexer, name| {
            match self.out.env.has_rule_in_scope(scope, name) {
                true => Ok(()),
                false => Err(unknown_rule(lexer, name, self.out.env.rule_names(scope))),
            }
        })?;
        while statements::binding(lexer)?.is_some() {}
        Ok(())
    }
}

/// An error about an unknown rule, with a suggestion.
pub(super) fn unknown_rule<'n>(lexer: &Lexer<'_>, name: &[u8], known: impl Iterator<Item = &'n [u8]>) -> Error {
    let error = lexer.error(&[b"unknown build rule '", name, b"'"]);
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    did_you_mean(error, name, known)
}

pub(super) fn unreadable(path: &[u8], error: &std::io::Error) -> Error {
    Error::new(&[b"loading '", path, b"': ", &tanto_sys::error::text(error)])
}

/// The text of a file.
pub(super) struct FileText<'t> {
    pub(super) path: &'t [u8],
    pub(super) whole: &'t [u8],
    pub(super) end: usize,
}

impl<'t> FileText<'t> {
    pub(super) fn of(file: &'t File) -> Self {
        let whole = file.source.as_ref().map_or(&[][..], |source| source.bytes());
        FileText { path: &file.path, whole, end: file.end() }
    }

    /// Returns a lexer after the first token of the statement at `at`.
    pub(super) fn statement(&self, at: u32) -> (Lexer<'t>, Token) {
        let mut lexer = Lexer::of_part(self.path, self.whole, at as usize..self.end);
        let token = lexer.token();
        (lexer, token)
    }

    /// Parses the rest of an `include` statement after its path.
    fn include_end(&self, at: u32) -> Result<()> {
        let (mut lexer, _) = self.statement(at);
        lexer.path()?;
        lexer.expect(Token::Newline)
    }
}
