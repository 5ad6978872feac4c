//! Writes to the database on its own thread, so that scheduling never waits for a disk.

mod commits;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use self::commits::Commits;
use super::{Change, Database, DatabaseError, Result};

/// Limit of batches in the channel; further changes wait with the sender.
const MOST_WAITING: usize = 256;
/// Limit of changes per transaction.
const MOST_TOGETHER: usize = 10_000;
/// Shortest interval between the begins of two transactions. Changes that come sooner share one: a transaction takes more
/// time than the changes in it.
const INTERVAL: Duration = Duration::from_millis(10);
/// Interval between attempts to write to a full disk.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// Attempts after the end of the build, before the changes are lost.
const LAST_TRIES: u32 = 50;

/// Collects the changes of a run.
#[derive(Debug)]
pub struct Journal {
    sender: SyncSender<Vec<Change>>,
    thread: JoinHandle<Result<Database>>,
    pending: Vec<Change>,
    recorded: u64,
    commits: Arc<Commits>,
}

impl Journal {
    /// Starts the thread.
    pub fn start(store: Database, run: i64) -> io::Result<Journal> {
        Journal::start_with(store, move |store, changes| store.apply(run, changes))
    }

    /// Starts the thread. `write` has to write changes durably, or none of them.
    pub fn start_with(
        store: Database,
        write: impl FnMut(&mut Database, &[Change]) -> Result<()> + Send + 'static,
    ) -> io::Result<Journal> {
        let (sender, receiver) = mpsc::sync_channel(MOST_WAITING);
        let commits = Arc::new(Commits::new()?);
        let keeper = Keeper { store, write, receiver, commits: Arc::clone(&commits) };
        let thread = thread::Builder::new().name("journal".into()).spawn(move || keeper.work())?;
        Ok(Journal { sender, thread, pending: Vec::new(), recorded: 0, commits })
    }

    /// Records a change, which is sent by the next `flush`.
    pub fn record(&mut self, change: Change) {
        self.recorded += 1;
        self.pending.push(change);
    }

    /// Returns the number of changes recorded so far: all of them are durable when `commits` has reached it.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Returns the progress of the thread.
    pub fn commits(&self) -> &Arc<Commits> {
        &self.commits
    }

