//! Control groups: where this process stands, and groups of our own below it. Does not know what is put into them.
//!
//! Version 2 has one tree in which the kernel keeps members and counts processor time everywhere, and memory where
//! that was switched on from above. Version 1 has a tree for each thing that is counted. A hybrid machine counts in
//! version 1's trees and keeps a bare version 2 beside them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::fs::file;
use crate::process::pid_identity::ProcessId;
use crate::process::procs;

pub mod memory_limit;
pub(crate) mod own;

pub use own::{Hierarchy, OwnCgroups};

/// A group of our own. When dropped it is taken away; who is still in it goes where we are.
#[derive(Debug)]
pub struct Cgroup {
    home: OwnCgroups,
    /// Its directory in version 2's tree.
    unified: PathBuf,
    /// In version 1's tree for memory.
    memory: Option<PathBuf>,
    /// What has to be undone above it.
    opened: Option<Opened>,
}

/// A place that was made to count memory for the groups below it; for that we went into a group of our own.
#[derive(Debug)]
struct Opened {
    above: PathBuf,
    ours: PathBuf,
    what: &'static str,
}

/// What a group's processes have used, those included that are gone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CgroupUsage {
    /// Processor time of programs in microseconds.
    pub user_us: u64,
    /// Processor time of the system on their behalf, in microseconds.
    pub system_us: u64,
    /// Memory that they hold now in KiB, without what files could be read from again; none if nobody counts.
    pub memory_kib: Option<u64>,
    /// What of that they share, or have written to files in memory.
    pub files_kib: Option<u64>,
    /// Read from disks, in bytes; none if nobody counts.
    pub read_bytes: Option<u64>,
    /// Written to disks, in bytes; none if nobody counts.
    pub written_bytes: Option<u64>,
}

/// How long the processes of a group waited, in microseconds: the times in which at least one of them did (`some` of the
/// kernel's pressure stall information). Those that are gone count too.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StallTimes {
    /// For reading and writing.
    pub io_us: u64,
    /// For a processor, though they could have run.
    pub cpu_us: u64,
}

const MEMBERS: &str = "cgroup.procs";
/// In version 1.
const THREADS: &str = "tasks";
const SWITCHES: &str = "cgroup.subtree_control";
const EVENTS: &str = "memory.events";
/// Version 1's most and limits, of memory, and of it with what was swapped out.
const PEAKS: [[&str; 2]; 2] = [
    ["memory.max_usage_in_bytes", "memory.limit_in_bytes"],
    ["memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes"],
];
/// What a process may have wanted last of all that did not fit any more.
const LARGEST_PAGES: u64 = 4 << 20;

impl Cgroup {
    /// A new group below the one that this process is in. Where that may be, memory is counted for the groups within.
    /// To be called while no child of ours runs: for the counting we must be alone.
    pub fn below(home: &OwnCgroups, name: &str) -> io::Result<Cgroup> {
        let above = home.unified().ok_or(io::ErrorKind::Unsupported)?;
        sweep(above);
        home.memory().iter().for_each(|above| sweep(above));
        let unified = make(above, name)?;
        let memory = home.memory().and_then(|above| make(above, name).ok());
        let opened = match memory {
            Some(_) => None,
            None => open(above, &unified, "memory"),
        };
        Ok(Cgroup { home: home.clone(), unified, memory, opened })
    }

    /// A new group within this one, which itself has no processes.
    pub fn within(&self, name: &str) -> io::Result<Cgroup> {
        let unified = make(&self.unified, name)?;
        let memory = self.memory.as_deref().and_then(|above| make(above, name).ok());
        Ok(Cgroup { home: self.home.clone(), unified, memory, opened: None })
    }

