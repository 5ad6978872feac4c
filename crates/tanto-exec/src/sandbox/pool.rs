//! Sandboxes in which one command after the other runs, and that stay as they are meanwhile. Does not know what the
//! commands are for.
//!
//! A room is made by a process of our own, which mounts what its plan says and then keeps it: what is mounted is seen by
//! nobody else, and goes with it. Commands have their numbers below a process that does nothing; with its end, all of them
//! end.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use tanto_sys::error;
use tanto_sys::fs::{dir_tree, mounts};
use tanto_sys::process::ExitStatus;
use tanto_sys::process::lifecycle;
use tanto_sys::process::namespaces::{self, Namespace, NamespaceEntry};

use super::{Entry, Place, entering};
use crate::job::JobId;

/// A sandbox that is open.
#[derive(Debug)]
pub struct WarmSandbox {
    entrance: NamespaceEntry,
    /// Whoever loses his parents in there is its child.
    first: u32,
    keeper: Child,
    place: Place,
}

impl WarmSandbox {
    /// `command` keeps it: our own program, in which `keep` is called. The place goes with the room.
    pub fn open(mut command: Command, place: Place) -> io::Result<WarmSandbox> {
        let log = place.dir().join("log");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut keeper = command.spawn()?;
        let mut said = String::new();
        if let Some(output) = keeper.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        let Ok(first) = said.trim_end().parse() else {
            let ended = keeper.wait()?.to_string();
            let why = fs::read(&log).map(|text| String::from_utf8_lossy(text.trim_ascii_end()).into_owned());
            // What it had mounted went with it.
            let _ = dir_tree::remove(place.dir());
            return Err(io::Error::other(why.ok().filter(|why| !why.is_empty()).unwrap_or(ended)));
        };
        NamespaceEntry::open(first).map(|entrance| WarmSandbox { entrance, first, keeper, place })
    }
}

impl Drop for WarmSandbox {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        // What is left is removed before the next sandbox is made.
        let _ = dir_tree::remove(self.place.dir());
    }
}

/// What somebody who comes into a room has to know.
#[derive(Debug)]
pub struct SandboxGuard<'a> {
    /// How to come in.
    pub namespaces: &'a NamespaceEntry,
    /// Whoever loses his parents in there is this process's child.
    pub first: u32,
    /// Our child that keeps the room.
    pub keeper: u32,
}

/// Makes a room.
type Make = Box<dyn FnMut(usize) -> io::Result<WarmSandbox>>;

/// As many rooms as are needed at a time, each made when it is needed for the first time.
pub struct SandboxPool {
    make: Make,
    rooms: Vec<(WarmSandbox, Option<JobId>)>,
}

impl SandboxPool {
    /// None yet; `make` makes the one with this number.
    pub fn new(make: impl FnMut(usize) -> io::Result<WarmSandbox> + 'static) -> SandboxPool {
        SandboxPool { make: Box::new(make), rooms: Vec::new() }
    }

    /// A room for this job alone.
    pub fn acquire(&mut self, job: JobId) -> io::Result<SandboxGuard<'_>> {
        let free = self.rooms.iter().position(|(_, used)| used.is_none());
        let at = free.unwrap_or(self.rooms.len());
        if free.is_none() {
            self.rooms.push(((self.make)(at)?, None));
        }
        let (room, used) = &mut self.rooms[at];
        *used = Some(job);
        Ok(SandboxGuard { namespaces: &room.entrance, first: room.first, keeper: room.keeper.id() })
    }

    /// The job has ended, with all that it had started.
    pub fn release(&mut self, job: JobId) {
        self.rooms.iter_mut().filter(|(_, used)| *used == Some(job)).for_each(|(_, used)| *used = None);
    }
}

/// Mounts what the plan of a place says, and keeps it until this process ends. Says on standard output which process is the
/// first one within, once all is ready. The exit code says that it could not.
pub fn keep(place: &Place, entry: &Entry) -> i32 {
    match kept(place, entry) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("the sandbox: {}", String::from_utf8_lossy(&error::text(&error)));
            entering::NOT_BEGUN
        }
    }
}

fn kept(place: &Place, entry: &Entry) -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    namespaces::unshare(&[Namespace::Mounts])?;
    mounts::make_all_private()?;
    entering::make(place, entry)?;
    // Not before the hook: its shell would be process 1 of the new namespace, which ends with it.
    namespaces::unshare(&[Namespace::Processes, Namespace::Ipc, Namespace::Names, Namespace::Network])?;
    lifecycle::obey_termination_signals(false);
    let (mut ready, mut is_ready) = io::pipe()?;
    let Some(first) = lifecycle::fork()? else {
        drop(ready);
        let begun = begin(place).and_then(|()| is_ready.write_all(b"+"));
        match begun {
            Ok(()) => lifecycle::pause_forever(),
            Err(error) => eprintln!("the sandbox: {}", String::from_utf8_lossy(&error::text(&error))),
        }
        std::process::exit(entering::NOT_BEGUN);
    };
    drop(is_ready);
    // Without a word it has said why.
    if ready.read(&mut [0])? == 1 {
        println!("{first}");
    }
    match lifecycle::wait_and_reap(first)? {
        ExitStatus::Code(_) => std::process::exit(entering::NOT_BEGUN),
        ExitStatus::Killed { signal, .. } => Err(io::Error::other(format!("signal {signal} has ended what keeps it"))),
    }
}

/// The first process within.
fn begin(place: &Place) -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    entering::come_in(place)?;
    namespaces::bring_up_loopback()?;
    lifecycle::auto_reap_children();
    fs::metadata("/proc/self").map(drop)
}
