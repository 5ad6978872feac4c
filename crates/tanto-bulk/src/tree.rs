//! The package tree: which packages its directories make, as scan records.

pub mod platform_vars;
pub mod records;
pub mod scan;
