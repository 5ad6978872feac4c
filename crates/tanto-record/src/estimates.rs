//! Estimates of a running build.

pub mod time_left;
