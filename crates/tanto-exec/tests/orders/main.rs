//! Quality of orders on random and recorded builds, simulated with a virtual clock.

mod graphs;
mod recorded;

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::schedule::{Order, Schedule};
use tanto_exec::simulate::{self, SimulatedBuild};
use tanto_testing::{Random, seeds};

use crate::graphs::Build;

/// Returns a schedule of this order; `None`: the one that Tanto would choose.
fn ordered(build: &Build, order: Option<Order>, slots: usize) -> Schedule {
    let (mut schedule, chain) = build.schedule();
    let order = order.unwrap_or_else(|| simulate::best_order(&schedule, &chain, slots));
    schedule.prioritize(&chain, order);
    schedule
}

fn play(build: &Build, order: Option<Order>, slots: usize) -> SimulatedBuild {
    simulate::run(&mut ordered(build, order, slots), slots)
}

/// Returns a random build with 2 to 64 slots.
fn random_build(seed: u64) -> (Build, usize) {
    let mut random = Random::new(seed);
    (Build::of(&mut random), 2 + random.below(63))
}

/// Returns the same jobs with half to twice their expected durations.
fn surprise(schedule: &mut Schedule, build: &Build, random: &mut Random) {
    for (at, job) in build.jobs.iter().enumerate() {
        let wall_ms = (u64::from(job.wall_ms) * (50 + random.below(150) as u64) / 100) as u32;
        schedule.set_cost(JobId(at as u32), Cost { wall_ms, ..Cost::default() });
    }
}

/// Comparison of two orders over many builds.
#[derive(Default)]
struct Comparison {
    builds: u32,
    ours: f64,
    theirs: f64,
    /// Number of builds that took longer in our order, and the largest factor.
    worse: u32,
    most: f64,
}

impl Comparison {
    fn add(&mut self, ours: SimulatedBuild, theirs: SimulatedBuild) {
        assert_eq!((ours.work_ms, ours.commands), (theirs.work_ms, theirs.commands));
        assert!(ours.makespan_ms >= ours.lower_bound_ms(), "faster than possible");
        self.builds += 1;
        self.ours += ours.ratio();
        self.theirs += theirs.ratio();
        let factor = ours.makespan_ms as f64 / theirs.makespan_ms as f64;
        self.worse += u32::from(factor > 1.0);
        self.most = self.most.max(factor);
    }

    fn say(&self, what: &str) {
        let mean = |sum: f64| sum / f64::from(self.builds);
        eprintln!(
            "{what}: {} builds, makespan / bound {:.4}, in ninja's order {:.4}; longer in {}, by {:.4} at most",
            self.builds,
            mean(self.ours),
            mean(self.theirs),
            self.worse,
            self.most
        );
    }
}

#[test]
fn random_builds_take_no_longer_than_in_ninjas_order() {
    let mut all = Comparison::default();
    for seed in seeds(1000) {
        let (build, slots) = random_build(seed);
        all.add(play(&build, None, slots), play(&build, Some(Order::Ninja), slots));
    }
    all.say("random builds");
    assert!(all.ours <= all.theirs);
    assert!(all.worse * 50 <= all.builds && all.most <= 1.02);
}

#[test]
fn wrong_estimates_are_no_worse_than_ninjas_order() {
    let mut all = Comparison::default();
    for seed in seeds(1000) {
        let (build, slots) = random_build(seed);
        let surprised = |order| {
            let mut schedule = ordered(&build, order, slots);
            surprise(&mut schedule, &build, &mut Random::new(seed));
            simulate::run(&mut schedule, slots)
        };
        all.add(surprised(None), surprised(Some(Order::Ninja)));
    }
    all.say("random builds with surprises");
    assert!(all.ours <= all.theirs);
}

#[test]
fn recorded_builds_are_near_the_lower_bound() {
    let Some(folder) = recorded::folder() else {
        return eprintln!("skipped: the recorded builds are not on this machine (TANTO_DATA says where they are)");
    };
    let bulk = |name| recorded::bulk_build(&folder, name);
    let builds =
        [("all packages", recorded::whole_tree(&folder)), ("a bulk build", bulk("bulk-large")), ("mutt", bulk("mutt"))];
    for (name, build) in builds {
        for slots in [2, 4, 8, 16, 32, 64, 128] {
            let (ours, theirs) = (play(&build, None, slots), play(&build, Some(Order::Ninja), slots));
            eprintln!("{name}, {slots} slots: {:.4}, in ninja's order {:.4}", ours.ratio(), theirs.ratio());
            assert!(ours.ratio() <= 1.05 && ours.makespan_ms <= theirs.makespan_ms);
        }
    }
}

#[test]
fn look_ahead_beats_the_critical_path_order() {
    let better = seeds(1000).find(|&seed| {
        let (build, slots) = random_build(seed);
        play(&build, None, slots).makespan_ms < play(&build, Some(Order::Critical), slots).makespan_ms
    });
    assert!(better.is_some());
}
