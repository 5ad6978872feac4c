//! The syntax of manifests and dyndep files: tokens, statements and the expansion of variables.

pub(crate) mod expansion;
pub(crate) mod lexer;
mod path_scan;
pub(crate) mod statements;
