//! Processes of the machine, from `/proc`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::memory::page_size;

use crate::process::pid_identity::ProcessId;

/// A snapshot of `/proc/PID/stat`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessStat {
    pub process: ProcessId,
    /// The parent's process id.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The kernel's letter: `R`unning, `S`leeping, waiting for a `D`isk, s`T`opped, `Z`ombie.
    pub state: u8,
    pub threads: u32,
    /// Processor time of the process and its waited-for children in microseconds, with a resolution of 10 ms.
    pub cpu_us: u64,
    /// Page faults of waited-for children: each child has some.
    pub waited_faults: u64,
    /// Resident memory in KiB, with shared pages.
    pub rss_kib: u64,
    /// The program's name, at most 15 bytes.
    pub name: Vec<u8>,
}

impl ProcessStat {
    /// Returns whether it has ended and waits to be reaped.
    pub fn is_gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Returns whether a signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Command lines are cut at this length.
const MAX_COMMAND_LINE: u64 = 4096;
/// Environments are read up to this length.
const MAX_ENVIRONMENT: u64 = 4 << 20;

/// Returns the state of a process; `None` if it does not exist.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns all visible processes, in no order. Processes that start or end meanwhile may be missing.
pub fn all() -> io::Result<Vec<ProcessStat>> {
    Ok(numbers("/proc")?.into_iter().filter_map(stat).collect())
}

/// Returns the names in a directory that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<u32>> {
    let names = fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// Parses the fields after the name, which is in parentheses and can contain any byte.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessStat> {
    let (begins, ends) = (stat.iter().position(|&b| b == b'(')?, stat.iter().rposition(|&b| b == b')')?);
    let fields: Vec<&str> = std::str::from_utf8(&stat[ends + 1..]).ok()?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let small = |at: usize| fields.get(at)?.parse::<u32>().ok();
    let ticks = (11..=14).map(|at| number(at).unwrap_or(0)).fold(0, u64::saturating_add);
    Some(ProcessStat {
        process: ProcessId::new(pid, number(19)?),
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

/// User space sees 100 ticks per second.
const MICROSECONDS_PER_TICK: u64 = 10_000;

fn page_kib() -> u64 {
    page_size() as u64 / 1024
}

/// Returns the children of a process with this number of threads; `None` if it does not exist, or the kernel does not
/// list children (`CONFIG_PROC_CHILDREN`).
pub fn children(pid: u32, threads: u32) -> Option<Vec<u32>> {
    if threads <= 1 {
        return listed(pid, pid);
    }
    let threads = numbers(&format!("/proc/{pid}/task")).ok()?;
    Some(threads.into_iter().filter_map(|thread| listed(pid, thread)).flatten().collect())
}

/// Returns the children of a single-threaded process, also if the kernel does not list them.
pub fn children_of(pid: u32) -> Vec<u32> {
    let among_all =
        || all().unwrap_or_default().iter().filter(|it| it.parent == pid).map(|it| it.process.pid()).collect();
    children(pid, 1).unwrap_or_else(among_all)
}

fn listed(pid: u32, thread: u32) -> Option<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// Returns whether the kernel lists children. If not, trees are found by reading all processes.
pub fn lists_children() -> bool {
    let own = std::process::id();
    listed(own, own).is_some()
}

/// Returns these processes and their descendants, parents first, with their depth. Processes that end meanwhile may be
/// missing, with their descendants.
pub fn trees(roots: &[u32]) -> Vec<(u32, ProcessStat)> {
    let mut found = Vec::new();
    if roots.is_empty() {
        // The common case: almost every command leaves no processes behind.
        return found;
    }
    if lists_children() {
        let mut ahead: Vec<(u32, u32)> = roots.iter().rev().map(|&pid| (0, pid)).collect();
        while let Some((depth, pid)) = ahead.pop() {
            let Some(process) = stat(pid) else { continue };
            let below = children(pid, process.threads).unwrap_or_default();
            ahead.extend(below.into_iter().rev().map(|pid| (depth + 1, pid)));
            found.push((depth, process));
            if found.len() >= MAX_TREE_SIZE {
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

/// Larger trees are cut.
const MAX_TREE_SIZE: usize = 1 << 16;

fn collect(all: &[ProcessStat], root: u32, depth: u32, found: &mut Vec<(u32, ProcessStat)>) {
    let Some(process) = all.iter().find(|it| it.process.pid() == root) else { return };
    found.push((depth, process.clone()));
    for child in all.iter().filter(|it| it.parent == root) {
        // Process ids may be reused meanwhile, so that there could be a cycle.
        if depth < 1000 && found.len() < MAX_TREE_SIZE {
            collect(all, child.process.pid(), depth + 1, found);
        }
    }
}

/// Returns the command line with spaces between the arguments; `None` for zombies and kernel threads.
pub fn command_line(pid: u32) -> Option<Vec<u8>> {
    let mut line = read_file(pid, "cmdline", MAX_COMMAND_LINE)?;
    while line.last() == Some(&0) {
        line.pop();
    }
    line.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    Some(line).filter(|line| !line.is_empty())
}

/// Returns the current directory, if this process may read it.
pub fn current_dir(pid: u32) -> Option<Vec<u8>> {
    Some(fs::read_link(format!("/proc/{pid}/cwd")).ok()?.into_os_string().into_vec())
}

/// Returns the bytes written so far, to any file, if this process may read that.
pub fn written_bytes(pid: u32) -> Option<u64> {
    let text = String::from_utf8(read_file(pid, "io", 4096)?).ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// Returns the anonymous, shared and swapped memory in KiB, with shared pages in proportion; `None` if this process may
/// not read it.
pub fn anonymous_kib(pid: u32) -> Option<u64> {
    let text = String::from_utf8(read_file(pid, "smaps_rollup", 4096)?).ok()?;
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    // The parts exist since Linux 5.4.
    let held = value("Pss_Anon:").map(|anonymous: u64| anonymous + value("Pss_Shmem:").unwrap_or(0));
    Some(held.or_else(|| value("Pss:"))? + value("SwapPss:").unwrap_or(0))
}

/// During `exec`, a process has no environment, or the rest of the old one. The environment is read again up to this
/// often.
const MAX_READS_DURING_EXEC: u32 = 200;
const EXEC_PAUSE: Duration = Duration::from_micros(100);
/// A process that calls `exec` repeatedly can be caught in the middle each time, so an empty environment is believed
/// only after this many reads.
const EMPTY_READS: u32 = 8;

/// Returns the value of a variable in the environment with which the process was started, if this process may read it.
pub fn initial_env_var(pid: u32, name: &[u8]) -> Option<Vec<u8>> {
    let value = |one: &[u8]| Some(one.strip_prefix(name)?.strip_prefix(b"=")?.to_vec());
    let (mut before, mut same) = (None, 0);
    for _ in 0..MAX_READS_DURING_EXEC {
        let environment = read_file(pid, "environ", MAX_ENVIRONMENT)?;
        if let Some(value) = environment.split(|&byte| byte == 0).find_map(value) {
            return Some(value);
        }
        let is_empty = environment.is_empty();
        if is_in_exec(pid) {
            std::thread::sleep(EXEC_PAUSE);
        } else if before.as_ref() == Some(&environment) {
            same += 1;
            if !is_empty || same == EMPTY_READS {
                return None;
            }
            std::thread::sleep(EXEC_PAUSE);
        }
        before = Some(environment);
    }
    None
}

/// Returns whether it is in the middle of `exec`, without a command line.
fn is_in_exec(pid: u32) -> bool {
    let has_line = read_file(pid, "cmdline", 1).is_none_or(|line| !line.is_empty());
    // Kernel threads never have one.
    !has_line && stat(pid).is_some_and(|it| !it.is_gone() && !KERNEL_THREAD_PARENTS.contains(&it.parent))
}

/// The parents of kernel threads.
const KERNEL_THREAD_PARENTS: [u32; 2] = [0, 2];

fn read_file(pid: u32, file: &str, most: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/{file}")).ok()?.take(most).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Sends a signal to this process, never to a later one with the same id. Returns false if it is gone.
pub fn signal(process: ProcessId, signal: i32) -> io::Result<bool> {
    let (handle, pid) = (pidfd(process.pid()), raw_pid(process.pid()));
    // The pidfd was opened before, so it refers to the process that is checked here.
    if stat(process.pid()).is_none_or(|it| it.process != process) {
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

/// Opens a pidfd, which is readable once the process has ended. `None` if it does not exist, or before Linux 5.3.
pub fn pidfd(pid: u32) -> Option<OwnedFd> {
    pidfd_open(raw_pid(pid), PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests;
