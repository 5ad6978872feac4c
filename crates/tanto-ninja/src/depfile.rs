//! The depfile a compiler writes: a Makefile's rules, as gcc, clang and others write them. Does not know the graph.

use crate::error::Result;

/// Targets and prerequisites of all rules of a depfile, unescaped, in the order of the text, each once.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Depfile {
    /// What the rules make.
    pub outs: Vec<Vec<u8>>,
    /// What they need.
    pub ins: Vec<Vec<u8>>,
}

/// Parses a depfile. An error says what ninja says.
pub fn parse(_text: &[u8]) -> Result<Depfile> {
    todo!()
}
