//! Control groups below the one of this process.
//!
//! Version 2 has one hierarchy, in which the kernel keeps members, counts processor time, and counts memory where the
//! parent group enables it. Version 1 has a hierarchy for each controller. A hybrid machine uses the controllers of
//! version 1 and has a version 2 hierarchy without controllers beside them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::fs::file;
use crate::process::pid_identity::ProcessId;
use crate::process::procs;

pub mod memory_limit;
pub(crate) mod own;

pub use own::{Hierarchy, OwnCgroups};

/// A control group created by this process. Dropping it removes it and moves its processes to the group of this
/// process.
#[derive(Debug)]
pub struct Cgroup {
    home: OwnCgroups,
    /// Its directory in the hierarchy of version 2.
    unified: PathBuf,
    /// Its directory in version 1's memory hierarchy.
    memory: Option<PathBuf>,
    /// The parent group's changes, which have to be undone.
    opened: Option<Opened>,
}

/// A parent group in which the memory controller was enabled. For that, this process moved to a group of its own.
#[derive(Debug)]
struct Opened {
    parent: PathBuf,
    own: PathBuf,
    controller: &'static str,
}

/// Resources used by the processes of a group, including those that ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CgroupUsage {
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Memory in KiB, without the page cache of files on disks; `None` without a memory controller.
    pub memory_kib: Option<u64>,
    /// The part of `memory_kib` that is shared memory or files in a tmpfs.
    pub files_kib: Option<u64>,
    /// Bytes read from disks; `None` without an io controller.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks; `None` without an io controller.
    pub written_bytes: Option<u64>,
}

/// Time in which at least one process of a group was stalled, in microseconds (`some` in the kernel's pressure stall
/// information). Includes processes that ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StallTimes {
    /// Stalled on I/O.
    pub io_us: u64,
    /// Runnable, but without a processor.
    pub cpu_us: u64,
}

const MEMBERS: &str = "cgroup.procs";
/// Version 1 only.
const THREADS: &str = "tasks";
const SWITCHES: &str = "cgroup.subtree_control";
const EVENTS: &str = "memory.events";
/// Version 1's peak and limit of memory, and of memory with swap.
const PEAKS: [[&str; 2]; 2] = [
    ["memory.max_usage_in_bytes", "memory.limit_in_bytes"],
    ["memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes"],
];
/// The size of the largest single allocation that may have failed.
const LARGEST_PAGES: u64 = 4 << 20;

impl Cgroup {
    /// Creates a group below the one of this process and enables the memory controller for its child groups, if
    /// possible. Call it before starting children: the controller can be enabled only while this process is alone in
    /// its group.
    pub fn below(home: &OwnCgroups, name: &str) -> io::Result<Cgroup> {
        let parent = home.unified().ok_or(io::ErrorKind::Unsupported)?;
        sweep(parent);
        home.memory().iter().for_each(|parent| sweep(parent));
        let unified = make(parent, name)?;
        let memory = home.memory().and_then(|parent| make(parent, name).ok());
        let opened = match memory {
            Some(_) => None,
            None => enable_controller(parent, &unified, "memory"),
        };
        Ok(Cgroup { home: home.clone(), unified, memory, opened })
    }

    /// Creates a child group. This group must have no processes of its own.
    pub fn within(&self, name: &str) -> io::Result<Cgroup> {
        let unified = make(&self.unified, name)?;
        let memory = self.memory.as_deref().and_then(|parent| make(parent, name).ok());
        Ok(Cgroup { home: self.home.clone(), unified, memory, opened: None })
    }

