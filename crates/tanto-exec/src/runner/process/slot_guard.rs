//! The slots of a jobserver that a runner is about to use. Does not know commands.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;

use tanto_sys::ipc::poll::Watch;

use crate::job::JobId;
use crate::jobserver::{Jobserver, Slot};

/// Where slots come from, and one that is to be used.
pub(super) struct SlotGuard {
    pub(super) share: Jobserver,
    /// For the next command to be started.
    pub(super) in_hand: Option<Slot>,
    /// That of a command that has ended, until it is known whether another one of its job follows. Were it free meanwhile,
    /// somebody might take it who keeps it for long.
    kept: Option<(JobId, Slot)>,
    /// The last time that somebody asked there was none.
    pub(super) hungry: bool,
    /// How urgent what would be started next is.
    pub(super) next: i64,
    /// How urgent the jobs are that have begun and not yet ended.
    urgencies: HashMap<JobId, i64>,
}

/// So often it is looked who needs tokens, where they are dealt out.
const DEAL_EVERY: Duration = Duration::from_millis(20);

impl SlotGuard {
    pub(super) fn new(share: Jobserver) -> SlotGuard {
        SlotGuard { share, in_hand: None, kept: None, hungry: false, next: 0, urgencies: HashMap::new() }
    }

    /// Makes sure that there is a slot for the next command; says whether it could.
    pub(super) fn hold(&mut self) -> bool {
        self.let_go();
        if self.in_hand.is_none() {
            self.in_hand = self.share.acquire(self.next);
        }
        self.hungry = self.in_hand.is_none();
        !self.hungry
    }

    /// The slot for a command. Of one that follows another of its job nobody has asked whether there is one: there is
    /// that of the other.
    pub(super) fn take(&mut self, job: JobId) -> Option<Slot> {
        if let Some((_, slot)) = self.kept.take_if(|(of, _)| *of == job) {
            return Some(slot);
        }
        if self.share.is_dealt() {
            self.urgencies.insert(job, self.next);
        }
        self.in_hand.take()
    }

    /// A command of a job has ended, and had this slot.
    pub(super) fn ended(&mut self, job: JobId, slot: Slot) {
        self.let_go();
        match self.share.is_dealt() {
            true => self.kept = Some((job, slot)),
            false => self.share.release(slot),
        }
    }

    /// No command has followed the one that ended.
    pub(super) fn let_go(&mut self) {
        if let Some((job, slot)) = self.kept.take() {
            self.urgencies.remove(&job);
            self.share.release(slot);
        }
    }

    /// What the command is to inherit, where each has a pipe of its own.
    pub(super) fn join(&mut self, job: JobId) -> Option<[RawFd; 2]> {
        let urgency = self.urgencies.get(&job).copied().unwrap_or(self.next);
        self.share.join(job, urgency)
    }

    /// Deals out tokens where that is to be done. May a command be started now that could not before?
    pub(super) fn deal(&mut self) -> bool {
        self.share.deal(self.hungry.then_some(self.next))
    }

    /// How long it may be until the next time.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.share.is_busy().then_some(DEAL_EVERY)
    }

    /// Adds what becomes readable when there may be a slot, or tokens to deal out.
    pub(super) fn watch(&self, watches: &mut Vec<Watch>) {
        match &self.share {
            Jobserver::Broker(bank) => watches.extend(bank.awaited().map(Watch::new)),
            share if self.hungry => watches.extend(share.readable().iter().map(Watch::new)),
            _ => {}
        }
    }
}
