//! Deterministic statistics of measured numbers.

pub mod fit;
pub mod interval;
pub mod pairs;
pub mod sequential;
pub mod summary;
pub mod ties;
pub mod trend;

#[cfg(test)]
mod tests;
