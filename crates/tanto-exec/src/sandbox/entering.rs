//! Runs a command in a mounted sandbox: in PID, mount, IPC, UTS and network namespaces of its own.
//!
//! Three processes precede the command. The outer one stays in the host's namespaces, and passes the exit code on. The
//! first process inside is the init process: it reaps orphans and, when the command has ended, reports the remaining
//! processes, which the kernel kills with it. Each of them ends with its parent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tanto_sys::error;
use tanto_sys::fs::mounts::{self, VirtualFs};
use tanto_sys::fs::{dir_tree, page_cache};
use tanto_sys::process::ExitStatus;
use tanto_sys::process::lifecycle;
use tanto_sys::process::namespaces::{self, Namespace};
use tanto_sys::process::procs;

use super::{Report, SandboxDir, close, mount, text, unmount};

/// How a command enters a sandbox.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Mounts the sandbox anew before.
    pub fresh: bool,
    /// Shell line that runs outside after mounting, with the sandbox's root as `$1`.
    pub hook: Option<String>,
    /// Keeps the host's network.
    pub network: bool,
    /// Reports the size of all changes if the command succeeds.
    pub measures: bool,
}

/// Exit code of a command that could not be started.
pub(super) const EXIT_NOT_STARTED: i32 = 126;
const SHELL: &str = "/bin/sh";
/// Maximum length of a reported command line.
const MOST_SHOWN: usize = 200;

/// Runs a shell line in the sandbox. Returns its exit code; 128 + N if signal N killed it.
pub fn enter(place: &SandboxDir, entry: &Entry, line: &str) -> i32 {
    run_outside(place, entry, line).unwrap_or_else(|error| report_fault(place, &error))
}

/// Reports that a command could not start for a reason of the machine, and returns its exit code.
pub fn report_fault(place: &SandboxDir, error: &io::Error) -> i32 {
    let fault = String::from_utf8_lossy(&error::text(error)).into_owned();
    eprintln!("tanto: the sandbox: {fault}");
    // If the report cannot be written, the message above has to do.
    let _ = fs::write(place.report_path(), text::reported(&Report { fault: Some(fault), ..Report::default() }));
    EXIT_NOT_STARTED
}

/// Mounts the sandbox for later commands. Returns an exit code.
pub fn mount_only(place: &SandboxDir, entry: &Entry) -> i32 {
    let result = lifecycle::exit_with_parent().and_then(|()| mount_with_hook(place, entry));
    result.map_or_else(|error| report_fault(place, &error), |()| report_success(place))
}

/// Reports success without running a command.
pub fn report_success(place: &SandboxDir) -> i32 {
    File::create(place.report_path()).map_or_else(|error| report_fault(place, &error), |_| 0)
}

/// Unmounts the sandbox. Returns an exit code.
pub fn unmount_only(place: &SandboxDir) -> i32 {
    match unmount(place) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tanto: the sandbox: {}", String::from_utf8_lossy(&error::text(&error)));
            1
        }
    }
}

fn run_outside(place: &SandboxDir, entry: &Entry, line: &str) -> io::Result<i32> {
    lifecycle::exit_with_parent()?;
    let report = File::create(place.report_path())?;
    if entry.fresh {
        mount_with_hook(place, entry)?;
    }
    // Opened before its path becomes unreachable.
    let scratch = entry.measures.then(|| File::open(place.scratch())).transpose()?;
    let mut separate = vec![Namespace::Mounts, Namespace::Processes, Namespace::Ipc, Namespace::Names];
    separate.extend((!entry.network).then_some(Namespace::Network));
    namespaces::unshare(&separate)?;
    lifecycle::obey_termination_signals(false);
    let Some(child) = lifecycle::fork()? else {
        let code = run_init(place, entry, line, &report).unwrap_or_else(|error| {
            let fault = String::from_utf8_lossy(&error::text(&error)).into_owned();
            eprintln!("tanto: the sandbox: {fault}");
            write_report(&report, &Report { fault: Some(fault), ..Report::default() });
            EXIT_NOT_STARTED
        });
        std::process::exit(code);
    };
    match lifecycle::wait_and_reap(child)? {
        ExitStatus::Code(code) => {
            if let Some(scratch) = scratch.filter(|_| code == 0) {
                write_report(&report, &Report { written_kib: written_kib(&scratch).ok(), ..Report::default() });
            }
            Ok(code)
        }
        ExitStatus::Killed { signal, .. } => {
            write_report(&report, &Report { signal: Some(signal), ..Report::default() });
            Ok(128 + signal)
        }
    }
}