    /// Moves a process into the group. Children that it started before stay in their group.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.dirs().try_for_each(|dir| write(&dir.join(MEMBERS), &pid.to_string()))
    }

    /// Opens the files with which a `Launcher` places children in the group: the directory of version 2, and version
    /// 1's `tasks`, to which a child writes `0`. Writing to `cgroup.procs`
    /// instead would lock all threads of the machine, which takes 5 to 12 ms.
    pub fn join_files(&self) -> io::Result<Vec<File>> {
        let old = self.memory.iter().map(|dir| OpenOptions::new().write(true).open(dir.join(THREADS)));
        old.chain([File::open(&self.unified)]).collect()
    }

    fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.memory.iter().chain([&self.unified]).map(PathBuf::as_path)
    }

    /// Returns the process ids of its members, without zombies.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        members(&self.unified)
    }

    /// Kills all of its processes. Fails before Linux 5.14.
    pub fn kill(&self) -> io::Result<()> {
        write(&self.unified.join("cgroup.kill"), "1")
    }

    /// Limits the memory of its processes, including files they write to a tmpfs, and disables swapping for them. At
    /// the limit, the kernel kills one of them. Fails without a memory controller.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.to_string();
        match &self.memory {
            Some(dir) => {
                write(&dir.join("memory.limit_in_bytes"), &bytes)?;
                // Swap is not counted on every machine.
                let _ = write(&dir.join("memory.memsw.limit_in_bytes"), &bytes);
            }
            None => {
                write(&self.unified.join("memory.max"), &bytes)?;
                let _ = write(&self.unified.join("memory.swap.max"), "0");
            }
        }
        Ok(())
    }

    /// Returns whether the kernel killed one of its processes because the group reached its limit.
    pub fn exceeded_limit(&self) -> bool {
        let happened = |dir, file, name| number(dir, file, name).is_some_and(|count| count > 0);
        let Some(dir) = &self.memory else {
            return happened(&self.unified, EVENTS, "oom_kill") && happened(&self.unified, EVENTS, "oom");
        };
        // Version 1 does not say which of the two limits was reached.
        let near = |[peak, limit]: [&str; 2]| {
            let (peak, limit) = (alone(dir, peak).unwrap_or(0), alone(dir, limit).unwrap_or(u64::MAX));
            peak.saturating_add(LARGEST_PAGES) >= limit
        };
        happened(dir, "memory.oom_control", "oom_kill") && PEAKS.into_iter().any(near)
    }

    /// Returns whether the kernel killed one of its processes for lack of memory, at whichever limit.
    pub fn had_oom_kill(&self) -> bool {
        let (dir, file) = self.memory.as_ref().map_or((&self.unified, EVENTS), |dir| (dir, "memory.oom_control"));
        number(dir, file, "oom_kill").is_some_and(|count| count > 0)
    }

    pub fn usage(&self) -> CgroupUsage {
        let text = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let memory = text(self.memory.as_deref().unwrap_or(&self.unified), "memory.stat");
        let io = text(&self.unified, "io.stat");
        let cpu = text(&self.unified, "cpu.stat");
        CgroupUsage {
            user_us: value(&cpu, "user_usec").unwrap_or(0),
            system_us: value(&cpu, "system_usec").unwrap_or(0),
            memory_kib: held(&memory),
            files_kib: value(&memory, "shmem").map(|bytes| bytes / 1024),
            read_bytes: total(&io, "rbytes="),
            written_bytes: total(&io, "wbytes="),
        }
    }

    /// Returns the stall times; `None` if the kernel keeps no pressure stall information for groups (before Linux 4.20,
    /// with `psi=0`, or disabled in `cgroup.pressure`).
    pub fn stall_times(&self) -> Option<StallTimes> {
        let stalled_us = |name| stalled(&fs::read_to_string(self.unified.join(name)).ok()?);
        Some(StallTimes { io_us: stalled_us("io.pressure")?, cpu_us: stalled_us("cpu.pressure")? })
    }

    /// Returns whether the memory controller is enabled for child groups.
    pub fn counts_memory(&self) -> bool {
        self.memory.is_some() || self.opened.is_some()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(opened) = &self.opened {
            opened.close();
        }
        let homes = self.memory.as_ref().and(self.home.memory()).into_iter().chain(self.home.unified());
        for (dir, home) in self.dirs().zip(homes) {
            dissolve(dir, home);
        }
    }
}

impl Opened {
    fn close(&self) {
        // From the bottom up: a controller that is enabled in a child group cannot be disabled in the parent.
        for dir in self.own.parent().into_iter().chain([&*self.parent]) {
            let _ = write(&dir.join(SWITCHES), &format!("-{}", self.controller));
        }
        let _ = write(&self.parent.join(MEMBERS), "0");
        let _ = fs::remove_dir(&self.own);
    }
}

/// Enables a controller for the child groups of `group`, a child of `parent`. A group with enabled controllers cannot
/// have processes of its own, so this process moves away; it must be the only one.
fn enable_controller(parent: &Path, group: &Path, controller: &'static str) -> Option<Opened> {
    if !can_enable(parent, controller) {
        return None;
    }
    let own = make(group, "tanto").ok()?;
    let opened = Opened { parent: parent.to_owned(), own, controller };
    let switch = format!("+{controller}");
    let done = write(&opened.own.join(MEMBERS), "0")
        .and_then(|()| write(&parent.join(SWITCHES), &switch))
        .and_then(|()| write(&group.join(SWITCHES), &switch));
    if done.is_err() {
        opened.close();
        return None;
    }
    Some(opened)
}