    /// Puts a process into it; those that it has started already stay where they are.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.dirs().try_for_each(|dir| write(&dir.join(MEMBERS), &pid.to_string()))
    }

    /// How a child comes in that a `Launcher` makes: the directory of version 2, and a file of version 1 to which it writes
    /// a `0`. That is the one for threads: of a process that has but one the kernel need not keep others from changing it,
    /// which takes it 5 to 12 ms.
    pub fn entrances(&self) -> io::Result<Vec<File>> {
        let old = self.memory.iter().map(|dir| OpenOptions::new().write(true).open(dir.join(THREADS)));
        old.chain([File::open(&self.unified)]).collect()
    }

    fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.memory.iter().chain([&self.unified]).map(PathBuf::as_path)
    }

    /// The numbers of its processes, zombies not among them.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        members(&self.unified)
    }

    /// Kills all of its processes at once. An error where the kernel cannot (before Linux 5.14).
    pub fn kill(&self) -> io::Result<()> {
        write(&self.unified.join("cgroup.kill"), "1")
    }

    /// From now on its processes may hold so many bytes of memory together, with what they have written to files in memory.
    /// What cannot be read again is not swapped out to make room. Where there is none the kernel kills one of them. An
    /// error where memory is not counted.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.to_string();
        match &self.memory {
            Some(dir) => {
                write(&dir.join("memory.limit_in_bytes"), &bytes)?;
                // Not every machine counts what is swapped out.
                let _ = write(&dir.join("memory.memsw.limit_in_bytes"), &bytes);
            }
            None => {
                write(&self.unified.join("memory.max"), &bytes)?;
                let _ = write(&self.unified.join("memory.swap.max"), "0");
            }
        }
        Ok(())
    }

    /// Has the kernel killed one of its processes because they reached their limit?
    pub fn has_overrun(&self) -> bool {
        let happened = |dir, file, name| number(dir, file, name).is_some_and(|count| count > 0);
        let Some(dir) = &self.memory else {
            return happened(&self.unified, EVENTS, "oom_kill") && happened(&self.unified, EVENTS, "oom");
        };
        // How often a limit was reached is not told of both limits.
        let near = |[peak, limit]: [&str; 2]| {
            let (peak, limit) = (alone(dir, peak).unwrap_or(0), alone(dir, limit).unwrap_or(u64::MAX));
            peak.saturating_add(LARGEST_PAGES) >= limit
        };
        happened(dir, "memory.oom_control", "oom_kill") && PEAKS.into_iter().any(near)
    }

    /// Has the kernel killed one of its processes for memory, whoever's limit it was?
    pub fn was_short(&self) -> bool {
        let (dir, file) = self.memory.as_ref().map_or((&self.unified, EVENTS), |dir| (dir, "memory.oom_control"));
        number(dir, file, "oom_kill").is_some_and(|count| count > 0)
    }

    /// What its processes have used.
    pub fn used(&self) -> CgroupUsage {
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

    /// Returns how long its processes have waited; none if the kernel keeps no pressure stall information for groups (before
    /// Linux 4.20, with `psi=0`, or if it is turned off in `cgroup.pressure`).
    pub fn waits(&self) -> Option<StallTimes> {
        let stalled_us = |name| stalled(&fs::read_to_string(self.unified.join(name)).ok()?);
        Some(StallTimes { io_us: stalled_us("io.pressure")?, cpu_us: stalled_us("cpu.pressure")? })
    }

    /// Is memory counted for the groups within?
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
        // From below to above: what is switched on below cannot be switched off above.
        for dir in self.ours.parent().into_iter().chain([&*self.above]) {
            let _ = write(&dir.join(SWITCHES), &format!("-{}", self.what));
        }
        let _ = write(&self.above.join(MEMBERS), "0");
        let _ = fs::remove_dir(&self.ours);
    }
}

/// Switches the counting on for what is below `group`, which lies in `above`. A place that counts for those below it
/// has no processes of its own: only if we are alone there can we go out of its way.
fn open(above: &Path, group: &Path, what: &'static str) -> Option<Opened> {
    if !could_open(above, what) {
        return None;
    }
    let ours = make(group, "tanto").ok()?;
    let opened = Opened { above: above.to_owned(), ours, what };
    let switch = format!("+{what}");
    let done = write(&opened.ours.join(MEMBERS), "0")
        .and_then(|()| write(&above.join(SWITCHES), &switch))
        .and_then(|()| write(&group.join(SWITCHES), &switch));
    if done.is_err() {
        opened.close();
        return None;
    }
    Some(opened)
}

