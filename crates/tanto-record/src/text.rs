//! Text with escape sequences.

pub mod ansi;
pub mod elide;
