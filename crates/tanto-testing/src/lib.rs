//! What the tests of several crates share. Does not know what is tested, and is in no program.

mod manifests;
mod mutate;
mod random;
mod scratch;

pub use manifests::manifests;
pub use mutate::{Material, each_variant};
pub use random::{Random, seeds};
pub use scratch::Scratch;
