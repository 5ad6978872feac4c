//! Commands that are asked of many directories at once, on the run loop. Does not know what they ask, nor what becomes
//! of the answers.

use tanto_exec::event::View;
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::Cost;
use tanto_exec::job::{Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_record::database::Change;
use tanto_record::database::journal::Journal;

use super::files::now_ns;

/// One of them.
pub(super) struct Ask {
    /// The directory, for views and for whoever takes the answer.
    pub location: String,
    /// For the shell.
    pub line: String,
    /// What it took last time, in milliseconds.
    pub wall_ms: u64,
}

/// An answer.
pub(super) struct Answer<'a> {
    pub ask: &'a Ask,
    /// What it printed, and how it ended; whoever takes it may change that.
    pub completion: &'a mut Completion,
    /// When it was started, in nanoseconds since 1970.
    pub began_ns: i64,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
}

/// All of them; the first goes first.
pub(super) struct Asks<'a> {
    pub asks: &'a [Ask],
    /// When each was started, in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
    pub journal: &'a mut Journal,
    /// Takes an answer; what is to be written down of it.
    pub take: &'a mut dyn FnMut(Answer<'_>) -> Vec<Change>,
}

/// The schedule of these.
pub(super) fn schedule(asks: &[Ask]) -> Schedule {
    let mut schedule = Schedule::new();
    for (order, ask) in (0..).zip(asks) {
        let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        let wall_ms = u32::try_from(ask.wall_ms).unwrap_or(u32::MAX);
        schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
    }
    schedule.begin();
    schedule
}

impl Frontend for Asks<'_> {
    fn start(&mut self, JobId(at): JobId) -> Result<Start, Fatal> {
        let ask = &self.asks[at as usize];
        self.began_ns[at as usize] = now_ns();
        let line = ask.line.clone().into_bytes();
        let description = format!("scan {}", ask.location).into_bytes();
        let location = ask.location.clone().into_bytes();
        let info = JobInfo { command: location.clone(), description, outputs: vec![location], ..JobInfo::default() };
        Ok(Start::Run(Command { line, console: false, limits: None }, info))
    }

    fn finish_command(&mut self, completion: &mut Completion) -> Result<(), Fatal> {
        if completion.exit.interrupted() {
            // One of its own processes sent that: it is no wish of the user's.
            completion.exit = Exit::Code(1);
        }
        let at = completion.job.0 as usize;
        let began_ns = self.began_ns[at];
        let wall_ms = u64::try_from((now_ns() - began_ns) / 1_000_000).unwrap_or(0);
        let changes = (self.take)(Answer { ask: &self.asks[at], completion, began_ns, wall_ms });
        changes.into_iter().for_each(|change| self.journal.record(change));
        if completion.exit.success() {
            // It is an answer, and nothing for the user to read.
            completion.output.clear();
        }
        Ok(())
    }

    fn finish_job(&mut self, _: JobId, _: JobOutcome<'_>, _: &mut Schedule, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn flush(&mut self, _: &mut dyn View) -> Result<(), Fatal> {
        match self.journal.flush() {
            true => Ok(()),
            false => Err(Fatal { message: b"the database cannot be written".to_vec(), invalid_input: false }),
        }
    }

    fn outputs(&self, JobId(at): JobId) -> Vec<Vec<u8>> {
        vec![self.asks[at as usize].location.clone().into_bytes()]
    }

    fn on_abort(&mut self, _: JobId, _: &mut dyn View) {}
}
