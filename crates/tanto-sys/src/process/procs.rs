//! The processes of this machine, as `/proc` shows them. Does not know whose they are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::memory::page_size;

use crate::process::pid_identity::ProcessId;

/// A process as it was at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessStat {
    /// Which.
    pub process: ProcessId,
    /// The number of the one above it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// What it does, as the kernel's letter: `R`uns, `S`leeps, waits for a `D`isk, is s`T`opped, is a `Z`ombie.
    pub state: u8,
    /// Threads that it has.
    pub threads: u32,
    /// Processor time of it and of those children that it has waited for, in microseconds; counted in hundredths of
    /// a second.
    pub cpu_us: u64,
    /// Page faults of those children that it has waited for: each has some.
    pub waited_faults: u64,
    /// Memory that it holds now, in KiB; pages that it shares count in full.
    pub rss_kib: u64,
    /// The program's name, at most 15 bytes.
    pub name: Vec<u8>,
}

impl ProcessStat {
    /// Has it ended, and only nobody has asked how?
    pub fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Was it stopped by a signal or a debugger?
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Longer command lines are cut; each is for the eye.
const LONGEST_LINE: u64 = 4096;
/// What one process may have of environment that is looked through.
const LARGEST_ENVIRONMENT: u64 = 4 << 20;

/// What this process is like now; none if there is none.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes that we may see, in no order. Those that come and go meanwhile may be missing.
pub fn all() -> io::Result<Vec<ProcessStat>> {
    Ok(numbers("/proc")?.into_iter().filter_map(stat).collect())
}

/// The names in this directory that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// The fields are counted after the name, which stands in parentheses and may contain anything.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessStat> {
    let (begins, ends) = (stat.iter().position(|&b| b == b'(')?, stat.iter().rposition(|&b| b == b')')?);
    let fields: Vec<&str> = std::str::from_utf8(&stat[ends + 1..]).ok()?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let small = |at: usize| fields.get(at)?.parse::<u32>().ok();
    let ticks = (11..=14).map(|at| number(at).unwrap_or(0)).fold(0, u64::saturating_add);
    Some(ProcessStat {
        process: ProcessId::known(pid, number(19)?),
        parent: small(1)?,
        group: small(2).unwrap_or(0),
        state: *fields.first()?.as_bytes().first()?,
        threads: small(17).unwrap_or(1),
        cpu_us: ticks.saturating_mul(MICROSECONDS_PER_TICK),
        waited_faults: number(8).unwrap_or(0).saturating_add(number(10).unwrap_or(0)),
        rss_kib: number(21).unwrap_or(0).saturating_mul(page_kib()),
        name: stat.get(begins + 1..ends)?.to_vec(),
    })
}

/// Linux counts a hundred ticks a second in all that users see, whatever it counts inside.
const MICROSECONDS_PER_TICK: u64 = 10_000;

fn page_kib() -> u64 {
    page_size() as u64 / 1024
}

/// The children of a process with so many threads; none if there is no such process, or the kernel does not list
/// them (`CONFIG_PROC_CHILDREN`).
pub fn children(pid: u32, threads: u32) -> Option<Vec<u32>> {
    if threads <= 1 {
        return listed(pid, pid);
    }
    let threads = numbers(&format!("/proc/{pid}/task")).ok()?;
    Some(threads.into_iter().filter_map(|thread| listed(pid, thread)).flatten().collect())
}

/// The children of a process with one thread, however the kernel tells of them.
pub fn children_of(pid: u32) -> Vec<u32> {
    let among_all =
        || all().unwrap_or_default().iter().filter(|it| it.parent == pid).map(|it| it.process.pid()).collect();
    children(pid, 1).unwrap_or_else(among_all)
}

fn listed(pid: u32, thread: u32) -> Option<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// Does the kernel list a process's children? If not, a tree is found by a look at all processes.
pub fn lists_children() -> bool {
    let own = std::process::id();
    listed(own, own).is_some()
}

/// These processes and all below them, each before those below it, with how far below it is. One that ends meanwhile
/// may be missing, with those below it.
pub fn trees(roots: &[u32]) -> Vec<(u32, ProcessStat)> {
    let mut found = Vec::new();
    if roots.is_empty() {
        // Asked for each command that leaves nothing behind: that is nearly all of them.
        return found;
    }
    if lists_children() {
        let mut ahead: Vec<(u32, u32)> = roots.iter().rev().map(|&pid| (0, pid)).collect();
        while let Some((depth, pid)) = ahead.pop() {
            let Some(process) = stat(pid) else { continue };
            let below = children(pid, process.threads).unwrap_or_default();
            ahead.extend(below.into_iter().rev().map(|pid| (depth + 1, pid)));
            found.push((depth, process));
            if found.len() >= MOST_PROCESSES {
                break;
            }
        }
        return found;
    }
    let all = all().unwrap_or_default();
    for &root in roots {
        collect(&all, root, 0, &mut found);
    }
    found
}

/// A tree that is larger is cut: whoever looks must not take longer than what is looked at.
const MOST_PROCESSES: usize = 1 << 16;

