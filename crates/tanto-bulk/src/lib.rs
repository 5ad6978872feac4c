//! A package tree's language: what a scan says of its packages, and which package needs which others. Does not know
//! `.ninja` files, and not how a command is run.

pub mod archive;
pub mod build;
pub mod check;
pub mod config;
pub mod delivery;
pub mod distfiles;
pub mod door;
pub mod estimate;
pub mod facts;
pub mod forecast;
pub mod layers;
pub mod name;
pub mod options;
pub mod pattern;
pub mod publish;
pub mod records;
pub mod report;
pub mod resolve;
pub mod sandbox;
pub mod scan;
mod shell;
pub mod sign;
pub mod version;