fn can_enable(parent: &Path, controller: &str) -> bool {
    let offered = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    let alone = members(parent).is_ok_and(|members| members == [std::process::id()]);
    alone && offered.split_ascii_whitespace().any(|one| one == controller) && is_ours(parent).is_ok()
}

/// Prefix of the names of groups. The id of the process that created the group follows.
const PREFIX: &str = "tanto-";

pub fn group_name(maker: ProcessId, number: u32) -> String {
    format!("{PREFIX}{maker}-{number}")
}

/// Returns the process ids in the groups that `maker` created next to the groups of this process.
pub fn members_of(maker: ProcessId) -> Vec<u32> {
    let home = OwnCgroups::find();
    let prefix = format!("{PREFIX}{maker}-");
    let is_its =
        |dir: &PathBuf| dir.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with(&prefix));
    let groups = home.unified().into_iter().chain(home.memory()).flat_map(within).filter(is_its);
    groups.flat_map(|group| all_members(&group)).collect()
}

/// Includes the members of child groups.
fn all_members(dir: &Path) -> Vec<u32> {
    let own = members(dir).unwrap_or_default();
    within(dir).fold(own, |all, dir| [all, all_members(&dir)].concat())
}

/// Removes empty groups left by processes that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().into_encoded_bytes();
        let maker = name.strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.split(|&byte| byte == b'-').next());
        let maker = maker.and_then(ProcessId::parse);
        if maker.is_some_and(|maker| procs::stat(maker.pid()).is_none_or(|look| look.process != maker)) {
            remove(&entry.path());
        }
    }
}

/// Removes a group and its child groups, unless they have members.
fn remove(dir: &Path) {
    within(dir).for_each(|dir| remove(&dir));
    let _ = fs::remove_dir(dir);
}

/// Removes a group and its child groups; their members move to `home`.
fn dissolve(dir: &Path, home: &Path) {
    if fs::remove_dir(dir).is_err() {
        within(dir).for_each(|dir| dissolve(&dir, home));
        for pid in members(dir).unwrap_or_default() {
            let _ = write(&home.join(MEMBERS), &pid.to_string());
        }
        let _ = fs::remove_dir(dir);
    }
}

fn within(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Creates a group, or reuses one that a killed process with the same id left behind.
fn make(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let dir = parent.join(name);
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(crate::error::call_error("mkdir", Some(dir.as_os_str().as_encoded_bytes()), error))
        }
        _ => Ok(dir),
    }
}

/// Writes a value in one call, as these files require.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let blame = |error| crate::error::call_error("write", Some(path.as_os_str().as_encoded_bytes()), error);
    OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes())).map_err(blame)
}

fn members(dir: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(dir.join(MEMBERS))?;
    // Processes of another PID namespace are shown as 0.
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
}

/// Reads a value from a file with lines `name number`.
fn number(dir: &Path, file: &str, name: &str) -> Option<u64> {
    value(&fs::read_to_string(dir.join(file)).ok()?, name)
}

/// Reads a file that contains one number.
fn alone(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim_end().parse().ok()
}

/// Finds a value in lines `name number`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Memory without the page cache of files on disks, in KiB: `anon` (version 2) or `rss` (version 1), plus `shmem`.
fn held(stat: &str) -> Option<u64> {
    let anonymous = value(stat, "anon").or_else(|| value(stat, "rss"))?;
    Some((anonymous + value(stat, "shmem").unwrap_or(0)) / 1024)
}

/// Sums a value over lines `device name=number name=number`; `None` without lines.
fn total(text: &str, name: &str) -> Option<u64> {
    let numbers = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    numbers.reduce(u64::saturating_add)
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=NUMBER`.
fn stalled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok())
}

/// Checks that this process may create groups in a directory and move processes there.
fn is_ours(dir: &Path) -> io::Result<()> {
    let here = dir.as_os_str().as_encoded_bytes();
    file::check_writable(here)?;
    file::check_writable(&[here, b"/", MEMBERS.as_bytes()].concat())
}

#[cfg(test)]
mod tests;
