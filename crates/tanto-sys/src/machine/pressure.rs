//! Available memory, and pressure stall information.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::cgroup_paths::{CgroupPaths, CgroupTree, read_small_file};

/// Files that are sampled. They stay open, so that a sample costs one read each.
pub struct PressureMonitor {
    memory: Option<File>,
    groups: Vec<Group>,
    memory_pressure: Option<File>,
    cpu_pressure: Option<File>,
}

/// A sample. Pressure is in percent of the last ten seconds, 0 if the kernel does not measure it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct PressureSample {
    /// Memory available without swapping, in KiB, within the limits of control groups.
    pub free_kib: Option<u64>,
    /// Some process waited for memory.
    pub memory_some: f64,
    /// All runnable processes waited for memory.
    pub memory_full: f64,
    /// Some process waited for a processor.
    pub cpu_some: f64,
}

/// A control group with a memory limit.
struct Group {
    /// In bytes.
    limit: u64,
    usage: File,
    stat: Option<File>,
    /// The statistic that counts reclaimable page cache.
    files: &'static str,
}

/// The file names of a cgroup version.
struct Names {
    tree: CgroupTree,
    limit: &'static str,
    usage: &'static str,
    files: &'static str,
}

const NAMES: [Names; 2] = [
    Names { tree: CgroupTree::Unified, limit: "memory.max", usage: "memory.current", files: "inactive_file" },
    Names {
        tree: CgroupTree::Of("memory"),
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        files: "total_inactive_file",
    },
];

/// Larger than any of the files.
const BUFFER: usize = 16 << 10;
/// Version 1 shows a missing limit as a number of this size.
const NO_LIMIT: u64 = 1 << 60;

impl PressureMonitor {
    /// Opens the files of this machine.
    pub fn open() -> PressureMonitor {
        PressureMonitor::below(Path::new("/"))
    }

    fn below(root: &Path) -> PressureMonitor {
        let open = |path| File::open(root.join(path)).ok();
        let all = CgroupPaths::of_process(root);
        let groups = NAMES.iter().flat_map(|names| {
            let around = all.own_and_ancestors(names.tree).into_iter();
            around.filter_map(|dir| Group::open(&dir, names))
        });
        PressureMonitor {
            memory: open("proc/meminfo"),
            groups: groups.collect(),
            memory_pressure: open("proc/pressure/memory"),
            cpu_pressure: open("proc/pressure/cpu"),
        }
    }

    pub fn sample(&self) -> PressureSample {
        let machine = self.memory.as_ref().and_then(|file| value(&read(file)?, "MemAvailable:"));
        let groups = self.groups.iter().filter_map(Group::free_kib);
        let (memory, cpu) = (pressure(self.memory_pressure.as_ref()), pressure(self.cpu_pressure.as_ref()));
        PressureSample {
            free_kib: machine.into_iter().chain(groups).min(),
            memory_some: average(&memory, "some"),
            memory_full: average(&memory, "full"),
            cpu_some: average(&cpu, "some"),
        }
    }

    /// Returns whether the kernel measures pressure.
    pub fn has_pressure(&self) -> bool {
        self.memory_pressure.is_some()
    }
}

impl Group {
    /// Returns `None` if the group has no limit.
    fn open(dir: &Path, names: &Names) -> Option<Group> {
        let limit = read_small_file(&dir.join(names.limit))?.trim().parse().ok().filter(|&limit| limit < NO_LIMIT)?;
        let usage = File::open(dir.join(names.usage)).ok()?;
        Some(Group { limit, usage, stat: File::open(dir.join("memory.stat")).ok(), files: names.files })
    }

    fn free_kib(&self) -> Option<u64> {
        let usage: u64 = read(&self.usage)?.trim().parse().ok()?;
        let files = self.stat.as_ref().and_then(|file| value(&read(file)?, self.files)).unwrap_or(0);
        Some(self.limit.saturating_sub(usage.saturating_sub(files)) >> 10)
    }
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0; BUFFER];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Finds the number that follows a name at the start of a line.
fn value(text: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut words| if words.next() == Some(name) { words.next()?.parse().ok() } else { None })
}

fn pressure(file: Option<&File>) -> String {
    // Without PSI, the file exists but cannot be read.
    file.and_then(read).unwrap_or_default()
}

/// Parses `some avg10=0.12 avg60=...`.
fn average(text: &str, line_name: &str) -> f64 {
    let of_line =
        |line: &str| line.strip_prefix(line_name)?.trim_start().strip_prefix("avg10=")?.split(' ').next()?.parse().ok();
    text.lines().find_map(of_line).filter(|percent: &f64| percent.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");

    fn sample(name: &str, files: &[(&str, &str)]) -> PressureSample {
        let root = Scratch::new(name);
        files.iter().for_each(|(path, text)| root.write(path, text));
        PressureMonitor::below(root.path()).sample()
    }

    #[test]
    fn this_machine_can_be_sampled() {
        let answer = PressureMonitor::open().sample();
        assert!(answer.free_kib.is_some_and(|kib| kib > 0));
        assert!((0.0..=100.0).contains(&answer.cpu_some) && (0.0..=100.0).contains(&answer.memory_some));
    }

    #[test]
    fn missing_files_mean_no_limits() {
        assert_eq!(sample("bare", &[]), PressureSample::default());
        assert_eq!(sample("plain", &[MEMINFO]).free_kib, Some(8000));
    }

    #[test]
    fn the_smallest_memory_limit_counts() {
        let mounts = "1 2 0:1 / /g rw - cgroup2 c rw\n3 2 0:1 / /m rw - cgroup c rw,memory\n";
        let base = [MEMINFO, ("proc/self/mountinfo", mounts), ("proc/self/cgroup", "5:memory:/x\n0::/a/b\n")];
        let free = |name, files: &[_]| sample(name, &[&base, files].concat()).free_kib;
        let outer = [("g/a/memory.max", "4096000\n"), ("g/a/memory.current", "1024000\n")];
        assert_eq!(free("unified", &outer), Some(3000));
        let stat = ("g/a/memory.stat", "anon 5\ninactive_file 512000\nactive_file 7\n");
        assert_eq!(free("files", &[&outer[..], &[stat]].concat()), Some(3500));
        let inner = [("g/a/b/memory.max", "max\n"), ("g/a/b/memory.current", "1\n")];
        assert_eq!(free("boundless", &inner), Some(8000));
        let old = [("m/x/memory.limit_in_bytes", "2048000\n"), ("m/x/memory.usage_in_bytes", "3000000\n")];
        assert_eq!(free("old", &[&outer[..], &old].concat()), Some(0));
        let old = [("m/x/memory.limit_in_bytes", "9223372036854771712\n"), ("m/x/memory.usage_in_bytes", "1\n")];
        assert_eq!(free("old-boundless", &old), Some(8000));
    }

    #[test]
    fn pressure_is_the_average_of_ten_seconds() {
        let memory = "some avg10=1.50 avg60=2.00 avg300=3.00 total=4\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=0\n";
        let answer =
            sample("pressed", &[("proc/pressure/memory", memory), ("proc/pressure/cpu", "some avg10=97.00\n")]);
        assert_eq!((answer.memory_some, answer.memory_full, answer.cpu_some), (1.5, 0.25, 97.0));
        for odd in ["", "some\n", "some avg10=\n", "some avg10=nan avg60=1\n", "full avg10=9\n"] {
            assert_eq!(sample("odd", &[("proc/pressure/cpu", odd)]).cpu_some, 0.0, "{odd}");
        }
    }
}
