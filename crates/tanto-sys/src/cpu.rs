//! How many processors there are for us, and how busy they are. Does not know how many jobs that makes.

use std::fs;
use std::mem::MaybeUninit;

use crate::cgroup::find::{Tree, directory};

/// Processors that this process may use: those of its affinity mask, or fewer where a control group's quota pays
/// for fewer whole ones (that may be 0). Reads four files; not for the path that runs nothing.
pub fn count() -> usize {
    let counts = (group_quota(), affinity());
    let count = match counts {
        (Some(quota), Some(mask)) => quota.min(mask),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => online(),
    };
    usize::try_from(count).unwrap_or(0)
}

/// The load average of the last minute; 0 where it is not known.
pub fn load_average() -> f64 {
    let mut load = 0.0;
    // SAFETY: room for one number is given and one is asked for.
    let got = unsafe { libc::getloadavg(&raw mut load, 1) };
    if got == 1 { load } else { 0.0 }
}

/// How often the calling thread has waited for something else than a processor, since its start.
pub fn waits() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a place for the answer, and all zero it is a valid value.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nvcsw
    }
}

fn affinity() -> Option<i64> {
    // SAFETY: an all-zero `cpu_set_t` is an empty set, a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a place for an answer of the size given.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: only counts the bits of `set`.
    (rc == 0).then(|| i64::from(unsafe { libc::CPU_COUNT(&set) }))
}

fn online() -> i64 {
    // SAFETY: reads no memory of ours.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }
}

/// Whole processors that the control group's quota pays for; version 2 goes before version 1, whose group is the one
/// that limits processors.
fn group_quota() -> Option<i64> {
    let groups = lossy("/proc/self/cgroup")?;
    let mounts = lossy("/proc/self/mountinfo")?;
    if let Some(dir) = directory(&groups, &mounts, Tree::Unified) {
        return quota_of_v2(&lossy(&format!("{dir}/cpu.max"))?);
    }
    let dir = directory(&groups, &mounts, Tree::Of("cpu"))?;
    let file = |name| lossy(&format!("{dir}/cpu.cfs_{name}_us"));
    quota_of_v1(&file("quota")?, &file("period")?)
}

fn lossy(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// `quota period` in microseconds, or `max period`.
fn quota_of_v2(text: &str) -> Option<i64> {
    let (quota, period) = text.lines().next()?.split_once(' ')?;
    let (quota, period): (i64, i64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota / period)
}

/// Two files with a number each; a quota of -1 is none.
fn quota_of_v1(quota: &str, period: &str) -> Option<i64> {
    let (quota, period): (i64, i64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    if quota == -1 { None } else { quota.checked_div(period) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_processor() {
        assert!(affinity().unwrap() > 0 && online() > 0);
        assert!(load_average() >= 0.0);
        assert!(count() as i64 <= affinity().unwrap());
    }

    #[test]
    fn a_thread_that_sleeps_waits() {
        let before = waits();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(waits() > before);
    }

    #[test]
    fn quotas_are_whole_processors() {
        assert_eq!(quota_of_v2("250000 100000\n"), Some(2));
        assert_eq!(quota_of_v2("50000 100000\n"), Some(0));
        for none in ["max 100000\n", "", "1", "x y", "100 0", "-5 100"] {
            assert_eq!(quota_of_v2(none), None, "{none}");
        }
        assert_eq!(quota_of_v1("400000\n", "100000\n"), Some(4));
        assert_eq!(quota_of_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_of_v1("5\n", "0\n"), None);
    }
}
