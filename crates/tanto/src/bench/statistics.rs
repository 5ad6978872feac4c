//! What measured numbers say, and what they cannot say. Does not know what was measured: no clock, no files, and no
//! random numbers, so the same numbers always have the same answer.

pub mod alike;
pub mod fit;
pub mod interval;
pub mod looks;
pub mod outliers;
pub mod pairs;
pub mod quantile;
pub mod trend;

#[cfg(test)]
mod tests;
