//! Parses dyndep files and applies them to the graph.

use crate::canon::canonical;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::hash::Map;
use crate::ids::{EdgeId, NodeId};
use crate::load::{self, version};
use crate::syntax::expansion::append_value;
use crate::syntax::lexer::{Lexer, Raw, Token};

/// The additions of a dyndep file to one edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    pub edge: EdgeId,
    /// Implicit outputs.
    pub outs: Vec<NodeId>,
    /// Implicit inputs.
    pub ins: Vec<NodeId>,
    pub restat: bool,
}

/// The edges of each dyndep file, in manifest order.
pub fn users(graph: &Graph<'_>) -> Map<NodeId, Vec<EdgeId>> {
    let mut users: Map<NodeId, Vec<EdgeId>> = Map::default();
    for (edge, file) in graph.dyndeps() {
        users.entry(file).or_default().push(edge);
    }
    users
}

/// Loads a dyndep file and applies it to the graph. The file must mention exactly the edges in `users`, which are in
/// manifest order. Returns the additions in the same order.
pub fn load(graph: &mut Graph<'_>, disk: &mut dyn Disk, file: NodeId, users: &[EdgeId]) -> Result<Vec<Update>> {
    graph.dyndep_is_read(file);
    let path = graph.path(file);
    let text = graph.arena.alloc_slice_copy(&load::read(disk, path)?);
    let (mut mentioned, lost) = parse(graph, path, text)?;
    let mut updates = Vec::with_capacity(users.len());
    for user in users {
        let Some(update) = mentioned.remove(user) else {
            let out = graph.path(graph.edge(*user).outs[0]);
            return Err(Error::new(&[b"'", out, b"' not mentioned in its dyndep file '", path, b"'"]));
        };
        apply(graph, file, &update)?;
        updates.push(update);
    }
    if let Some(stranger) = mentioned.into_keys().min() {
        let out = graph.path(graph.edge(stranger).outs[0]);
        let middle = b"' whose build statement does not have a dyndep binding for the file";
        return Err(Error::new(&[b"dyndep file '", path, b"' mentions output '", out, middle]));
    }
    lost.map_or(Ok(updates), Err)
}

fn apply(graph: &mut Graph<'_>, file: NodeId, update: &Update) -> Result<()> {
    if update.restat {
        graph.set_restat(update.edge);
    }
    let uses = graph.edge(update.edge).ins.iter().filter(|&&node| node == file).count();
    graph.extend_edge(update.edge, &update.outs, &update.ins);
    // As in ninja, the first output is repeated for an edge that lists the dyndep file twice.
    for &out in update.outs.iter().chain(update.outs.first().filter(|_| uses > 1)) {
        if graph.set_in_edge(out, update.edge).is_some() {
            return Err(Error::new(&[b"multiple rules generate ", graph.path(out)]));
        }
    }
    Ok(())
}

/// Returns the updates by edge, and an error to report if there is no other. New paths become nodes.
fn parse<'t>(graph: &mut Graph<'t>, path: &'t [u8], text: &'t [u8]) -> Result<(Map<EdgeId, Update>, Option<Error>)> {
    let mut parser = Parser { graph, lexer: Lexer::new(path, text), updates: Map::default(), lost: None };
    parser.run()?;
    Ok((parser.updates, parser.lost))
}

struct Parser<'g, 't> {
    graph: &'g mut Graph<'t>,
    lexer: Lexer<'t>,
    updates: Map<EdgeId, Update>,
    /// The error in the paths of an abandoned statement.
    lost: Option<Error>,
}

const NO_VERSION: &[u8] = b"expected 'ninja_dyndep_version = ...'";

