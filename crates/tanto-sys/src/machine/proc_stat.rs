//! Accumulated processor time and stall times of the machine.

use std::path::Path;

use crate::cgroup_paths::read_small_file;

/// Totals since boot, in microseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SystemTimes {
    /// Busy time of all processors.
    pub busy_us: u64,
    /// Idle time while a process waited for a disk.
    pub io_wait_us: u64,
    /// Time that the hypervisor gave to other machines.
    pub stolen_us: u64,
    /// Time in which some process waited for a processor; `None` if the kernel does not measure it.
    pub cpu_us: Option<u64>,
    /// Time in which some process waited for memory.
    pub memory_us: Option<u64>,
    /// Time in which some process waited for a disk.
    pub io_us: Option<u64>,
}

/// User space sees 100 ticks per second.
const MICROSECONDS_PER_TICK: u64 = 10_000;

impl SystemTimes {
    /// Returns the current totals; 0 if unknown.
    pub fn now() -> SystemTimes {
        SystemTimes::below(Path::new("/"))
    }

    fn below(root: &Path) -> SystemTimes {
        let stat = read_small_file(&root.join("proc/stat")).unwrap_or_default();
        let mut ticks = [0; 8];
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        for (tick, word) in ticks.iter_mut().zip(line.split_ascii_whitespace()) {
            *tick = word.parse::<u64>().unwrap_or(0).saturating_mul(MICROSECONDS_PER_TICK);
        }
        let [user, nice, system, _idle, io_wait_us, irq, softirq, stolen_us] = ticks;
        let stalled = |resource: &str| stalled(&read_small_file(&root.join("proc/pressure").join(resource))?);
        SystemTimes {
            busy_us: user + nice + system + irq + softirq,
            io_wait_us,
            stolen_us,
            cpu_us: stalled("cpu"),
            memory_us: stalled("memory"),
            io_us: stalled("io"),
        }
    }

    /// Returns the difference to an earlier sample.
    pub fn since(&self, then: &SystemTimes) -> SystemTimes {
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        SystemTimes {
            busy_us: self.busy_us.saturating_sub(then.busy_us),
            io_wait_us: self.io_wait_us.saturating_sub(then.io_wait_us),
            stolen_us: self.stolen_us.saturating_sub(then.stolen_us),
            cpu_us: both(self.cpu_us, then.cpu_us),
            memory_us: both(self.memory_us, then.memory_us),
            io_us: both(self.io_us, then.io_us),
        }
    }
}

/// Parses `some avg10=... total=MICROSECONDS`.
fn stalled(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn this_machine_has_busy_time() {
        assert!(SystemTimes::now().busy_us > 0);
    }

    #[test]
    fn totals_are_parsed_and_subtracted() {
        let root = Scratch::new("times");
        assert_eq!(SystemTimes::below(root.path()), SystemTimes::default());
        root.write("proc/stat", "cpu  1 2 3 100 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
        root.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\nfull avg10=0 total=7\n");
        let then = SystemTimes::below(root.path());
        assert_eq!((then.busy_us, then.io_wait_us, then.stolen_us), (190_000, 50_000, 80_000));
        assert_eq!((then.cpu_us, then.io_us), (None, Some(42)));
        root.write("proc/stat", "cpu  2 2 3 100 5 6 7 9 0 0\n");
        root.write("proc/pressure/io", "some total=50\n");
        let between = SystemTimes::below(root.path()).since(&then);
        assert_eq!((between.busy_us, between.io_wait_us, between.stolen_us), (10_000, 0, 10_000));
        assert_eq!((between.cpu_us, between.io_us), (None, Some(8)));
    }
}
