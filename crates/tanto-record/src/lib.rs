//! What a build leaves behind and shows: every view is a function of the event stream. Does not know how a job is run.

mod ansi;
pub mod cut;
mod elide;
mod eta;
pub mod format;
pub mod history;
pub mod json;
pub mod jsonl;
mod line;
pub mod live;
pub mod ninja;
pub mod processes;
mod progress;
pub mod recorder;
pub mod report;
mod said;
pub mod session;
pub mod store;
pub mod terminal;
