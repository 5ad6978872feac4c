//! Sandboxes that stay mounted for a sequence of commands.
//!
//! A keeper process of Tanto itself mounts the plan in a mount namespace of its own, so that the mounts disappear with
//! it. Commands run below an init process; when it ends, the kernel kills them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use tanto_sys::error;
use tanto_sys::fs::{dir_tree, mounts};
use tanto_sys::process::ExitStatus;
use tanto_sys::process::lifecycle;
use tanto_sys::process::namespaces::{self, Namespace, NamespaceEntry};

use super::{Entry, SandboxDir, entering};
use crate::job::JobId;

/// An open sandbox.
#[derive(Debug)]
pub struct WarmSandbox {
    entry_point: NamespaceEntry,
    /// Init process, the parent of orphans inside.
    first: u32,
    keeper: Child,
    place: SandboxDir,
}

impl WarmSandbox {
    /// `command` runs Tanto itself, which has to call `keep`. `place` is removed with the sandbox.
    pub fn open(mut command: Command, place: SandboxDir) -> io::Result<WarmSandbox> {
        let log = place.dir().join("log");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut keeper = command.spawn()?;
        let mut line = String::new();
        if let Some(output) = keeper.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let Ok(first) = line.trim_end().parse() else {
            let ended = keeper.wait()?.to_string();
            let why = fs::read(&log).map(|text| String::from_utf8_lossy(text.trim_ascii_end()).into_owned());
            // Its mounts have disappeared with it.
            let _ = dir_tree::remove(place.dir());
            return Err(io::Error::other(why.ok().filter(|why| !why.is_empty()).unwrap_or(ended)));
        };
        NamespaceEntry::open(first).map(|entry_point| WarmSandbox { entry_point, first, keeper, place })
    }
}

impl Drop for WarmSandbox {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        // The rest is removed before the next sandbox is made.
        let _ = dir_tree::remove(self.place.dir());
    }
}

/// A sandbox in use.
#[derive(Debug)]
pub struct SandboxGuard<'a> {
    pub namespaces: &'a NamespaceEntry,
    /// Init process, the parent of orphans inside.
    pub first: u32,
    /// Child of Tanto that keeps the sandbox open.
    pub keeper: u32,
}

/// Opens the sandbox of this number.
type Make = Box<dyn FnMut(usize) -> io::Result<WarmSandbox>>;

/// As many sandboxes as are needed at a time, each opened on first use.
pub struct SandboxPool {
    make: Make,
    sandboxes: Vec<(WarmSandbox, Option<JobId>)>,
}

impl SandboxPool {
    pub fn new(make: impl FnMut(usize) -> io::Result<WarmSandbox> + 'static) -> SandboxPool {
        SandboxPool { make: Box::new(make), sandboxes: Vec::new() }
    }

    /// Returns a free sandbox for this job.
    pub fn acquire(&mut self, job: JobId) -> io::Result<SandboxGuard<'_>> {
        let free = self.sandboxes.iter().position(|(_, used)| used.is_none());
        let at = free.unwrap_or(self.sandboxes.len());
        if free.is_none() {
            self.sandboxes.push(((self.make)(at)?, None));
        }
        let (sandbox, used) = &mut self.sandboxes[at];
        *used = Some(job);
        Ok(SandboxGuard { namespaces: &sandbox.entry_point, first: sandbox.first, keeper: sandbox.keeper.id() })
    }

    /// Releases the sandbox of a job that has ended with all of its processes.
    pub fn release(&mut self, job: JobId) {
        self.sandboxes.iter_mut().filter(|(_, used)| *used == Some(job)).for_each(|(_, used)| *used = None);
    }
}

/// Mounts the plan of a sandbox and keeps it open until this process ends. Prints the process ID of the init process
/// when ready. Returns an exit code.
pub fn keep(place: &SandboxDir, entry: &Entry) -> i32 {
    match run_keeper(place, entry) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("the sandbox: {}", String::from_utf8_lossy(&error::text(&error)));
            entering::EXIT_NOT_STARTED
        }
    }
}

fn run_keeper(place: &SandboxDir, entry: &Entry) -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    namespaces::unshare(&[Namespace::Mounts])?;
    mounts::make_all_private()?;
    entering::mount_with_hook(place, entry)?;
    // After the hook, whose shell would become process 1 of the new namespace and end it.
    namespaces::unshare(&[Namespace::Processes, Namespace::Ipc, Namespace::Names, Namespace::Network])?;
    lifecycle::obey_termination_signals(false);
    let (mut ready, mut is_ready) = io::pipe()?;
    let Some(first) = lifecycle::fork()? else {
        drop(ready);
        let result = run_init(place).and_then(|()| is_ready.write_all(b"+"));
        match result {
            Ok(()) => lifecycle::pause_forever(),
            Err(error) => eprintln!("the sandbox: {}", String::from_utf8_lossy(&error::text(&error))),
        }
        std::process::exit(entering::EXIT_NOT_STARTED);
    };
    drop(is_ready);
    // On failure, it has printed why.
    if ready.read(&mut [0])? == 1 {
        println!("{first}");
    }
    match lifecycle::wait_and_reap(first)? {
        ExitStatus::Code(_) => std::process::exit(entering::EXIT_NOT_STARTED),
        ExitStatus::Killed { signal, .. } => {
            Err(io::Error::other(format!("the process that keeps the sandbox open was killed by signal {signal}")))
        }
    }
}

/// Main function of the init process.
fn run_init(place: &SandboxDir) -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    entering::enter_root(place)?;
    namespaces::bring_up_loopback()?;
    lifecycle::auto_reap_children();
    fs::metadata("/proc/self").map(drop)
}
