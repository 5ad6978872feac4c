//! In a dry run, all ready jobs run at once, however many they are.

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::dry::DryRunner;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, ResourceSample, Schedule};

use crate::commands::Commands;

/// Finished jobs, in order.
#[derive(Default)]
struct Ends(Vec<u32>);

impl View for Ends {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Finished { job, .. } = event {
            self.0.push(job.0);
        }
    }
}

#[test]
fn dry_run_time_is_not_quadratic() {
    // If each end took time proportional to the number of running jobs, this would take many minutes.
    const JOBS: u32 = 300_000;
    let mut schedule = Schedule::new();
    for order in 0..JOBS {
        schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
    }
    schedule.begin();
    let (mut runner, mut ends) = (DryRunner::default(), Ends::default());
    let run = Build {
        frontend: &mut Commands,
        schedule: &mut schedule,
        runner: &mut runner,
        view: &mut ends,
        clock: &FakeClock::default(),
        failures_allowed: 1,
        sampler: &mut ResourceSample::default,
    };
    assert_eq!(run.run(), BuildOutcome::Succeeded);
    assert!(ends.0.into_iter().eq(0..JOBS));
}
