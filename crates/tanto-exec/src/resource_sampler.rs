//! Samples free memory and pressure of the system.

use tanto_sys::machine::pressure::PressureMonitor;

use crate::schedule::ResourceSample;

/// Returns a sampler, which opens its files on the first call.
pub fn machine() -> impl FnMut() -> ResourceSample {
    let mut headroom = None;
    move || {
        let answer = headroom.get_or_insert_with(PressureMonitor::open).sample();
        ResourceSample {
            free_kib: answer.free_kib,
            free_disk_kib: None,
            memory_some: answer.memory_some,
            memory_full: answer.memory_full,
            cpu_some: answer.cpu_some,
        }
    }
}
