//! Runs a command in a sandbox that is mounted: nobody else's processes, no network, and nothing to be written but what
//! is its own. Does not know what the command is for.
//!
//! Three processes stand between who wants the command and the command. The outer one stays in the machine and hands
//! the exit code on. The first process within sees to what loses its parents, and when the command has ended it tells who is
//! left; with its end the kernel ends them. Each ends with the one that made it.

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

use super::{Place, Report, close, mount, text, unmount};

/// How a command enters.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The sandbox is mounted anew before.
    pub fresh: bool,
    /// A line for the shell that is run outside when it is mounted, with the sandbox's root as `$1`.
    pub hook: Option<String>,
    /// The command may use the machine's network.
    pub network: bool,
    /// When it has succeeded, it is told how much was written in the sandbox.
    pub measures: bool,
}

/// What a command is said to have exited with that never began.
pub(super) const NOT_BEGUN: i32 = 126;
const SHELL: &str = "/bin/sh";
/// Of a process's command line, so much is told.
const MOST_SHOWN: usize = 200;

/// Runs a line of the shell in the sandbox. The exit code is the command's, 128 and more if a signal ended it.
pub fn enter(place: &Place, entry: &Entry, line: &str) -> i32 {
    outer(place, entry, line).unwrap_or_else(|error| fault(place, &error))
}

/// A command cannot begin, and that is the machine's fault. Says what it is said to have exited with.
pub fn fault(place: &Place, error: &io::Error) -> i32 {
    let fault = String::from_utf8_lossy(&error::text(error)).into_owned();
    eprintln!("tanto: the sandbox: {fault}");
    // Where nothing can be written, the message above is all there is.
    let _ = fs::write(place.report_path(), text::reported(&Report { fault: Some(fault), ..Report::default() }));
    NOT_BEGUN
}

/// The sandbox is mounted, for those who enter later. The exit code is as if a command had been run.
pub fn begin(place: &Place, entry: &Entry) -> i32 {
    let begun = lifecycle::exit_with_parent().and_then(|()| make(place, entry));
    begun.map_or_else(|error| fault(place, &error), |()| pass(place))
}

/// There was nothing to run: as if a command had been.
pub fn pass(place: &Place) -> i32 {
    File::create(place.report_path()).map_or_else(|error| fault(place, &error), |_| 0)
}

/// The sandbox is not needed any more.
pub fn leave(place: &Place) -> i32 {
    match unmount(place) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tanto: the sandbox: {}", String::from_utf8_lossy(&error::text(&error)));
            1
        }
    }
}

fn outer(place: &Place, entry: &Entry, line: &str) -> io::Result<i32> {
    lifecycle::exit_with_parent()?;
    let report = File::create(place.report_path())?;
    if entry.fresh {
        make(place, entry)?;
    }
    // As it is called now nobody will find it any more.
    let scratch = entry.measures.then(|| File::open(place.scratch())).transpose()?;
    let mut own = vec![Namespace::Mounts, Namespace::Processes, Namespace::Ipc, Namespace::Names];
    own.extend((!entry.network).then_some(Namespace::Network));
    namespaces::unshare(&own)?;
    lifecycle::obey_termination_signals(false);
    let Some(child) = lifecycle::fork()? else {
        let code = first(place, entry, line, &report).unwrap_or_else(|error| {
            let fault = String::from_utf8_lossy(&error::text(&error)).into_owned();
            eprintln!("tanto: the sandbox: {fault}");
            tell(&report, &Report { fault: Some(fault), ..Report::default() });
            NOT_BEGUN
        });
        std::process::exit(code);
    };
    match lifecycle::wait_and_reap(child)? {
        ExitStatus::Code(code) => {
            if let Some(scratch) = scratch.filter(|_| code == 0) {
                tell(&report, &Report { written_kib: written_kib(&scratch).ok(), ..Report::default() });
            }
            Ok(code)
        }
        ExitStatus::Killed { signal, .. } => {
            tell(&report, &Report { signal: Some(signal), ..Report::default() });
            Ok(128 + signal)
        }
    }
}

/// Mounts the sandbox and runs the user's hook. The hook may write in the root even if the plan is read-only for commands.
pub(super) fn make(place: &Place, entry: &Entry) -> io::Result<()> {
    let plan = place.read_plan()?;
    mount(place, &plan)?;
    hook(place, entry)?;
    close(place, &plan)
}

/// How much lies in a directory.
fn written_kib(dir: &File) -> io::Result<u64> {
    lifecycle::change_dir(dir)?;
    let here = Path::new(".");
    Ok(page_cache::tmpfs_used_kib(here).unwrap_or_else(|| dir_tree::disk_usage_kib(here)))
}

/// Runs `client_prepare_chroot` outside of the sandbox. It may mount more there.
fn hook(place: &Place, entry: &Entry) -> io::Result<()> {
    let Some(line) = &entry.hook else { return Ok(()) };
    let mut shell = Command::new(SHELL);
    shell.args(["-c", line, "client_prepare_chroot"]).arg(place.root());
    // Our own output may be for somebody who waits for one word.
    let status = shell.stdout(io::stderr().as_fd().try_clone_to_owned()?).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("client_prepare_chroot: {status}"))) }
}

/// The first process within, which others may outlive only for a moment.
fn first(place: &Place, entry: &Entry, line: &str, report: &File) -> io::Result<i32> {
    lifecycle::exit_with_parent()?;
    mounts::make_all_private()?;
    come_in(place)?;
    if !entry.network {
        namespaces::bring_up_loopback()?;
    }
    let Some(leader) = lifecycle::fork()? else {
        let error = namespaces::drop_capabilities().err().unwrap_or_else(|| {
            lifecycle::obey_termination_signals(true);
            Command::new(SHELL).args(["-c", line]).exec()
        });
        eprintln!("tanto: {SHELL}: {}", String::from_utf8_lossy(&error::text(&error)));
        std::process::exit(NOT_BEGUN);
    };
    let status = lifecycle::wait_and_reap(leader)?;
    let signal = match status {
        ExitStatus::Killed { signal, .. } => Some(signal),
        ExitStatus::Code(_) => None,
    };
    tell(report, &Report { signal, left: left()?, ..Report::default() });
    Ok(match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Killed { signal, .. } => 128 + signal,
    })
}

/// Nothing but the sandbox is seen from now on, and of processes none but those within.
pub(super) fn come_in(place: &Place) -> io::Result<()> {
    // While the machine's own can be seen: the kernel shows nobody more than could be seen before.
    mounts::mount_virtual(VirtualFs::Proc, &place.root().join("proc"), "")?;
    mounts::pivot_root(&place.root())
}

/// Who is here besides us, and has not ended.
fn left() -> io::Result<Vec<String>> {
    let own = std::process::id();
    let others = procs::all()?.into_iter().filter(|look| look.process.pid() != own && !look.is_gone());
    let shown = |look: procs::ProcessStat| {
        let line = procs::command_line(look.process.pid()).unwrap_or(look.name);
        String::from_utf8_lossy(&line[..line.len().min(MOST_SHOWN)]).into_owned()
    };
    Ok(others.map(shown).collect())
}

/// What cannot be told is not worth failing for.
fn tell(mut report: &File, what: &Report) {
    let _ = report.write_all(text::reported(what).as_bytes());
}
