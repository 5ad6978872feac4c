//! A build that is short of memory: which jobs run together, and what the view gets.

use std::cell::Cell;

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::Command;
use tanto_exec::job::Cost;
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::schedule::{AdmissionLimits, JobSpec, Kind, PoolId, ResourceSample, Schedule, ThrottleReason};

use crate::commands::Commands;

/// Events as text.
#[derive(Default)]
struct Story(Vec<String>);

impl View for Story {
    fn event(&mut self, event: Event<'_>) {
        self.0.push(match event {
            Event::Started { job, .. } => format!("start {}", job.0),
            Event::Finished { job, .. } => format!("end {}", job.0),
            Event::Throttled { reason: Some(ThrottleReason::Memory { job, needs_kib, available_kib }), .. } => {
                format!("no room for {}: {needs_kib} of {available_kib}", job.0)
            }
            Event::Throttled { reason: Some(why), .. } => format!("{why:?}"),
            Event::Throttled { reason: None, .. } => "go on".to_owned(),
            _ => return,
        });
    }
}

/// Runs jobs that need this many KiB each, at most three at a time.
fn story(memory: &[u32], limit: Option<u64>, sampler: &mut dyn FnMut() -> ResourceSample) -> Vec<String> {
    story_of(3, memory, AdmissionLimits { memory_kib: limit, slots: 3 }, sampler)
}

/// The same with other limits.
fn story_of(
    most: usize,
    memory: &[u32],
    limits: AdmissionLimits,
    sampler: &mut dyn FnMut() -> ResourceSample,
) -> Vec<String> {
    let mut schedule = Schedule::new();
    for (order, &memory_kib) in (0..).zip(memory) {
        let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        schedule.set_cost(job, Cost { memory_kib, ..Cost::default() });
    }
    schedule.limit_admission(limits);
    schedule.begin();
    let (mut runner, mut story) = (FakeRunner::new(most, |_: &Command| Effect::success()), Story::default());
    let run = Build {
        frontend: &mut Commands,
        schedule: &mut schedule,
        runner: &mut runner,
        view: &mut story,
        clock: &FakeClock::default(),
        failures_allowed: 1,
        sampler,
    };
    assert_eq!(run.run(), BuildOutcome::Succeeded);
    story.0
}

#[test]
fn throttling_is_reported_to_the_view() {
    let events = story(&[6, 5, 3], Some(10), &mut ResourceSample::default);
    let expected = ["start 0", "start 2", "no room for 1: 5 of 1", "end 0", "start 1", "go on", "end 2", "end 1"];
    assert_eq!(events, expected);
    let expected = ["start 0", "no room for 1: 90 of 0", "end 0", "start 1", "go on", "end 1"];
    assert_eq!(story(&[90, 90], Some(10), &mut ResourceSample::default), expected, "one may always run");
}

#[test]
fn free_memory_is_sampled_periodically() {
    let asked = Cell::new(0);
    let mut sampler = || {
        asked.set(asked.get() + 1);
        ResourceSample { free_kib: Some(7), ..ResourceSample::default() }
    };
    let events = story(&[4, 4, 4], None, &mut sampler);
    assert_eq!(events[..3], ["start 0", "no room for 1: 4 of 3", "end 0"]);
    assert_eq!(asked.get(), 1, "the clock of this test stands still");
}

#[test]
fn memory_pressure_serializes_jobs() {
    let mut sampler = || ResourceSample { memory_full: 50.0, ..ResourceSample::default() };
    let events = story(&[0, 0, 0], None, &mut sampler);
    let expected = ["start 0", "MemoryPressure", "end 0", "start 1", "end 1", "start 2", "go on", "end 2"];
    assert_eq!(events, expected);
}

#[test]
fn cpu_pressure_halves_the_slots_unless_disabled() {
    let mut sampler = || ResourceSample { cpu_some: 99.0, ..ResourceSample::default() };
    let mut starts = |slots| {
        let events = story_of(4, &[0; 4], AdmissionLimits { memory_kib: None, slots }, &mut sampler);
        events.iter().take_while(|line| line.starts_with("start")).count()
    };
    assert_eq!([starts(4), starts(usize::MAX)], [2, 4]);
}
