//! The experiments of `tanto bench`, and the statistics that evaluate them.

pub mod compare;
pub mod jobs;
pub mod measure;
pub mod output;
pub mod plot;
pub mod stat;

mod chart;
mod error;
mod format;
mod random;
mod statistics;

pub use error::{Error, InvalidValue};
