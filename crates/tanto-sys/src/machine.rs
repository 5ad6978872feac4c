//! Processors, load and memory of the machine.

pub mod affinity;
pub mod cpu;
pub mod info;
pub mod pressure;
pub mod proc_stat;
pub mod system;
