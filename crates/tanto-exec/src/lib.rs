//! Jobs, the scheduler, the run loop and its runners, and the vocabulary of events.
//!
//! It does not know `.ninja` files, packages, SQL or HTTP.

pub mod clock;
pub mod cost;
pub mod deal;
pub mod elf;
pub mod event;
pub mod front;
pub mod gauge;
pub mod job;
pub mod monitor;
pub mod run;
pub mod runner;
pub mod sandbox;
pub mod schedule;
pub mod simulate;
pub mod spilled;
pub mod startup;
pub mod writer;
