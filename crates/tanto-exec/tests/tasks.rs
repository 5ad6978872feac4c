//! Jobs of several tasks on the run loop.

use std::collections::HashMap;
use std::io;

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::{Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::schedule::{JobSpec, Kind, PoolId, ResourceSample, Schedule};

/// Jobs run `one`, `two` and `three`; after a failure `clean`, and fail.
#[derive(Default)]
struct Steps {
    completed: HashMap<u32, usize>,
    failed: HashMap<u32, Exit>,
    /// Jobs wait for each other.
    one_at_a_time: bool,
}

fn command(line: &str) -> Command {
    Command { line: line.into(), ..Command::default() }
}

impl Frontend for Steps {
    fn may_start(&self) -> bool {
        !self.one_at_a_time
    }

    fn start(&mut self, _: JobId) -> Result<Start, Fatal> {
        Ok(Start::Run(command("one"), JobInfo::default()))
    }

    fn next_task(&mut self, completion: &mut Completion, _: &mut Schedule, _: &mut dyn View) -> Option<Command> {
        let job = completion.job.0;
        if let Some(&exit) = self.failed.get(&job) {
            completion.exit = exit;
            return None;
        }
        if !completion.exit.success() {
            self.failed.insert(job, completion.exit);
            return Some(command("clean"));
        }
        let completed = self.completed.entry(job).or_default();
        *completed += 1;
        ["two", "three"].get(*completed - 1).map(|line| command(line))
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

/// Exits of finished jobs, in order.
#[derive(Default)]
struct Exits(Vec<(u32, Exit)>);

impl View for Exits {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Finished { job, exit, .. } = event {
            self.0.push((job.0, exit));
        }
    }
}

/// Builds independent jobs. Returns the commands that were started and the exits of the jobs.
fn build(
    jobs: u32,
    slots: usize,
    mut steps: Steps,
    effect: impl FnMut(&Command) -> Effect,
) -> (String, Vec<(u32, Exit)>) {
    let mut schedule = Schedule::new();
    for order in 0..jobs {
        schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
    }
    schedule.begin();
    let (mut runner, mut exits) = (FakeRunner::new(slots, effect), Exits::default());
    let build = Build {
        frontend: &mut steps,
        schedule: &mut schedule,
        runner: &mut runner,
        view: &mut exits,
        clock: &FakeClock::default(),
        failures_allowed: usize::MAX,
        sampler: &mut ResourceSample::default,
    };
    let outcome = build.run();
    assert_eq!(outcome == BuildOutcome::Succeeded, exits.0.iter().all(|(_, exit)| exit.success()));
    let started: Vec<String> = runner.started().iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    (started.join(" "), exits.0)
}

#[test]
fn next_task_keeps_the_slot_of_its_job() {
    let (started, exits) = build(2, 1, Steps::default(), |_| Effect::success());
    assert_eq!(started, "one two three one two three");
    assert_eq!(exits, [(0, Exit::Code(0)), (1, Exit::Code(0))]);
}

#[test]
fn frontend_can_keep_other_jobs_from_starting() {
    let run = |one_at_a_time| build(2, 2, Steps { one_at_a_time, ..Steps::default() }, |_| Effect::success()).0;
    assert_eq!(run(false), "one one two two three three");
    assert_eq!(run(true), "one two three one two three");
}

#[test]
fn frontend_decides_what_follows_a_failure() {
    let effect = |it: &Command| Effect::ends(i32::from(it.line == b"two") * 3, b"");
    assert_eq!(build(1, 1, Steps::default(), effect), ("one two clean".into(), vec![(0, Exit::Code(3))]));
}

#[test]
fn task_that_cannot_be_started_has_failed() {
    let effect = |it: &Command| match it.line == b"two" {
        true => Effect::Refused(io::ErrorKind::OutOfMemory),
        false => Effect::success(),
    };
    assert_eq!(build(1, 1, Steps::default(), effect), ("one clean".into(), vec![(0, Exit::Code(126))]));
}