    /// Sends the recorded changes as one batch, to be written in one transaction. Never blocks: if the channel is full,
    /// the next flush sends them. Returns false if the thread has ended; `finish` returns its error.
    pub fn flush(&mut self) -> bool {
        if self.pending.is_empty() {
            return !self.commits.are_closed();
        }
        match self.sender.try_send(std::mem::take(&mut self.pending)) {
            Ok(()) => true,
            Err(TrySendError::Full(changes)) => {
                self.pending = changes;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    /// Returns whether the disk is full. Nothing is lost, but no new job should start.
    pub fn disk_is_full(&self) -> bool {
        self.commits.disk_is_full()
    }

    /// Waits until everything recorded so far is durable. Returns false if it cannot be; `finish` returns the error. From
    /// now on, attempts on a full disk are limited.
    pub fn settle(&mut self) -> bool {
        self.commits.end();
        self.sender.send(std::mem::take(&mut self.pending)).is_ok() && self.commits.wait_for(self.recorded)
    }

    /// Waits until everything is written.
    pub fn finish(self) -> Result<Database> {
        self.commits.end();
        // Fails if the thread has ended; its error is returned below.
        let _ = self.sender.send(self.pending);
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(DatabaseError::Other(rusqlite::Error::InvalidQuery)))
    }
}

struct Keeper<F> {
    store: Database,
    write: F,
    receiver: Receiver<Vec<Change>>,
    commits: Arc<Commits>,
}

impl<F: FnMut(&mut Database, &[Change]) -> Result<()>> Keeper<F> {
    fn work(mut self) -> Result<Database> {
        let _closer = Closer(Arc::clone(&self.commits));
        let mut next = Instant::now();
        while let Ok(mut changes) = self.receiver.recv() {
            self.receive_until(next, &mut changes);
            next = Instant::now() + INTERVAL;
            self.commit(&changes)?;
            self.commits.advance(changes.len());
        }
        Ok(self.store)
    }

    /// Adds the changes that come before a time, and those that are there then. Waits no more at the end of the build.
    fn receive_until(&self, time: Instant, changes: &mut Vec<Change>) {
        while changes.len() < MOST_TOGETHER {
            let wait = time.saturating_duration_since(Instant::now());
            let wait = if self.commits.have_ended() { Duration::ZERO } else { wait };
            let Ok(more) = self.receiver.recv_timeout(wait) else { return };
            changes.extend(more);
        }
    }

    /// Retries while the disk is full.
    fn commit(&mut self, changes: &[Change]) -> Result<()> {
        let mut tries = 0;
        loop {
            let written = (self.write)(&mut self.store, changes);
            let full = matches!(written, Err(DatabaseError::Full));
            self.commits.set_disk_is_full(full);
            if !full || tries == LAST_TRIES {
                return written;
            }
            tries += u32::from(self.commits.have_ended());
            thread::sleep(TRY_EVERY);
        }
    }
}

/// Announces the end of the thread, however it ends.
struct Closer(Arc<Commits>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::PackageRow;
    use tanto_sys::ipc::poll::{self, Watch};
    use tanto_testing::Scratch;

    fn package(number: u32) -> Change {
        let (name, location) = (format!("p{number}-1"), String::new());
        Change::Package(PackageRow {
            package: number,
            job: number,
            name,
            location,
            state: "open".into(),
            detail: String::new(),
            why: String::new(),
        })
    }

    #[test]
    fn changes_are_written_in_order() {
        let place = Scratch::new("journal");
        let mut store = Database::open(&place.at("db")).unwrap();
        let run = store.begin_run(0).unwrap();
        let mut journal = Journal::start(store, run).unwrap();
        for number in 0..1000 {
            journal.record(package(number));
            if number % 3 == 0 {
                assert!(journal.flush());
            }
            journal.record(Change::State { package: number, state: "done", detail: "", why: String::new() });
        }
        let store = journal.finish().unwrap();
        let packages = store.packages(run).unwrap();
        assert!(packages.len() == 1000 && packages.iter().all(|package| package.state == "done"));
    }

    #[test]
    fn commits_are_acknowledged() {
        let place = Scratch::new("journal-commits");
        let mut store = Database::open(&place.at("db")).unwrap();
        let run = store.begin_run(0).unwrap();
        let (release, held) = mpsc::channel::<()>();
        let write = move |store: &mut Database, changes: &[Change]| {
            // Fails once nothing is held back any more.
            let _ = held.recv();
            store.apply(run, changes)
        };
        let mut journal = Journal::start_with(store, write).unwrap();
        let commits = Arc::clone(journal.commits());
        let is_ready = || {
            let mut watch = [Watch::new(commits.wake_fd())];
            poll::wait(&mut watch, Some(Duration::ZERO)).unwrap();
            watch[0].ready()
        };
        (0..3).for_each(|number| journal.record(package(number)));
        assert!(journal.flush() && journal.recorded() == 3);
        assert!(commits.committed() == 0 && !is_ready(), "the commit is held back");
        release.send(()).unwrap();
        assert!(commits.wait_for(3) && is_ready());
        commits.clear_wakeup();
        assert!(!is_ready());
        journal.record(package(3));
        release.send(()).unwrap();
        assert!(journal.settle() && commits.committed() == 4);
        drop(release);
        assert_eq!(journal.finish().unwrap().packages(run).unwrap().len(), 4);
    }

    #[test]
    fn full_disk_delays_commits() {
        let place = Scratch::new("journal-full");
        let mut store = Database::open(&place.at("db")).unwrap();
        let run = store.begin_run(0).unwrap();
        let mut refusals = 1;
        let write = move |store: &mut Database, changes: &[Change]| {
            if refusals > 0 {
                refusals -= 1;
                return Err(DatabaseError::Full);
            }
            store.apply(run, changes)
        };
        let mut journal = Journal::start_with(store, write).unwrap();
        journal.record(package(0));
        assert!(journal.settle() && journal.commits().committed() == 1 && !journal.disk_is_full());
    }

    #[test]
    fn an_error_is_returned_at_the_end() {
        let place = Scratch::new("journal-error");
        let store = Database::open(&place.at("db")).unwrap();
        let mut journal = Journal::start(store, 77).unwrap();
        journal.record(package(0));
        assert!(!journal.settle() && !journal.flush() && journal.commits().committed() == 0);
        assert!(journal.finish().is_err(), "there is no such run");
    }
}
