//! Text for people and shells: aligned tables, durations and sizes, HTML, quoting, last lines; numbers that people write, suggestions, and places in files.

pub mod html;
pub mod number;
pub mod place;
pub mod shell;
pub mod suggest;
pub mod table;
pub mod tail;
pub mod units;
