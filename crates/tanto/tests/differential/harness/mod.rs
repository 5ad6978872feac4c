//! What every case stands on: two fresh trees, one per program, and a comparison of all that can be seen.

mod answers;
mod case;
mod compare;
mod logs;
mod process;
mod programs;
mod side;
mod tree;

pub use case::{Case, Run};
pub use programs::programs;
pub use side::Side;
