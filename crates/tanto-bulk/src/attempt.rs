//! One attempt at one package: its stages, its sandbox with the packages it needs, and its distfiles.

pub mod distfiles;
pub mod layers;
pub mod make_wrappers;
pub mod sandbox;
pub mod stages;
pub mod workdirs;
