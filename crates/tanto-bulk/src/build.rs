//! Builds packages: which of them, in which order and through which stages, and what becomes of those that need one that
//! failed. Does not know how a command is run, nor what the database does with what it is told.

pub mod books;
pub mod front;
pub mod plan;
pub mod stages;
pub mod state;
