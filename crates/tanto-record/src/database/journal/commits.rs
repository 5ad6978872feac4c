//! The progress of a journal's thread, as other threads see it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tanto_sys::ipc::event_fd::EventFd;
use tanto_sys::ipc::poll::{self, Watch};

/// The number of changes that are durable, and the state of the disk.
#[derive(Debug)]
pub struct Commits {
    committed: AtomicU64,
    disk_is_full: AtomicBool,
    /// The thread has ended.
    closed: AtomicBool,
    /// The build has ended.
    ended: AtomicBool,
    event_fd: EventFd,
}

impl Commits {
    pub(super) fn new() -> io::Result<Commits> {
        Ok(Commits {
            committed: AtomicU64::new(0),
            disk_is_full: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            event_fd: EventFd::new()?,
        })
    }

    /// Returns the number of changes that are durable, in the order in which they were recorded.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Returns whether no further change will become durable.
    pub fn are_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn disk_is_full(&self) -> bool {
        self.disk_is_full.load(Ordering::Relaxed)
    }

    /// Returns a descriptor that is readable after a commit, or the end of the thread, until `clear_wakeup`.
    pub fn wake_fd(&self) -> &EventFd {
        &self.event_fd
    }

    /// Call it before `committed`, so that no commit is missed.
    pub fn clear_wakeup(&self) {
        self.event_fd.clear();
    }

    /// Waits until so many changes are durable. Returns false if they never will be.
    pub(super) fn wait_for(&self, count: u64) -> bool {
        loop {
            self.clear_wakeup();
            if self.committed() >= count || self.are_closed() {
                break;
            }
            if poll::wait(&mut [Watch::new(self.wake_fd())], None).is_err() {
                return false;
            }
        }
        self.event_fd.wake();
        self.committed() >= count
    }

    pub(super) fn have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_disk_is_full(&self, full: bool) {
        self.disk_is_full.store(full, Ordering::Relaxed);
    }

    pub(super) fn advance(&self, changes: usize) {
        self.committed.fetch_add(changes as u64, Ordering::Release);
        self.event_fd.wake();
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.event_fd.wake();
    }
}
