//! Clients behind a network that loses, duplicates and delays messages; clients crash, are slow or lie. The runner accepts
//! each lease once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tanto_exec::job::Cost;
use tanto_exec::job::report::TerminationReason;
use tanto_exec::job::{Command, Completion, Exit, JobId};
use tanto_exec::runner::fake::Effect;
use tanto_exec::runner::{Runner, Wakeup};
use tanto_testing::Random;

/// Steps of the clock until a lease expires and its client is lost.
const LEASE_STEPS: u64 = 40;
const SIGKILL: i32 = 9;

pub struct UnreliableClients<'r, F> {
    effect: F,
    random: &'r RefCell<Random>,
    slots: usize,
    now: u64,
    /// Current leases: their job, and the step at which they expire.
    leases: BTreeMap<u64, (JobId, u64)>,
    /// Messages under way: the step of arrival, the lease, exit and output.
    messages: Vec<(u64, u64, Exit, Vec<u8>)>,
    interrupted: bool,
    /// The number of accepted results.
    pub accepted: usize,
    /// The number of dropped results.
    pub dropped: usize,
}

impl<'r, F: FnMut(&Command) -> Effect> UnreliableClients<'r, F> {
    pub fn new(slots: usize, random: &'r RefCell<Random>, effect: F) -> Self {
        let (leases, messages) = (BTreeMap::new(), Vec::new());
        UnreliableClients {
            effect,
            random,
            slots,
            now: 0,
            leases,
            messages,
            interrupted: false,
            accepted: 0,
            dropped: 0,
        }
    }

    fn send(&mut self, lease: u64, max_delay: usize, exit: Exit, output: &[u8]) {
        let after = 1 + self.random.borrow_mut().below(max_delay) as u64;
        self.messages.push((self.now + after, lease, exit, output.to_vec()));
    }

    /// Sends messages of a client for a command that ends in this way.
    fn work(&mut self, lease: u64, exit: Exit, output: &[u8]) {
        let fate = self.random.borrow_mut().below(100);
        match fate {
            // It crashes.
            0..4 => {}
            // It can be too slow.
            4..8 => self.send(lease, 3 * LEASE_STEPS as usize, exit, output),
            // The message is duplicated.
            8..20 => {
                self.send(lease, 5, exit, output);
                self.send(lease, 30, exit, output);
            }
            // It reports a lease that it does not have.
            20..28 => {
                self.send(lease ^ 1, 3, Exit::Code(0), b"");
                self.send(lease, 5, exit, output);
            }
            _ => self.send(lease, 5, exit, output),
        }
    }

    fn completed(&mut self, job: JobId, exit: Exit, output: Vec<u8>) -> Wakeup {
        self.accepted += 1;
        Wakeup::Completed(Completion::new(job, exit, output))
    }
}

impl<F: FnMut(&Command) -> Effect> Runner for UnreliableClients<'_, F> {
    fn capacity(&mut self) -> usize {
        self.slots.saturating_sub(self.leases.len())
    }

    fn start(&mut self, job: JobId, command: &Command, _: Cost) -> io::Result<()> {
        assert!(self.leases.values().all(|(other, _)| *other != job), "two commands of one package at a time");
        let effect = (self.effect)(command);
        if let Effect::Refused(kind) = effect {
            return Err(kind.into());
        }
        // Random, so that clients cannot guess other leases.
        let lease = self.random.borrow_mut().number();
        self.leases.insert(lease, (job, self.now + LEASE_STEPS));
        match effect {
            Effect::Ends { exit, output } => self.work(lease, exit, &output),
            Effect::Interrupts(_) => self.interrupted = true,
            Effect::Refused(_) => {}
        }
        Ok(())
    }

    fn has_completed(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<Wakeup> {
        if self.interrupted {
            return Ok(Wakeup::Interrupted(2));
        }
        self.now += 1;
        if let Some(at) = self.messages.iter().position(|(when, ..)| *when <= self.now) {
            let (_, lease, exit, output) = self.messages.remove(at);
            if let Some((job, _)) = self.leases.remove(&lease) {
                return Ok(self.completed(job, exit, output));
            }
            self.dropped += 1;
        }
        let lost =
            self.leases.iter().find(|(_, (_, until))| *until <= self.now).map(|(lease, (job, _))| (*lease, *job));
        if let Some((lease, job)) = lost {
            self.leases.remove(&lease);
            return Ok(self.completed(job, Exit::Signal(SIGKILL), Vec::new()));
        }
        let has_request = self.random.borrow_mut().below(3) == 0;
        Ok(if has_request { Wakeup::ControlRequest } else { Wakeup::TimedOut })
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        let lease = self.leases.iter().find(|(_, (other, _))| *other == job).map(|(lease, _)| *lease);
        let Some(lease) = lease else { return false };
        // The command may end first, or the message be lost.
        self.send(lease, 8, Exit::Code(why.exit_code()), b"");
        true
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        self.leases.values().find(|(other, _)| *other == job).map(|_| b"so far".to_vec())
    }

    fn abort(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.leases).into_values().map(|(job, _)| job).collect()
    }
}
