//! From the text of all manifests to the graph. Does not know the logs, nor which files exist.

mod edge;
pub(crate) mod expand;
pub(crate) mod lexer;
mod statement;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod version;

use bumpalo::Bump;

use self::edge::Scratch;
use self::lexer::{Lexer, Token};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::graph::{Graph, Map, PoolId, Scope, ScopeId, Text};

pub use self::expand::unparse;
pub use self::version::NINJA_VERSION;

/// How deep manifests may include each other; one that includes itself gets there.
const DEEPEST_INCLUDE: usize = 1000;

/// How many includes there may be in all: files that include each other twice, and so on, double with each level.
const MOST_INCLUDES: u32 = 1 << 20;

/// The longest manifest, in bytes.
const LONGEST_MANIFEST: u64 = u32::MAX as u64;

/// What the user may choose about the language.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadOptions {
    /// `-w phonycycle=err`: a phony edge that names itself is an error, not a warning.
    pub phony_cycle_is_error: bool,
}

/// Loads `manifest` and everything it includes. The error's text begins as ninja's does
/// (`build.ninja:3: expected '='...`). Warnings (phony cycles, a newer `ninja_required_version`) go to `warn`.
pub fn load<'t>(
    arena: &'t Bump,
    disk: &mut dyn Disk,
    manifest: &[u8],
    options: LoadOptions,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Graph<'t>> {
    let manifest = arena.alloc_slice_copy(manifest);
    let text = read(arena, disk, manifest)?;
    let mut loader = Loader {
        graph: Graph::new(arena),
        disk,
        options,
        warn,
        lexer: Lexer::new(manifest, text),
        scope: ScopeId::TOP,
        includers: Vec::new(),
        includes: 0,
        pools: Map::default(),
        scratch: Scratch::default(),
    };
    loader.pools.insert(b"console", PoolId::CONSOLE);
    loader.run()?;
    Ok(loader.graph)
}

/// Reads a file into the arena.
pub(crate) fn read<'t>(arena: &'t Bump, disk: &mut dyn Disk, path: &[u8]) -> Result<Text<'t>> {
    disk.read_into(path, arena, LONGEST_MANIFEST)
        .map_err(|error| Error::of(&[b"loading '", path, b"': ", &tanto_sys::error::text(&error)]))
}

/// A load in progress: the graph so far, and the place in the text.
struct Loader<'t, 'a> {
    graph: Graph<'t>,
    disk: &'a mut dyn Disk,
    options: LoadOptions,
    warn: &'a mut dyn FnMut(&[u8]),
    lexer: Lexer<'t>,
    scope: ScopeId,
    /// Where to go on when the file ends, the innermost last.
    includers: Vec<(Lexer<'t>, ScopeId)>,
    /// How many there were so far.
    includes: u32,
    pools: Map<Text<'t>, PoolId>,
    scratch: Scratch<'t>,
}

impl<'t> Loader<'t, '_> {
    fn run(&mut self) -> Result<()> {
        loop {
            match self.lexer.token() {
                Token::Build => self.build()?,
                Token::Ident => self.variable()?,
                Token::Rule => self.rule()?,
                Token::Newline => {}
                Token::Default => self.default()?,
                Token::Pool => self.pool()?,
                Token::Include => self.include(self.scope)?,
                Token::Subninja => {
                    let scope = self.inner_scope();
                    self.include(scope)?;
                }
                Token::Error => return Err(self.lexer.lexing_error()),
                Token::Eof => match self.includers.pop() {
                    Some(includer) => {
                        (self.lexer, self.scope) = includer;
                        self.lexer.expect(Token::Newline)?;
                    }
                    None => return Ok(()),
                },
                other => return Err(self.lexer.error(&[b"unexpected ", other.name().as_bytes()])),
            }
        }
    }

    fn inner_scope(&mut self) -> ScopeId {
        let id = ScopeId(u32::try_from(self.graph.scopes.len()).expect("under 2^32 scopes"));
        self.graph.scopes.push(Scope { parent: Some(self.scope), ..Scope::default() });
        id
    }

    /// Goes into the file whose name comes next.
    fn include(&mut self, scope: ScopeId) -> Result<()> {
        let raw = self.lexer.path()?;
        let path = self.evaluate(raw, &[])?;
        self.includes += 1;
        let limit = match (self.includers.len() >= DEEPEST_INCLUDE, self.includes > MOST_INCLUDES) {
            (true, _) => Some(format!("': more than {DEEPEST_INCLUDE} files include each other")),
            (_, true) => Some(format!("': more than {MOST_INCLUDES} includes")),
            _ => None,
        };
        if let Some(limit) = limit {
            return Err(self.lexer.error(&[b"loading '", path, limit.as_bytes()]));
        }
        let text = self.text_of(path)?;
        let includer = (self.lexer, self.scope);
        self.includers.push(includer);
        self.lexer = Lexer::new(path, text);
        self.scope = scope;
        Ok(())
    }

    /// The text of a file; one that is being read already is not read again, lest a manifest that includes itself
    /// fill the memory.
    fn text_of(&mut self, path: Text<'t>) -> Result<Text<'t>> {
        let open = self.includers.iter().map(|(lexer, _)| lexer).chain([&self.lexer]);
        match open.into_iter().find(|lexer| lexer.file() == path) {
            Some(lexer) => Ok(lexer.text()),
            None => read(self.graph.arena, self.disk, path).map_err(|error| self.lexer.error(&[&error.text])),
        }
    }
}
