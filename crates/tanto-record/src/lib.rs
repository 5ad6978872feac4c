//! Records builds and shows them: sessions, history, the bulk database, and every view of the event stream.

pub mod database;
pub mod estimates;
pub mod history;
pub mod json;
pub mod jsonl;
pub mod session;
mod text;
pub mod views;
