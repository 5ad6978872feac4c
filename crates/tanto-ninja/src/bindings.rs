//! What a variable means for an edge: `$in`, `$out`, its own bindings, its rule's, its scopes'. Does not know what
//! the values are for.

use crate::error::Result;
use crate::graph::{EdgeId, Graph};

/// How `$in` and `$out` are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escape {
    /// Quoted for the shell where needed: for commands and everything that is not a file name.
    Shell,
    /// As they are: for `depfile`, `dyndep` and `rspfile`.
    None,
}

impl Graph<'_> {
    /// The value of a variable for an edge; empty where nothing sets it. An error is a cycle among the rule's
    /// variables.
    pub fn binding(&self, _edge: EdgeId, _name: &[u8], _escape: Escape) -> Result<Vec<u8>> {
        todo!()
    }

    /// Is the variable set to something? (`restat`, `generator`; a dyndep file's `restat` counts.)
    pub fn flag(&self, _edge: EdgeId, _name: &[u8]) -> Result<bool> {
        todo!()
    }

    /// The command, for the log's hash: with `;rspfile=` and the response file's content where there is one.
    pub fn command_for_hash(&self, _edge: EdgeId) -> Result<Vec<u8>> {
        todo!()
    }
}
