//! The package tree: which packages its directories make, as scan records.

pub mod scan;
