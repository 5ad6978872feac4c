//! The runner's view of its jobserver: one slot in advance for the next command.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;

use tanto_sys::ipc::poll::Watch;

use crate::job::JobId;
use crate::jobserver::{Jobserver, Slot};

pub(super) struct SlotGuard {
    pub(super) share: Jobserver,
    /// For the next command.
    pub(super) in_hand: Option<Slot>,
    /// Slot of a finished command, kept until it is known whether another command of the same job follows. Otherwise,
    /// another job could take it for long.
    kept: Option<(JobId, Slot)>,
    /// The last attempt to acquire a slot failed.
    pub(super) hungry: bool,
    /// Priority of the command that would start next.
    pub(super) next: i64,
    /// Priorities of running jobs.
    urgencies: HashMap<JobId, i64>,
}

/// Interval of token reallocation.
const DEAL_EVERY: Duration = Duration::from_millis(20);

impl SlotGuard {
    pub(super) fn new(share: Jobserver) -> SlotGuard {
        SlotGuard { share, in_hand: None, kept: None, hungry: false, next: 0, urgencies: HashMap::new() }
    }

    /// Makes sure that there is a slot for the next command; returns whether there is.
    pub(super) fn hold(&mut self) -> bool {
        self.let_go();
        if self.in_hand.is_none() {
            self.in_hand = self.share.acquire(self.next);
        }
        self.hungry = self.in_hand.is_none();
        !self.hungry
    }

    /// Takes the slot for a command. A further command of the same job gets the slot of the previous one.
    pub(super) fn take(&mut self, job: JobId) -> Option<Slot> {
        if let Some((_, slot)) = self.kept.take_if(|(of, _)| *of == job) {
            return Some(slot);
        }
        if self.share.is_dealt() {
            self.urgencies.insert(job, self.next);
        }
        self.in_hand.take()
    }

    /// Takes the slot of a finished command back.
    pub(super) fn ended(&mut self, job: JobId, slot: Slot) {
        self.let_go();
        match self.share.is_dealt() {
            true => self.kept = Some((job, slot)),
            false => self.share.release(slot),
        }
    }

    /// Gives up the kept slot: no further command of its job followed.
    pub(super) fn let_go(&mut self) {
        if let Some((job, slot)) = self.kept.take() {
            self.urgencies.remove(&job);
            self.share.release(slot);
        }
    }

    /// Returns the descriptors that the command inherits.
    pub(super) fn join(&mut self, job: JobId) -> Option<[RawFd; 2]> {
        let urgency = self.urgencies.get(&job).copied().unwrap_or(self.next);
        self.share.join(job, urgency)
    }

    /// Reallocates tokens. Returns whether a slot became available.
    pub(super) fn deal(&mut self) -> bool {
        self.share.deal(self.hungry.then_some(self.next))
    }

    pub(super) fn patience(&self) -> Option<Duration> {
        self.share.is_busy().then_some(DEAL_EVERY)
    }

    /// Adds the descriptors that become readable when there may be a slot or tokens to reallocate.
    pub(super) fn watch(&self, watches: &mut Vec<Watch>) {
        match &self.share {
            Jobserver::Broker(bank) => watches.extend(bank.awaited().map(Watch::new)),
            share if self.hungry => watches.extend(share.readable().iter().map(Watch::new)),
            _ => {}
        }
    }
}