/// Mounts the sandbox and runs the user's hook, which may write even to a read-only root.
pub(super) fn mount_with_hook(place: &SandboxDir, entry: &Entry) -> io::Result<()> {
    let plan = place.read_plan()?;
    mount(place, &plan)?;
    run_hook(place, entry)?;
    close(place, &plan)
}

fn written_kib(dir: &File) -> io::Result<u64> {
    lifecycle::change_dir(dir)?;
    let here = Path::new(".");
    Ok(page_cache::tmpfs_used_kib(here).unwrap_or_else(|| dir_tree::disk_usage_kib(here)))
}

/// Runs `client_prepare_chroot` outside the sandbox. It may mount more there.
fn run_hook(place: &SandboxDir, entry: &Entry) -> io::Result<()> {
    let Some(line) = &entry.hook else { return Ok(()) };
    let mut shell = Command::new(SHELL);
    shell.args(["-c", line, "client_prepare_chroot"]).arg(place.root());
    // Standard output may be a protocol.
    let status = shell.stdout(io::stderr().as_fd().try_clone_to_owned()?).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("client_prepare_chroot: {status}"))) }
}

/// The init process of the sandbox.
fn run_init(place: &SandboxDir, entry: &Entry, line: &str, report: &File) -> io::Result<i32> {
    lifecycle::exit_with_parent()?;
    mounts::make_all_private()?;
    enter_root(place)?;
    if !entry.network {
        namespaces::bring_up_loopback()?;
    }
    let Some(leader) = lifecycle::fork()? else {
        let error = namespaces::drop_capabilities().err().unwrap_or_else(|| {
            lifecycle::obey_termination_signals(true);
            Command::new(SHELL).args(["-c", line]).exec()
        });
        eprintln!("tanto: {SHELL}: {}", String::from_utf8_lossy(&error::text(&error)));
        std::process::exit(EXIT_NOT_STARTED);
    };
    let status = lifecycle::wait_and_reap(leader)?;
    let signal = match status {
        ExitStatus::Killed { signal, .. } => Some(signal),
        ExitStatus::Code(_) => None,
    };
    write_report(report, &Report { signal, left: remaining_commands()?, ..Report::default() });
    Ok(match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Killed { signal, .. } => 128 + signal,
    })
}

/// Changes the root to the sandbox, with a /proc of its own processes.
pub(super) fn enter_root(place: &SandboxDir) -> io::Result<()> {
    // Before the host's /proc disappears: the kernel requires a visible one.
    mounts::mount_virtual(VirtualFs::Proc, &place.root().join("proc"), "")?;
    mounts::pivot_root(&place.root())
}

/// Returns the command lines of all other living processes.
fn remaining_commands() -> io::Result<Vec<String>> {
    let own = std::process::id();
    let others = procs::all()?.into_iter().filter(|look| look.process.pid() != own && !look.is_gone());
    let shown = |look: procs::ProcessStat| {
        let line = procs::command_line(look.process.pid()).unwrap_or(look.name);
        String::from_utf8_lossy(&line[..line.len().min(MOST_SHOWN)]).into_owned()
    };
    Ok(others.map(shown).collect())
}

/// A missing report is not worth failing for.
fn write_report(mut report: &File, content: &Report) {
    let _ = report.write_all(text::reported(content).as_bytes());
}
