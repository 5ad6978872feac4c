//! The runner's view of its jobserver: one slot in advance for the next command.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;

use tanto_sys::ipc::poll::Watch;

use crate::job::JobId;
use crate::jobserver::{Jobserver, Slot};

pub(super) struct SlotGuard {
    pub(super) jobserver: Jobserver,
    /// For the next command.
    pub(super) next_slot: Option<Slot>,
    /// Slot of a finished command, kept until it is known whether another command of the same job follows. Otherwise,
    /// another job could take it for long.
    kept: Option<(JobId, Slot)>,
    /// The last attempt to acquire a slot failed.
    pub(super) is_waiting: bool,
    /// Priority of the command that would start next.
    pub(super) next_priority: i64,
    /// Priorities of running jobs.
    priorities: HashMap<JobId, i64>,
}

/// Interval of token reallocation.
const REALLOCATION_INTERVAL: Duration = Duration::from_millis(20);

impl SlotGuard {
    pub(super) fn new(jobserver: Jobserver) -> SlotGuard {
        SlotGuard {
            jobserver,
            next_slot: None,
            kept: None,
            is_waiting: false,
            next_priority: 0,
            priorities: HashMap::new(),
        }
    }

    /// Makes sure that there is a slot for the next command; returns whether there is.
    pub(super) fn acquire_next(&mut self) -> bool {
        self.release_kept();
        if self.next_slot.is_none() {
            self.next_slot = self.jobserver.acquire(self.next_priority);
        }
        self.is_waiting = self.next_slot.is_none();
        !self.is_waiting
    }

    /// Takes the slot for a command. A further command of the same job gets the slot of the previous one.
    pub(super) fn take(&mut self, job: JobId) -> Option<Slot> {
        if let Some((_, slot)) = self.kept.take_if(|(of, _)| *of == job) {
            return Some(slot);
        }
        if self.jobserver.is_prioritized() {
            self.priorities.insert(job, self.next_priority);
        }
        self.next_slot.take()
    }

    /// Takes the slot of a finished command back.
    pub(super) fn ended(&mut self, job: JobId, slot: Slot) {
        self.release_kept();
        match self.jobserver.is_prioritized() {
            true => self.kept = Some((job, slot)),
            false => self.jobserver.release(slot),
        }
    }

    /// Gives up the kept slot: no further command of its job followed.
    pub(super) fn release_kept(&mut self) {
        if let Some((job, slot)) = self.kept.take() {
            self.priorities.remove(&job);
            self.jobserver.release(slot);
        }
    }

    /// Returns the descriptors that the command inherits.
    pub(super) fn add_command(&mut self, job: JobId) -> Option<[RawFd; 2]> {
        let priority = self.priorities.get(&job).copied().unwrap_or(self.next_priority);
        self.jobserver.add_command(job, priority)
    }

    /// Reallocates tokens. Returns whether a slot became available.
    pub(super) fn reallocate(&mut self) -> bool {
        self.jobserver.reallocate(self.is_waiting.then_some(self.next_priority))
    }

    pub(super) fn reallocation_interval(&self) -> Option<Duration> {
        self.jobserver.has_commands().then_some(REALLOCATION_INTERVAL)
    }

    /// Adds the descriptors that become readable when there may be a slot or tokens to reallocate.
    pub(super) fn watch(&self, watches: &mut Vec<Watch>) {
        match &self.jobserver {
            Jobserver::Broker(broker) => watches.extend(broker.awaited_pipes().map(Watch::new)),
            jobserver if self.is_waiting => watches.extend(jobserver.readable().iter().map(Watch::new)),
            _ => {}
        }
    }
}