impl<'t> Parser<'_, 't> {
    fn run(&mut self) -> Result<()> {
        let mut versioned = false;
        loop {
            match self.lexer.token() {
                Token::Newline => {}
                Token::Build if versioned => self.build()?,
                Token::Ident if !versioned => {
                    self.version()?;
                    versioned = true;
                }
                Token::Eof if versioned => return Ok(()),
                Token::Build | Token::Eof => return Err(self.lexer.error(&[NO_VERSION])),
                Token::Error => return Err(self.lexer.lexing_error()),
                other => return Err(self.lexer.error(&[b"unexpected ", other.name().as_bytes()])),
            }
        }
    }

    fn version(&mut self) -> Result<()> {
        self.lexer.unread();
        let (name, value) = self.assignment()?;
        if name != b"ninja_dyndep_version" {
            return Err(self.lexer.error(&[NO_VERSION]));
        }
        if version::parse(&value) != (1, 0) {
            return Err(self.lexer.error(&[b"unsupported 'ninja_dyndep_version = ", &value, b"'"]));
        }
        Ok(())
    }

    fn assignment(&mut self) -> Result<(&'t [u8], Vec<u8>)> {
        let name = self.lexer.name().ok_or_else(|| self.lexer.error(&[b"expected variable name"]))?;
        self.lexer.expect(Token::Equals)?;
        let raw = self.lexer.value()?;
        Ok((name, self.value(raw)?))
    }

    /// Evaluates a value; no variables are defined here.
    fn value(&self, raw: Raw<'t>) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        append_value(raw.text, &mut value, |_| None)?;
        Ok(value)
    }

    fn path(&self, raw: Raw<'t>) -> Result<Vec<u8>> {
        let value = self.value(raw)?;
        if value.is_empty() {
            return Err(self.lexer.error_about(raw.text, &[b"empty path"]));
        }
        Ok(canonical(&value))
    }

    fn nodes(&mut self, raws: &[Raw<'t>]) -> Result<Vec<NodeId>> {
        raws.iter().map(|&raw| self.path(raw).map(|path| self.graph.intern(&path))).collect()
    }

    /// `build out | outs: dyndep | ins`, optionally with `restat = 1`
    fn build(&mut self) -> Result<()> {
        let edge = self.edge()?;
        if !self.lexer.path()?.text.is_empty() {
            return Err(self.lexer.error(&[b"explicit outputs not supported"]));
        }
        let Some(outs) = self.implicit_paths() else { return Ok(()) };
        self.lexer.expect(Token::Colon)?;
        if self.lexer.name() != Some(b"dyndep") {
            return Err(self.lexer.error(&[b"expected build command name 'dyndep'"]));
        }
        if !self.lexer.path()?.text.is_empty() {
            return Err(self.lexer.error(&[b"explicit inputs not supported"]));
        }
        let Some(ins) = self.implicit_paths() else { return Ok(()) };
        if self.lexer.peek(Token::Pipe2) {
            return Err(self.lexer.error(&[b"order-only inputs not supported"]));
        }
        self.lexer.expect(Token::Newline)?;
        let restat = self.restat()?;
        let ins = self.nodes(&ins)?;
        let outs = self.nodes(&outs)?;
        self.updates.insert(edge, Update { edge, outs, ins, restat });
        Ok(())
    }

    /// The edge of the output at the start of a statement.
    fn edge(&mut self) -> Result<EdgeId> {
        let raw = self.lexer.path()?;
        if raw.text.is_empty() {
            return Err(self.lexer.error(&[b"expected path"]));
        }
        let path = self.path(raw)?;
        let known = self.graph.lookup(&path).and_then(|node| self.graph.in_edge(node));
        let Some(edge) = known else {
            return Err(self.lexer.error(&[b"no build statement exists for '", &path, b"'"]));
        };
        // Counts as mentioned even if the statement is abandoned.
        let update = Update { edge, outs: Vec::new(), ins: Vec::new(), restat: false };
        match self.updates.insert(edge, update) {
            None => Ok(edge),
            Some(_) => Err(self.lexer.error(&[b"multiple statements for '", &path, b"'"])),
        }
    }

    /// Parses the paths after a `|`. Returns `None` for a broken path: ninja then abandons the statement and reports
    /// the error of the next one, or that of the path at the end of the file.
    fn implicit_paths(&mut self) -> Option<Vec<Raw<'t>>> {
        let mut paths = Vec::new();
        match self.lexer.paths(Some(Token::Pipe), &mut paths) {
            Ok(_) => Some(paths),
            Err(error) => {
                self.lost = Some(error);
                None
            }
        }
    }

    fn restat(&mut self) -> Result<bool> {
        if !self.lexer.peek(Token::Indent) {
            return Ok(false);
        }
        let (name, value) = self.assignment()?;
        if name != b"restat" {
            return Err(self.lexer.error(&[b"binding is not 'restat'"]));
        }
        Ok(!value.is_empty())
    }
}

#[cfg(test)]
mod tests;
