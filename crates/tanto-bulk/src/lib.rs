//! Bulk builds of a pkgsrc tree: scan, dependency resolution, package builds, reports and publication.

pub mod attempt;
pub mod client;
pub mod config;
pub mod coordinator;
pub mod error;
pub mod estimate;
pub mod freshness;
pub mod machine_environment;
pub mod package;
pub mod publish;
pub mod report;
pub mod resolve;
mod shell;
pub mod tree;
