//! Jobs that run on other machines, on the run loop.

use std::collections::VecDeque;
use std::time::Duration;

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::{Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, ResourceSample, Schedule};

/// Other machines: each takes jobs at every second call of `start_elsewhere`, and completes them one call later.
#[derive(Default)]
struct Machines {
    slots: usize,
    exit: i32,
    /// Calls of `poll_control` until the machines come.
    absent: usize,
    running: VecDeque<JobId>,
    completed: VecDeque<JobId>,
    elsewhere: Vec<u32>,
    here: Vec<u32>,
}

fn completion(job: JobId, exit: i32) -> Completion {
    Completion::new(job, Exit::Code(exit), Vec::new())
}

impl Frontend for Machines {
    fn start(&mut self, job: JobId) -> Result<Start, Fatal> {
        self.here.push(job.0);
        Ok(Start::Run(Command { line: b"here".to_vec(), ..Command::default() }, JobInfo::default()))
    }

    fn start_elsewhere(
        &mut self,
        _: bool,
        schedule: &mut Schedule,
        _: &mut dyn View,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        let free = if self.absent > 0 { 0 } else { self.slots.saturating_sub(self.running.len()) };
        let jobs: Vec<JobId> = schedule.ready_jobs().take(free).collect();
        for &job in &jobs {
            schedule.take_elsewhere(job);
            self.running.push_back(job);
            self.elsewhere.push(job.0);
        }
        Ok(jobs.into_iter().map(|job| (job, JobInfo::default())).collect())
    }

    fn take_wakeup(&mut self) -> Option<Wakeup> {
        let job = self.completed.pop_front()?;
        Some(Wakeup::Completed(completion(job, self.exit)))
    }

    fn waits_for_machines(&self) -> bool {
        self.slots > 0
    }

    fn control_interval(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn poll_control(&mut self, _: &mut Schedule, _: &mut dyn Runner, _: &mut dyn View) -> Result<(), Fatal> {
        self.absent = self.absent.saturating_sub(1);
        self.completed.extend(self.running.drain(..));
        Ok(())
    }

    fn finish_job(&mut self, _: JobId, _: JobOutcome<'_>, _: &mut Schedule, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn flush(&mut self, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn outputs(&self, _: JobId) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn on_abort(&mut self, _: JobId, _: &mut dyn View) {}
}

#[derive(Default)]
struct Finished(Vec<u32>);

impl View for Finished {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Finished { job, .. } = event {
            self.0.push(job.0);
        }
    }
}

/// Builds a chain of three jobs and three independent ones.
fn build(machines: &mut Machines, here: usize) -> (BuildOutcome, Vec<u32>) {
    let mut schedule = Schedule::new();
    for order in 0..6 {
        schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
    }
    schedule.add_dependency(JobId(1), JobId(0), 0);
    schedule.add_dependency(JobId(2), JobId(1), 0);
    schedule.begin();
    let mut view = Finished::default();
    let build = Build {
        frontend: machines,
        schedule: &mut schedule,
        runner: &mut FakeRunner::new(here, |_| Effect::success()),
        view: &mut view,
        clock: &FakeClock::default(),
        failures_allowed: usize::MAX,
        sampler: &mut ResourceSample::default,
    };
    let outcome = build.run();
    view.0.sort_unstable();
    (outcome, view.0)
}

#[test]
fn every_job_ends_once_wherever_it_runs() {
    for slots in 0..4 {
        let mut machines = Machines { slots, ..Machines::default() };
        assert_eq!(build(&mut machines, 1), (BuildOutcome::Succeeded, vec![0, 1, 2, 3, 4, 5]), "{slots} slots");
        assert_eq!(machines.elsewhere.len() + machines.here.len(), 6);
        assert_eq!(machines.elsewhere.is_empty(), slots == 0);
    }
}

#[test]
fn the_most_urgent_jobs_go_elsewhere_first() {
    let mut machines = Machines { slots: 2, ..Machines::default() };
    build(&mut machines, 1);
    assert_eq!(machines.elsewhere[..2], [0, 3]);
}

#[test]
fn the_build_waits_for_machines() {
    let mut machines = Machines { slots: 1, absent: 5, ..Machines::default() };
    assert_eq!(build(&mut machines, 1).0, BuildOutcome::Succeeded);
    assert!(!machines.elsewhere.is_empty(), "the machines came while jobs ran here");
}

#[test]
fn a_failure_elsewhere_keeps_dependents_from_starting() {
    let mut machines = Machines { slots: 6, exit: 3, ..Machines::default() };
    let (outcome, finished) = build(&mut machines, 1);
    assert!(matches!(outcome, BuildOutcome::Failed { code: 3, .. }));
    assert_eq!(finished, [0, 3, 4, 5]);
}
