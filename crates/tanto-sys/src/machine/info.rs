//! Describes the machine, for comparing measurements.

use std::path::Path;

use crate::cgroup_paths::read_small_file;

/// Properties that do not change while a program runs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MachineInfo {
    /// The name of the processor; empty if unknown.
    pub model: String,
    /// Online processors.
    pub processors: usize,
    /// Memory in KiB; 0 if unknown.
    pub memory_kib: u64,
    /// Name and version of the kernel.
    pub kernel: String,
    /// A virtual machine, which reports a wrong frequency of its processors.
    pub is_virtual: bool,
}

impl MachineInfo {
    pub fn query() -> MachineInfo {
        MachineInfo::below(Path::new("/"))
    }

    fn below(root: &Path) -> MachineInfo {
        let file = |path| read_small_file(&root.join(path)).unwrap_or_default();
        let cpuinfo = file("proc/cpuinfo");
        let named = ["model name", "Model", "Hardware", "CPU part"].iter().find_map(|name| field(&cpuinfo, name));
        let memory = field(&file("proc/meminfo"), "MemTotal").unwrap_or_default();
        let (kind, release) = (file("proc/sys/kernel/ostype"), file("proc/sys/kernel/osrelease"));
        MachineInfo {
            model: named.unwrap_or_default(),
            processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_kib: memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0),
            kernel: format!("{} {}", kind.trim(), release.trim()),
            is_virtual: flags(&cpuinfo).any(|flag| flag == "hypervisor"),
        }
    }
}

/// Returns the average frequency of the processors in MHz; `None` if unknown, as in a virtual machine.
pub fn frequency_mhz() -> Option<u64> {
    frequency_below(Path::new("/"))
}

/// Returns the frequency governor (`performance`, `powersave` ...).
pub fn governor() -> Option<String> {
    read_small_file(Path::new("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
        .map(|name| name.trim().to_owned())
}

fn frequency_below(root: &Path) -> Option<u64> {
    let cpuinfo = read_small_file(&root.join("proc/cpuinfo")).unwrap_or_default();
    if flags(&cpuinfo).any(|flag| flag == "hypervisor") {
        return None;
    }
    let frequency = |cpu: usize| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        Some(read_small_file(&root.join(path))?.trim().parse::<u64>().ok()? / 1000)
    };
    let by_file: Vec<u64> = (0..).map_while(frequency).collect();
    let by_list = || cpuinfo.lines().filter_map(|line| Some(field(line, "cpu MHz")?.parse::<f64>().ok()? as u64));
    let all = if by_file.is_empty() { by_list().collect() } else { by_file };
    all.iter().sum::<u64>().checked_div(all.len() as u64)
}

fn flags(cpuinfo: &str) -> impl Iterator<Item = &str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    line.split(' ')
}

/// Finds a value in lines `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Some CPU\ncpu MHz\t\t: 1000.5\nflags\t\t: fpu avx\n\n\
                           processor\t: 1\nmodel name\t: Some CPU\ncpu MHz\t\t: 2000.0\nflags\t\t: fpu avx\n";

    #[test]
    fn this_machine_is_described() {
        let machine = MachineInfo::query();
        assert!(machine.processors > 0 && machine.memory_kib > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }

    #[test]
    fn properties_are_parsed() {
        let root = Scratch::new("machine");
        root.write("proc/cpuinfo", CPUINFO);
        root.write("proc/meminfo", "MemTotal:       1024 kB\n");
        root.write("proc/sys/kernel/ostype", "Linux\n");
        root.write("proc/sys/kernel/osrelease", "6.1\n");
        let expected = MachineInfo {
            model: "Some CPU".into(),
            processors: 2,
            memory_kib: 1024,
            kernel: "Linux 6.1".into(),
            is_virtual: false,
        };
        assert_eq!(MachineInfo::below(root.path()), expected);
        assert_eq!(frequency_below(root.path()), Some(1500));
        root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
        assert_eq!(frequency_below(root.path()), Some(3000));
        root.write("proc/cpuinfo", CPUINFO.replace("avx", "hypervisor"));
        assert_eq!(frequency_below(root.path()), None);
        assert!(MachineInfo::below(root.path()).is_virtual);
        assert_eq!(frequency_below(Scratch::new("no-machine").path()), None);
    }
}
