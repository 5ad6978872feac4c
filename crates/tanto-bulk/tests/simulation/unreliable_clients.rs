//! Clients behind a runner that loses, doubles and delays what is said, as other machines would be: who works there crashes, is
//! slow or lies. The coordinator's side gives out tickets, and believes each of them once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tanto_exec::job::Cost;
use tanto_exec::job::report::TerminationReason;
use tanto_exec::job::{Capture, Command, Completion, ExecutedBy, Exit, JobId, Usage};
use tanto_exec::runner::fake::Effect;
use tanto_exec::runner::{Runner, Wakeup};
use tanto_testing::Random;

/// So many steps of its clock a ticket is waited for. Then its client is lost.
const PATIENCE: u64 = 40;
const SIGKILL: i32 = 9;

/// Runs commands on such clients.
pub struct UnreliableClients<'r, F> {
    effect: F,
    random: &'r RefCell<Random>,
    slots: usize,
    now: u64,
    /// The tickets that are out: whose, and when they are given up.
    out: BTreeMap<u64, (JobId, u64)>,
    /// What is under way, by when it comes.
    mail: Vec<(u64, u64, Exit, Vec<u8>)>,
    interrupted: bool,
    /// So many were believed.
    pub told: usize,
    /// So many were not.
    pub dropped: usize,
}

impl<'r, F: FnMut(&Command) -> Effect> UnreliableClients<'r, F> {
    pub fn new(slots: usize, random: &'r RefCell<Random>, effect: F) -> Self {
        let (out, mail) = (BTreeMap::new(), Vec::new());
        UnreliableClients { effect, random, slots, now: 0, out, mail, interrupted: false, told: 0, dropped: 0 }
    }

    fn send(&mut self, ticket: u64, most: usize, exit: Exit, output: &[u8]) {
        let after = 1 + self.random.borrow_mut().below(most) as u64;
        self.mail.push((self.now + after, ticket, exit, output.to_vec()));
    }

    /// What a client does with a command that ends so.
    fn work(&mut self, ticket: u64, exit: Exit, output: &[u8]) {
        let fate = self.random.borrow_mut().below(100);
        match fate {
            // It crashes, and nobody hears of it any more.
            0..4 => {}
            // So slow that it was given up.
            4..8 => self.send(ticket, 3 * PATIENCE as usize, exit, output),
            // It says so twice.
            8..20 => {
                self.send(ticket, 5, exit, output);
                self.send(ticket, 30, exit, output);
            }
            // It says something of what it was never given.
            20..28 => {
                self.send(ticket ^ 1, 3, Exit::Code(0), b"");
                self.send(ticket, 5, exit, output);
            }
            _ => self.send(ticket, 5, exit, output),
        }
    }

    fn completed(&mut self, job: JobId, exit: Exit, output: Vec<u8>) -> Wakeup {
        self.told += 1;
        let (capture, usage, report) = (Capture::Complete, Usage::default(), None);
        Wakeup::Completed(Completion { job, exit, output, capture, usage, report, executed_by: ExecutedBy::Process })
    }
}

impl<F: FnMut(&Command) -> Effect> Runner for UnreliableClients<'_, F> {
    fn capacity(&mut self) -> usize {
        self.slots.saturating_sub(self.out.len())
    }

    fn start(&mut self, job: JobId, command: &Command, _: Cost) -> io::Result<()> {
        assert!(self.out.values().all(|(other, _)| *other != job), "two commands of one package at a time");
        let effect = (self.effect)(command);
        if let Effect::Refused(kind) = effect {
            return Err(kind.into());
        }
        // Nobody can guess one that is another's.
        let ticket = self.random.borrow_mut().number();
        self.out.insert(ticket, (job, self.now + PATIENCE));
        match effect {
            Effect::Ends { exit, output } => self.work(ticket, exit, &output),
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
        if let Some(at) = self.mail.iter().position(|(when, ..)| *when <= self.now) {
            let (_, ticket, exit, output) = self.mail.remove(at);
            if let Some((job, _)) = self.out.remove(&ticket) {
                return Ok(self.completed(job, exit, output));
            }
            self.dropped += 1;
        }
        let lost = self.out.iter().find(|(_, (_, until))| *until <= self.now).map(|(ticket, (job, _))| (*ticket, *job));
        if let Some((ticket, job)) = lost {
            self.out.remove(&ticket);
            return Ok(self.completed(job, Exit::Signal(SIGKILL), Vec::new()));
        }
        let is_called = self.random.borrow_mut().below(3) == 0;
        Ok(if is_called { Wakeup::ControlRequest } else { Wakeup::TimedOut })
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        let ticket = self.out.iter().find(|(_, (other, _))| *other == job).map(|(ticket, _)| *ticket);
        let Some(ticket) = ticket else { return false };
        // The client may have ended by itself, or not hear of it.
        self.send(ticket, 8, Exit::Code(why.exit_code()), b"");
        true
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        self.out.values().find(|(other, _)| *other == job).map(|_| b"so far".to_vec())
    }

    fn abort(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.out).into_values().map(|(job, _)| job).collect()
    }
}
