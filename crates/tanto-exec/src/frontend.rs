//! Interface between the run loop and a language: ninja manifests or a package tree.

use std::convert::Infallible;
use std::time::Duration;

use crate::event::View;
use crate::job::report::JobSample;
use crate::job::{Command, Completion, JobId, JobInfo};
use crate::runner::{Runner, Wakeup};
use crate::schedule::Schedule;

/// Ends the build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fatal {
    pub message: Vec<u8>,
    /// The input is invalid: there was no build, so no `build stopped` line is printed.
    pub invalid_input: bool,
}

/// What to do with a job that was taken from the schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start<T = Command> {
    Run(T, JobInfo),
    /// Nothing to run (ninja's phony).
    NoOp(JobInfo),
    /// The job cannot run and has failed, with a message.
    Fail(JobInfo, Vec<u8>),
}

/// How a job left the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobOutcome<'a> {
    /// It was not wanted, or had nothing to run.
    NoOp,
    /// Times are milliseconds since the start of the program.
    Succeeded {
        start_ms: i64,
        end_ms: i64,
        completion: &'a Completion,
    },
    Failed,
}

/// Called from the loop's thread only. Jobs run tasks of type `T`, which report progress of type `P`.
pub trait Frontend<T = Command, P = Infallible> {
    /// Returns whether a job may start while others run.
    fn may_start(&self) -> bool {
        true
    }

    /// Prepares the first task: directories, response file.
    fn start(&mut self, job: JobId) -> Result<Start<T>, Fatal>;

    /// Describes a job that completes without running, for views; `None` unless requested.
    fn describe_noop(&self, _job: JobId) -> Option<JobInfo> {
        None
    }

    /// Handles progress of a running job.
    fn on_progress(&mut self, _job: JobId, _progress: P, _view: &mut dyn View) {}

    /// Notes the resources that a running job uses.
    fn on_sample(&mut self, _job: JobId, _sample: &JobSample) {}

    /// A task has completed. Returns the next one of the job, which starts in the same slot; `None`: the completion, which
    /// this method may change, is that of the job.
    fn next_task(&mut self, _: &mut Completion, _: &mut Schedule, _: &mut dyn View) -> Option<T> {
        None
    }

    /// Reads discovered dependencies, filters the output, and may turn success into failure. Precedes all events about
    /// the end of the command.
    fn finish_command(&mut self, _completion: &mut Completion) -> Result<(), Fatal> {
        Ok(())
    }

    /// Called before the dependents of the job are released: may remove jobs from the schedule, or add jobs and
    /// dependencies.
    fn finish_job(
        &mut self,
        job: JobId,
        outcome: JobOutcome<'_>,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<(), Fatal>;

    /// Starts ready jobs on other machines, with `Schedule::take_elsewhere`. Returns them. Called before and after jobs start
    /// here; before, `may_start_here`, and jobs that start as well here are left.
    fn start_elsewhere(
        &mut self,
        _may_start_here: bool,
        _: &mut Schedule,
        _: &mut dyn View,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        Ok(Vec::new())
    }

    /// Returns the next wakeup of a job that runs on another machine.
    fn take_wakeup(&mut self) -> Option<Wakeup<P>> {
        None
    }

    /// Returns whether the build waits although no job runs and none starts: a machine may come for those that are ready.
    fn waits_for_machines(&self) -> bool {
        false
    }

    /// Returns whether the build waits although there is no job: more may be added to the schedule.
    fn expects_jobs(&self) -> bool {
        false
    }

    /// Returns when `poll_control` has to be called although nothing happens.
    fn control_interval(&self) -> Option<Duration> {
        None
    }

    /// Handles pending control requests. Called before each round of starts.
    fn poll_control(&mut self, _: &mut Schedule, _: &mut dyn Runner<T, P>, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    /// Writes buffered records and notices. Called when nothing more can start.
    fn flush(&mut self, view: &mut dyn View) -> Result<(), Fatal>;

    /// Returns the output files of a job, for views.
    fn outputs(&self, job: JobId) -> Vec<Vec<u8>>;

    /// The build stops while this job runs; its processes are gone.
    fn on_abort(&mut self, job: JobId, view: &mut dyn View);
}