fn collect(all: &[ProcessStat], root: u32, depth: u32, found: &mut Vec<(u32, ProcessStat)>) {
    let Some(process) = all.iter().find(|look| look.process.pid() == root) else { return };
    found.push((depth, process.clone()));
    for child in all.iter().filter(|look| look.parent == root) {
        // Numbers may be taken again while we look, so that there could be a ring.
        if depth < 1000 && found.len() < MOST_PROCESSES {
            collect(all, child.process.pid(), depth + 1, found);
        }
    }
}

/// The words of its command line with blanks between; none for one that has ended or belongs to the kernel.
pub fn command_line(pid: u32) -> Option<Vec<u8>> {
    let mut line = begin_of(pid, "cmdline", LONGEST_LINE)?;
    while line.last() == Some(&0) {
        line.pop();
    }
    line.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    Some(line).filter(|line| !line.is_empty())
}

/// The directory that it is in, if we may know it.
pub fn current_dir(pid: u32) -> Option<Vec<u8>> {
    Some(fs::read_link(format!("/proc/{pid}/cwd")).ok()?.into_os_string().into_vec())
}

/// Bytes that it has written so far, wherever to, if we may know it.
pub fn written_bytes(pid: u32) -> Option<u64> {
    let text = String::from_utf8(begin_of(pid, "io", 4096)?).ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// Memory that this process alone holds, and its part of what it shares, in KiB: without what could be read from files
/// again, with what was swapped out. None if we may not know it.
pub fn anonymous_kib(pid: u32) -> Option<u64> {
    let text = String::from_utf8(begin_of(pid, "smaps_rollup", 4096)?).ok()?;
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    // Before Linux 5.4 the parts are not told.
    let held = value("Pss_Anon:").map(|anonymous: u64| anonymous + value("Pss_Shmem:").unwrap_or(0));
    Some(held.or_else(|| value("Pss:"))? + value("SwapPss:").unwrap_or(0))
}

/// A program that is just being put in the place of another has no environment yet, and that of the other can end in the
/// midst of a look: for so many looks at most.
const BEGINNING_LOOKS: u32 = 200;
const BEGINNING: Duration = Duration::from_micros(100);
/// Of one that puts another program in its place again and again, each look may meet another beginning: none is believed
/// to have been given nothing at all before it was seen so this often.
const EMPTY_LOOKS: u32 = 8;

/// The value that this name had in the environment that it was started with, if we may know it.
pub fn initial_env_var(pid: u32, name: &[u8]) -> Option<Vec<u8>> {
    let value = |one: &[u8]| Some(one.strip_prefix(name)?.strip_prefix(b"=")?.to_vec());
    let (mut before, mut same) = (None, 0);
    for _ in 0..BEGINNING_LOOKS {
        let environment = begin_of(pid, "environ", LARGEST_ENVIRONMENT)?;
        if let Some(value) = environment.split(|&byte| byte == 0).find_map(value) {
            return Some(value);
        }
        let is_empty = environment.is_empty();
        if is_beginning(pid) {
            std::thread::sleep(BEGINNING);
        } else if before.as_ref() == Some(&environment) {
            same += 1;
            if !is_empty || same == EMPTY_LOOKS {
                return None;
            }
            std::thread::sleep(BEGINNING);
        }
        before = Some(environment);
    }
    None
}

/// The kernel is putting another program in its place: not even its command line can be seen.
fn is_beginning(pid: u32) -> bool {
    let has_line = begin_of(pid, "cmdline", 1).is_none_or(|line| !line.is_empty());
    // Threads of the kernel never have one.
    !has_line && stat(pid).is_some_and(|look| !look.is_gone() && !KERNELS.contains(&look.parent))
}

/// What is above threads of the kernel.
const KERNELS: [u32; 2] = [0, 2];

fn begin_of(pid: u32, file: &str, most: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/{file}")).ok()?.take(most).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Sends a signal to this process and to no later one with its number. False if it is gone.
pub fn signal(process: ProcessId, signal: i32) -> io::Result<bool> {
    let (handle, pid) = (pidfd(process.pid()), raw_pid(process.pid()));
    // The handle was there before: if the process is the right one now, the handle is its.
    if stat(process.pid()).is_none_or(|look| look.process != process) {
        return Ok(false);
    }
    let Some(kind) = Signal::from_named_raw(signal) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let sent = match &handle {
        Some(handle) => pidfd_send_signal(handle, kind),
        // Before Linux 5.3.
        None => kill_process(pid, kind),
    };
    match sent {
        Err(Errno::SRCH) => Ok(false),
        sent => Ok(sent.map(|()| true)?),
    }
}

pub(crate) fn raw_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("process ids are positive")
}

/// A descriptor that means this process, whatever becomes of its number, and is readable once it has ended. None if
/// there is no such process, or before Linux 5.3.
pub fn pidfd(pid: u32) -> Option<OwnedFd> {
    pidfd_open(raw_pid(pid), PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests;
