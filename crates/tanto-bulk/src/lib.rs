//! A package tree's language: what a scan says of its packages, and which package needs which others. Does not know
//! `.ninja` files, and not how a command is run.

pub mod attempt;
pub mod config;
pub mod coordinator;
pub mod error;
pub mod estimate;
pub mod freshness;
pub mod package;
pub mod publish;
pub mod report;
pub mod resolve;
mod shell;
pub mod tree;
