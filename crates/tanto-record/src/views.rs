//! Views of a build: functions of its events or of its session.

pub mod display;
pub mod html;
pub mod live;
mod messages;
pub mod ninja;
pub mod process_list;
mod progress;
pub mod report;
pub mod status_format;
pub mod terminal;
pub mod trace;
pub mod truncated_output;
