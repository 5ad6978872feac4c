//! Runs a command for each of many directories on the run loop.

use tanto_exec::event::View;
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::Cost;
use tanto_exec::job::{Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_record::database::Change;
use tanto_record::database::journal::Journal;

use super::files::now_ns;

pub(super) struct ScanCommand {
    pub location: String,
    /// The shell command.
    pub line: String,
    /// The last duration in milliseconds.
    pub wall_ms: u64,
}

pub(super) struct ScanOutput<'a> {
    pub ask: &'a ScanCommand,
    /// Output and exit; the consumer may change them.
    pub completion: &'a mut Completion,
    /// Start in nanoseconds since 1970.
    pub began_ns: i64,
    /// Duration in milliseconds.
    pub wall_ms: u64,
}

/// In the order of starting.
pub(super) struct ScanCommands<'a> {
    pub asks: &'a [ScanCommand],
    /// Starts in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
    pub journal: &'a mut Journal,
    /// Consumes an answer; returns changes for the database.
    pub take: &'a mut dyn FnMut(ScanOutput<'_>) -> Vec<Change>,
}

pub(super) fn schedule(asks: &[ScanCommand]) -> Schedule {
    let mut schedule = Schedule::new();
    for (order, ask) in (0..).zip(asks) {
        let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        let wall_ms = u32::try_from(ask.wall_ms).unwrap_or(u32::MAX);
        schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
    }
    schedule.begin();
    schedule
}

impl Frontend for ScanCommands<'_> {
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
            // A process of the command sent the signal, not the user.
            completion.exit = Exit::Code(1);
        }
        let at = completion.job.0 as usize;
        let began_ns = self.began_ns[at];
        let wall_ms = u64::try_from((now_ns() - began_ns) / 1_000_000).unwrap_or(0);
        let changes = (self.take)(ScanOutput { ask: &self.asks[at], completion, began_ns, wall_ms });
        changes.into_iter().for_each(|change| self.journal.record(change));
        if completion.exit.success() {
            // The output is a result, not shown.
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
