//! Helpers shared by the tests of several crates.

mod manifests;
mod mutate;
mod random;
mod scratch;

pub use manifests::manifests;
pub use mutate::{Material, each_variant};
pub use random::{Random, seeds};
pub use scratch::Scratch;
