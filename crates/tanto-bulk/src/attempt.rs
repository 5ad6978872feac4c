//! One attempt at one package: stages, sandbox with the packages that it needs, distfiles, limits and logs. Knows no other
//! package and no database.

pub mod build_settings;
pub mod directory;
pub mod distfiles;
pub mod enter;
pub mod environment;
pub mod execution;
pub mod failure;
pub mod layers;
pub mod make_wrappers;
pub mod platform_vars;
pub mod preflight;
pub mod runner;
pub mod sandbox;
pub mod stages;
pub mod workdir_note;
