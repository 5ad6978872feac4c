//! Runs a command for each of many directories on the run loop.

use std::convert::Infallible;
use std::time::Duration;

use tanto_exec::event::View;
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::{Command, Completion, Cost, Exit, JobId, JobInfo};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_record::database::Change;
use tanto_record::database::journal::Journal;

use super::files::now_ns;
use super::remote::RemoteJobs;

/// Between two looks for messages of other machines.
const REMOTE_INTERVAL: Duration = Duration::from_millis(50);

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
pub(super) struct ScanCommands<'a, 'r> {
    pub asks: &'a [ScanCommand],
    /// Starts in nanoseconds since 1970.
    pub began_ns: Vec<i64>,
    /// `None`: nothing is recorded.
    pub journal: Option<&'a mut Journal>,
    /// Other machines that scan directories too.
    pub remote: Option<RemoteJobs<'r>>,
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

impl ScanCommands<'_, '_> {
    fn command(&mut self, JobId(at): JobId) -> Command {
        self.began_ns[at as usize] = now_ns();
        Command { line: self.asks[at as usize].line.clone().into_bytes(), ..Command::default() }
    }

    fn info(&self, JobId(at): JobId) -> JobInfo {
        let location = &self.asks[at as usize].location;
        let description = format!("scan {location}").into_bytes();
        let location = location.clone().into_bytes();
        JobInfo { command: location.clone(), description, outputs: vec![location], ..JobInfo::default() }
    }
}

impl Frontend for ScanCommands<'_, '_> {
    fn start(&mut self, job: JobId) -> Result<Start, Fatal> {
        Ok(Start::Run(self.command(job), self.info(job)))
    }

    fn start_elsewhere(
        &mut self,
        _: bool,
        schedule: &mut Schedule,
        _: &mut dyn View,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        let Some(remote) = &mut self.remote else { return Ok(Vec::new()) };
        let jobs = remote.give(schedule);
        for job in &jobs {
            self.began_ns[job.0 as usize] = remote.read_ns();
        }
        Ok(jobs.into_iter().map(|job| (job, self.info(job))).collect())
    }

    fn take_wakeup(&mut self) -> Option<Wakeup<Infallible>> {
        self.remote.as_mut()?.take_wakeup()
    }

    fn next_task(&mut self, completion: &mut Completion, _: &mut Schedule, _: &mut dyn View) -> Option<Command> {
        self.remote.as_mut()?.starts_here(completion.job).then(|| self.command(completion.job))
    }

    fn control_interval(&self) -> Option<Duration> {
        self.remote.as_ref().map(|_| REMOTE_INTERVAL)
    }

    fn poll_control(
        &mut self,
        schedule: &mut Schedule,
        runner: &mut dyn Runner,
        _: &mut dyn View,
    ) -> Result<(), Fatal> {
        if let Some(remote) = &mut self.remote {
            remote.poll(if schedule.has_next() { 0 } else { runner.capacity() });
        }
        Ok(())
    }

    fn finish_command(&mut self, completion: &mut Completion) -> Result<(), Fatal> {
        if completion.exit.interrupted() {
            // A process of the command sent the signal, not the user.
            completion.exit = Exit::Code(1);
        }
        let at = completion.job.0 as usize;
        let began_ns = self.began_ns[at];
        let remote_ms = self.remote.as_mut().and_then(|remote| remote.take_wall_ms(completion.job));
        let wall_ms = remote_ms.unwrap_or_else(|| u64::try_from((now_ns() - began_ns) / 1_000_000).unwrap_or(0));
        let changes = (self.take)(ScanOutput { ask: &self.asks[at], completion, began_ns, wall_ms });
        if let Some(journal) = &mut self.journal {
            changes.into_iter().for_each(|change| journal.record(change));
        }
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
        match self.journal.as_mut().is_none_or(|journal| journal.flush()) {
            true => Ok(()),
            false => Err(Fatal { message: b"the database cannot be written".to_vec(), invalid_input: false }),
        }
    }

    fn outputs(&self, JobId(at): JobId) -> Vec<Vec<u8>> {
        vec![self.asks[at as usize].location.clone().into_bytes()]
    }

    fn on_abort(&mut self, _: JobId, _: &mut dyn View) {}
}
