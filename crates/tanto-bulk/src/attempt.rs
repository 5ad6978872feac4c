//! One attempt at one package: its stages, its sandbox with the packages it needs, and its distfiles.

pub mod build_settings;
pub mod distfiles;
pub mod environment;
pub mod install_artifact;
pub mod layers;
pub mod make_wrappers;
pub mod platform_vars;
pub mod preflight;
pub mod sandbox;
pub mod stages;
pub mod workdirs;
