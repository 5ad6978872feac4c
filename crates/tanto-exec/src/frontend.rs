//! What a language on the spine (ninja's, a package tree's) tells the run loop about its jobs.

use crate::event::View;
use crate::job::{Command, Completion, JobId, JobInfo};
use crate::runner::Runner;
use crate::schedule::Schedule;

/// Why a build cannot go on at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fatal {
    /// For the user.
    pub message: Vec<u8>,
    /// The input is so wrong that there was no build: nothing is said of its being stopped.
    pub invalid_input: bool,
}

/// What to do with a job whose turn has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// Run this.
    Run(Command, JobInfo),
    /// Nothing to run: the job is done (ninja's phony). What views may show of it.
    NoOp(JobInfo),
    /// It cannot be run, and has failed; the text says why.
    Fail(JobInfo, Vec<u8>),
}

/// How a job left the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobOutcome<'a> {
    /// Nobody wanted it to run, or there was nothing to run.
    NoOp,
    /// It ran, and ended well. Times are milliseconds since the program started.
    Succeeded {
        /// When it was started.
        start_ms: i64,
        /// When it ended.
        end_ms: i64,
        /// What its runner saw.
        completion: &'a Completion,
    },
    /// It ran, and failed.
    Failed,
}

/// The language side of the run loop. All calls come from the loop's thread.
pub trait Frontend {
    /// The job's turn has come: makes ready what its command needs (directories, response file).
    fn start(&mut self, job: JobId) -> Result<Start, Fatal>;

    /// The job's turn to pass has come, without anything to run: what views may show of it, if anybody asks.
    fn describe_noop(&self, _job: JobId) -> Option<JobInfo> {
        None
    }

    /// The command ended: reads what it discovered, filters its output, and may turn success into failure.
    /// Called before any view hears of it.
    fn finish_command(&mut self, completion: &mut Completion) -> Result<(), Fatal>;

    /// The job leaves the schedule. Called before its dependents are released, so that the front can take jobs out
    /// of the plan, or add jobs and dependencies to it.
    fn finish_job(
        &mut self,
        job: JobId,
        outcome: JobOutcome<'_>,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<(), Fatal>;

    /// The loop is about to start what may start: does what others have asked for since, if somebody can.
    fn poll_control(&mut self, _: &mut Schedule, _: &mut dyn Runner, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    /// All that may start has been started: writes what it has kept back of the jobs that are done, and tells the view
    /// what it has kept back for it.
    fn flush(&mut self, view: &mut dyn View) -> Result<(), Fatal>;

    /// The files that the job makes, for a view to show.
    fn outputs(&self, job: JobId) -> Vec<Vec<u8>>;

    /// The build stops while this job runs; its processes are gone.
    fn on_abort(&mut self, job: JobId, view: &mut dyn View);
}
