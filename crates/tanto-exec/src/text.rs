//! Text for people and shells: aligned tables, durations and sizes, HTML, quoting, last lines.

pub mod html;
pub mod shell;
pub mod table;
pub mod tail;
pub mod units;
