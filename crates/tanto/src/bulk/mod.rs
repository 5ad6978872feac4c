//! `tanto bulk`: a whole package tree. Does not know how packages are found, resolved or built.

pub(crate) mod ask;
pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod deliver;
pub(crate) mod enter;
pub(crate) mod exchange;
pub(crate) mod fetch;
mod files;
mod findings;
pub(crate) mod init;
mod jobs;
mod meta;
mod pbulk;
mod phases;
mod place;
mod prepare;
mod progress;
pub(crate) mod publish;
pub(crate) mod report;
pub(crate) mod resolve;
pub(crate) mod scan;
pub(crate) mod shell;
pub(crate) mod sign;
pub(crate) mod simulate;
mod site;