fn could_open(above: &Path, what: &str) -> bool {
    let offered = fs::read_to_string(above.join("cgroup.controllers")).unwrap_or_default();
    let alone = members(above).is_ok_and(|members| members == [std::process::id()]);
    alone && offered.split_ascii_whitespace().any(|one| one == what) && is_ours(above).is_ok()
}

/// What the names of groups begin with; the process that made it follows.
const PREFIX: &str = "tanto-";

/// The name for a group that this process makes, with a number of its own.
pub fn group_name(maker: ProcessId, number: u32) -> String {
    format!("{PREFIX}{maker}-{number}")
}

/// Who is in the groups that this process has made near those that we are in.
pub fn members_of(maker: ProcessId) -> Vec<u32> {
    let home = OwnCgroups::find();
    let prefix = format!("{PREFIX}{maker}-");
    let is_its =
        |dir: &PathBuf| dir.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with(&prefix));
    let groups = home.unified().into_iter().chain(home.memory()).flat_map(within).filter(is_its);
    groups.flat_map(|group| all_members(&group)).collect()
}

/// Those of the groups within too.
fn all_members(dir: &Path) -> Vec<u32> {
    let own = members(dir).unwrap_or_default();
    within(dir).fold(own, |all, dir| [all, all_members(&dir)].concat())
}

/// Takes away what killed processes have left here, as far as nobody is in it.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name().into_encoded_bytes();
        let maker = name.strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.split(|&byte| byte == b'-').next());
        let maker = maker.and_then(ProcessId::parse);
        if maker.is_some_and(|maker| procs::stat(maker.pid()).is_none_or(|look| look.process != maker)) {
            remove(&entry.path());
        }
    }
}

/// Takes a group away with those within, as far as nobody is in them.
fn remove(dir: &Path) {
    within(dir).for_each(|dir| remove(&dir));
    let _ = fs::remove_dir(dir);
}

/// Takes a group away with those within; who is in them goes to `home`.
fn dissolve(dir: &Path, home: &Path) {
    if fs::remove_dir(dir).is_err() {
        within(dir).for_each(|dir| dissolve(&dir, home));
        for pid in members(dir).unwrap_or_default() {
            let _ = write(&home.join(MEMBERS), &pid.to_string());
        }
        let _ = fs::remove_dir(dir);
    }
}

/// The groups that lie in this one.
fn within(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Makes a group; one that a killed process with our number left is as good as new.
fn make(above: &Path, name: &str) -> io::Result<PathBuf> {
    let dir = above.join(name);
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(crate::error::call_error("mkdir", Some(dir.as_os_str().as_encoded_bytes()), error))
        }
        _ => Ok(dir),
    }
}

/// These files take each value whole, in one call.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let blame = |error| crate::error::call_error("write", Some(path.as_os_str().as_encoded_bytes()), error);
    OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes())).map_err(blame)
}

fn members(dir: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(dir.join(MEMBERS))?;
    // A process of another namespace is shown as 0.
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
}

/// From a file with lines `name number`.
fn number(dir: &Path, file: &str, name: &str) -> Option<u64> {
    value(&fs::read_to_string(dir.join(file)).ok()?, name)
}

/// From a file with one number.
fn alone(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim_end().parse().ok()
}

/// From lines `name number`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// What no file holds too, in KiB: version 2 calls it `anon`, version 1 `rss`; `shmem` is that of files in memory.
fn held(stat: &str) -> Option<u64> {
    let anonymous = value(stat, "anon").or_else(|| value(stat, "rss"))?;
    Some((anonymous + value(stat, "shmem").unwrap_or(0)) / 1024)
}

/// From lines `device name=number name=number`; none if there are none.
fn total(text: &str, name: &str) -> Option<u64> {
    let numbers = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    numbers.reduce(u64::saturating_add)
}

/// From a line `some avg10=0.00 avg60=0.00 avg300=0.00 total=NUMBER`.
fn stalled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total=")?.1.parse().ok())
}

/// May we make groups in this directory and put processes there?
fn is_ours(dir: &Path) -> io::Result<()> {
    let here = dir.as_os_str().as_encoded_bytes();
    file::check_writable(here)?;
    file::check_writable(&[here, b"/", MEMBERS.as_bytes()].concat())
}

#[cfg(test)]
mod tests;
