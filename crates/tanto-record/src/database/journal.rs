//! Writes to the database on its own thread, so that scheduling never waits for a disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Change, Database, DatabaseError, Result};

/// Limit of batches in the channel; further changes wait with the sender.
const MOST_WAITING: usize = 256;
/// Limit of changes per transaction.
const MOST_TOGETHER: usize = 10_000;
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
    signs: Arc<Signs>,
}

/// Flags shared by both threads.
#[derive(Debug, Default)]
struct Signs {
    disk_is_full: AtomicBool,
    is_over: AtomicBool,
}

impl Journal {
    /// Starts the thread.
    pub fn start(store: Database, run: i64) -> io::Result<Journal> {
        let (sender, receiver) = mpsc::sync_channel(MOST_WAITING);
        let signs = Arc::new(Signs::default());
        let keeper = Keeper { store, run, receiver, signs: Arc::clone(&signs) };
        let thread = thread::Builder::new().name("journal".into()).spawn(move || keeper.work())?;
        Ok(Journal { sender, thread, pending: Vec::new(), signs })
    }

    /// Records a change, which is sent by the next `flush`.
    pub fn record(&mut self, change: Change) {
        self.pending.push(change);
    }

    /// Sends the recorded changes as one batch, to be written in one transaction. Never blocks: if the channel is full,
    /// the next flush sends them. Returns false if the thread has ended; `end` returns its error.
    pub fn flush(&mut self) -> bool {
        if self.pending.is_empty() {
            return true;
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
        self.signs.disk_is_full.load(Ordering::Relaxed)
    }

    /// Waits until everything is written.
    pub fn finish(self) -> Result<Database> {
        self.signs.is_over.store(true, Ordering::Relaxed);
        // Fails if the thread has ended; its error is returned below.
        let _ = self.sender.send(self.pending);
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(DatabaseError::Other(rusqlite::Error::InvalidQuery)))
    }
}

struct Keeper {
    store: Database,
    run: i64,
    receiver: Receiver<Vec<Change>>,
    signs: Arc<Signs>,
}

impl Keeper {
    fn work(mut self) -> Result<Database> {
        while let Ok(mut changes) = self.receiver.recv() {
            while changes.len() < MOST_TOGETHER
                && let Ok(more) = self.receiver.try_recv()
            {
                changes.extend(more);
            }
            self.write(&changes)?;
        }
        Ok(self.store)
    }

    /// Retries while the disk is full.
    fn write(&mut self, changes: &[Change]) -> Result<()> {
        let mut tries = 0;
        loop {
            let written = self.store.apply(self.run, changes);
            let full = matches!(written, Err(DatabaseError::Full));
            self.signs.disk_is_full.store(full, Ordering::Relaxed);
            if !full || tries == LAST_TRIES {
                return written;
            }
            tries += u32::from(self.signs.is_over.load(Ordering::Relaxed));
            thread::sleep(TRY_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::PackageRow;
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
    fn an_error_is_returned_at_the_end() {
        let place = Scratch::new("journal-error");
        let store = Database::open(&place.at("db")).unwrap();
        let mut journal = Journal::start(store, 77).unwrap();
        journal.record(package(0));
        assert!(journal.finish().is_err(), "there is no such run");
    }
}
