//! What the schedule is told of the machine, as the machine says it. Does not know what the schedule makes of it.

use tanto_sys::machine::pressure::PressureMonitor;

use crate::schedule::ResourceSample;

/// A reader of this machine. What it needs is opened when it is first asked.
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
