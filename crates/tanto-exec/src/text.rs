//! Text for people: aligned tables, durations and sizes, HTML.

pub mod html;
pub mod table;
pub mod units;
