//! The test harness: runs each case in two trees, one per program, and compares everything observable.

mod alike;
mod answers;
mod case;
mod compare;
mod logs;
mod process;
mod programs;
mod side;
mod tree;

pub use answers::ask;
pub use case::{Case, Run, fresh_dir, remove_dir};
pub use logs::{DepsLog, NinjaLog};
pub use process::{Ended, Running, signal as send_signal};
pub use programs::{Program, programs, tanto};
pub use side::Side;
pub use tree::Tree;
