//! Tests of the run loop with fake runners.

mod admission;
mod commands;
mod dry_run;
