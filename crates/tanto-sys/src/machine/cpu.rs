//! The number and load of processors.

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use rustix::thread::sched_getaffinity;

use crate::cgroup_paths::{CgroupPaths, CgroupTree, read_small_file};

/// Returns the number of processors that this process may use: its affinity mask, or fewer if a control group's quota
/// allows fewer. The first call reads several files; avoid it in builds with nothing to do.
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(determine_count)
}

fn determine_count() -> usize {
    let counts = (group_quota(Path::new("/")), affinity());
    let count = match counts {
        (Some(quota), Some(mask)) => quota.min(mask),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => online(),
    };
    usize::try_from(count).unwrap_or(0)
}

/// Returns the load average of the last minute.
pub fn load_average() -> f64 {
    // Fixed point, with 16 binary places.
    rustix::system::sysinfo().loads[0] as f64 / 65536.0
}

/// Returns how often the calling thread has blocked so far (voluntary context switches).
pub fn waits() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a place for the answer, and all zero it is a valid value.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nvcsw
    }
}

fn affinity() -> Option<i64> {
    sched_getaffinity(None).ok().map(|set| i64::from(set.count()))
}

/// The number of online processors, for machines with more of them than an affinity mask has room for.
fn online() -> i64 {
    thread::available_parallelism().map_or(1, |count| count.get() as i64)
}

/// Returns the smallest processor quota of this process's control groups of both versions, rounded up: with 2.5
/// processors, two jobs would leave a half unused.
fn group_quota(root: &Path) -> Option<i64> {
    let groups = CgroupPaths::of_process(root);
    let unified = groups.own_and_ancestors(CgroupTree::Unified).into_iter();
    let unified = unified.filter_map(|dir| quota_of_v2(&read_small_file(&dir.join("cpu.max"))?));
    let old = groups.own_and_ancestors(CgroupTree::Of("cpu")).into_iter().filter_map(|dir| {
        let file = |name: &str| read_small_file(&dir.join(format!("cpu.cfs_{name}_us")));
        quota_of_v1(&file("quota")?, &file("period")?)
    });
    unified.chain(old).min()
}

/// Parses `quota period` in microseconds, or `max period`.
fn quota_of_v2(text: &str) -> Option<i64> {
    let (quota, period) = text.lines().next()?.split_once(' ')?;
    let (quota, period): (i64, i64) = (quota.parse().ok()?, period.parse().ok()?);
    started(quota, period)
}

/// Parses two files; a quota of -1 means no limit.
fn quota_of_v1(quota: &str, period: &str) -> Option<i64> {
    started(quota.trim().parse().ok()?, period.trim().parse().ok()?)
}

/// Divides and rounds up.
fn started(quota: i64, period: i64) -> Option<i64> {
    (quota > 0 && period > 0).then(|| quota / period + i64::from(quota % period > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn there_is_a_processor() {
        assert!(affinity().unwrap() > 0 && online() > 0);
        assert!(load_average() >= 0.0);
        assert!(count() as i64 <= affinity().unwrap());
    }

    #[test]
    fn sleeping_counts_as_a_wait() {
        let before = waits();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(waits() > before);
    }

    #[test]
    fn quotas_are_rounded_up() {
        assert_eq!(quota_of_v2("250000 100000\n"), Some(3));
        assert_eq!(quota_of_v2("200000 100000\n"), Some(2));
        assert_eq!(quota_of_v2("50000 100000\n"), Some(1));
        for none in ["max 100000\n", "", "1", "x y", "100 0", "-5 100", "0 100"] {
            assert_eq!(quota_of_v2(none), None, "{none}");
        }
        assert_eq!(quota_of_v1("400000\n", "100000\n"), Some(4));
        assert_eq!(quota_of_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_of_v1("5\n", "0\n"), None);
    }

    const MOUNTS: &str =
        "25 30 0:23 / /g/unified rw - cgroup2 c rw\n26 30 0:24 / /g/cpu rw - cgroup c rw,cpu,cpuacct\n";

    fn machine(name: &str, files: &[(&str, &str)]) -> Scratch {
        let root = Scratch::new(name);
        root.write("proc/self/mountinfo", MOUNTS);
        files.iter().for_each(|(path, text)| root.write(path, text));
        root
    }

    #[test]
    fn the_smallest_quota_counts() {
        let groups = ("proc/self/cgroup", "0::/a/b/c\n");
        let (a, c) = ("g/unified/a/cpu.max", "g/unified/a/b/c/cpu.max");
        let quota = |name, files: &[_]| group_quota(machine(name, &[&[groups], files].concat()).path());
        assert_eq!(quota("none", &[]), None);
        assert_eq!(quota("outer", &[(a, "300000 100000\n"), (c, "max 100000\n")]), Some(3));
        assert_eq!(quota("inner", &[(a, "300000 100000\n"), (c, "50000 50000\n")]), Some(1));
        assert_eq!(quota("both", &[(a, "150000 100000\n"), (c, "700000 100000\n")]), Some(2));
        assert_eq!(quota("mount", &[("g/unified/cpu.max", "400000 100000\n")]), Some(4));
    }

    #[test]
    fn hybrid_machines_use_version_1() {
        let files = [
            ("proc/self/cgroup", "3:cpu,cpuacct:/box/job\n0::/box\n"),
            ("g/unified/box/cgroup.procs", "1\n"),
            ("g/cpu/box/cpu.cfs_quota_us", "250000\n"),
            ("g/cpu/box/cpu.cfs_period_us", "100000\n"),
            ("g/cpu/box/job/cpu.cfs_quota_us", "-1\n"),
            ("g/cpu/box/job/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(group_quota(machine("hybrid", &files).path()), Some(3));
    }
}
