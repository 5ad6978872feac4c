//! Jobs, the scheduler, the run loop, runners, and the events of a build.

pub mod call_tracer;
pub mod clock;
pub mod command_output;
pub mod elf;
pub mod event;
pub mod file_watcher;
pub mod frontend;
pub mod input_recorder;
pub mod job;
pub mod jobserver;
pub mod machine_summary;
pub mod monitor;
pub mod resource_sampler;
pub mod run;
pub mod runner;
pub mod sandbox;
pub mod schedule;
pub mod simulate;
pub mod single_command;
pub mod spilled;
pub mod startup;
#[cfg(test)]
mod testing;
pub mod text;
pub mod writer;
