//! Random attempts and commands beside a model: the stages of each attempt in order, and the outcome of each way to fail.

use std::collections::BTreeMap;

use tanto_testing::{Random, seeds};

use super::*;
use crate::attempt::stages::StageCommands;

/// A wakeup that concerns a job, in short.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Begins { stage: &'static str, at_ms: i64, ended: Option<(String, i32)> },
    Result { kind: &'static str, ended: Vec<(String, i32)>, packages: usize },
    Completed { exit: i32, was_terminated: bool },
}

/// An attempt, or a command of the coordinator (`spec` is `None`).
struct Model {
    spec: Option<AttemptSpec>,
    stage: Stage,
    failure: Option<(&'static str, Exit, bool)>,
    is_killed: bool,
    /// Wakeups that must follow, in order.
    expected: VecDeque<Seen>,
    has_ended: bool,
}

/// The stages of an attempt that is built.
fn stages(spec: &AttemptSpec) -> Vec<Stage> {
    use Stage::*;
    let all = [ClientClean, PreClean, Depends, Checksum, Configure, Build, Install, Package, Deinstall, Clean];
    let is_needed = |stage: &Stage| match stage {
        Depends => !spec.depends.is_empty(),
        Deinstall => !spec.bootstrap,
        _ => true,
    };
    all.into_iter().filter(is_needed).collect()
}

/// How a command ended, as the attempt sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Fate(Fate),
    KilledByUser,
    Refused,
}

/// The outcome of an attempt in which this stage failed.
fn outcome(stage: Stage, end: End, spec: &AttemptSpec, one_user: bool) -> &'static str {
    let is_first = stage == Stage::ClientClean;
    let fills_tmpfs = spec.scratch_memory.is_some() && stage != Stage::Checksum;
    match end {
        End::KilledByUser | End::Fate(Fate::UsesCpu) => "failed",
        End::Fate(Fate::DiskFull) if fills_tmpfs => "exceeded tmpfs",
        End::Fate(Fate::DiskFull) | End::Refused => "machine failed",
        End::Fate(Fate::Killed) if spec.is_last => "failed",
        End::Fate(Fate::Killed) => "out of memory",
        End::Fate(Fate::Owner) if one_user && stage != Stage::Checksum && (spec.is_last || !is_first) => "needs root",
        End::Fate(_) if is_first => "machine failed",
        End::Fate(_) => "failed",
    }
}

struct World<'a> {
    settings: &'a BuildSettings,
    inner: &'a Inner,
    clock: &'a FakeClock,
    jobs: BTreeMap<u32, Model>,
    kinds: BTreeMap<&'static str, usize>,
}

impl World<'_> {
    /// Adds the effects of the end of a job's command, at the time of the clock.
    fn ended(&mut self, job: u32, fate: Fate, refuses: bool) {
        let model = self.jobs.get_mut(&job).unwrap();
        let is_killed = std::mem::take(&mut model.is_killed);
        let mut completion = fate.completion(JobId(job));
        if is_killed && completion.exit.success() {
            completion.exit = Exit::Code(143);
        }
        let exit = if completion.exit.interrupted() { Exit::Code(1) } else { completion.exit };
        let was_terminated = is_killed || completion.report.is_some();
        if model.spec.is_none() {
            model.expected.push_back(Seen::Completed { exit: exit.code(), was_terminated });
            model.has_ended = true;
            return;
        }
        let end = if is_killed { End::KilledByUser } else { End::Fate(fate) };
        self.stage_ended(job, end, exit, was_terminated, refuses);
    }

    fn stage_ended(&mut self, job: u32, end: End, exit: Exit, was_terminated: bool, refuses: bool) {
        let (settings, model) = (self.settings, self.jobs.get_mut(&job).unwrap());
        let (spec, stage) = (model.spec.as_ref().unwrap(), model.stage);
        let is_retried =
            |kind| matches!(kind, "out of memory" | "exceeded tmpfs") || kind == "machine failed" && !spec.is_last;
        let cleanup = |after: Option<Stage>| {
            let all: &[Stage] = if settings.keep_wrkdir { &[Stage::Keep, Stage::Clean] } else { &[Stage::Clean] };
            all.iter().copied().find(|&next| after.is_none_or(|stage| next > stage))
        };
        let next = match model.failure {
            Some((kind, ..)) if is_retried(kind) => unreachable!("nothing follows"),
            Some(_) => cleanup(Some(stage)),
            None if exit.success() || stage == Stage::Clean => stages(spec).into_iter().find(|&next| next > stage),
            None => {
                let kind = outcome(stage, end, spec, settings.one_user);
                model.failure = Some((kind, exit, was_terminated));
                if is_retried(kind) { None } else { cleanup(None) }
            }
        };
        let ended = (stage.name().to_owned(), exit.code());
        let Some(stage) = next else {
            let (kind, exit, was_terminated) = model.failure.unwrap_or(("built", Exit::Code(0), was_terminated));
            *self.kinds.entry(kind).or_default() += 1;
            model.expected.push_back(Seen::Result { kind, ended: vec![ended], packages: usize::from(kind == "built") });
            model.expected.push_back(Seen::Completed { exit: exit.code(), was_terminated });
            model.has_ended = true;
            return;
        };
        model.stage = stage;
        model.expected.push_back(Seen::Begins { stage: stage.name(), at_ms: self.clock.0.get(), ended: Some(ended) });
        if refuses {
            self.stage_ended(job, End::Refused, Exit::Code(126), false, false);
        }
    }

    /// Compares a wakeup with the next one that the model expects.
    fn check(&mut self, wakeup: Wakeup<AttemptEvent>) {
        let short = |all: &[StageResult]| all.iter().map(|it| (it.stage.clone(), it.exit)).collect::<Vec<_>>();
        let (JobId(job), seen) = match wakeup {
            Wakeup::Progress(job, AttemptEvent::Stage { stage, at_ms, ended }) => {
                let ended = ended.map(|it| (it.stage, it.exit));
                (job, Seen::Begins { stage: stage.name(), at_ms, ended })
            }
            Wakeup::Progress(job, AttemptEvent::Result(it)) => {
                (job, Seen::Result { kind: kind(&it), ended: short(&it.stages), packages: it.packages.len() })
            }
            Wakeup::Completed(it) => {
                let was_terminated = failure::termination(&it).is_some();
                (it.job, Seen::Completed { exit: it.exit.code(), was_terminated })
            }
            Wakeup::TimedOut => return,
            other => unreachable!("{other:?}"),
        };
        let model = self.jobs.get_mut(&job).expect("a known job");
        assert_eq!(Some(seen), model.expected.pop_front(), "job {job}");
        if model.has_ended && model.expected.is_empty() {
            self.jobs.remove(&job);
        }
    }

    /// Jobs whose command runs and has not been ended.
    fn running(&self) -> Vec<u32> {
        let wakeups = self.inner.wakeups.borrow();
        let has_ended = |job: &u32| wakeups.iter().any(|it| matches!(it, Wakeup::Completed(it) if it.job.0 == *job));
        self.inner.running.borrow().iter().map(|(job, _)| job.0).filter(|job| !has_ended(job)).collect()
    }

    /// The command that runs must be that of the stage.
    fn check_line(&self, job: u32) {
        let Model { spec: Some(spec), stage, failure, .. } = &self.jobs[&job] else { return };
        let commands = StageCommands { settings: self.settings, spec, client: 0 };
        assert_eq!(self.inner.line(job).unwrap(), commands.of(*stage, failure.is_none()), "{}", stage.name());
    }

    /// Completions that are delivered later still occupy their slots.
    fn capacity(&self) -> usize {
        let completed = self.jobs.values().filter(|it| it.has_ended).count();
        self.inner.slots.get().saturating_sub(self.inner.running.borrow().len() + completed)
    }
}

fn random_spec(random: &mut Random, number: u32) -> AttemptSpec {
    AttemptSpec {
        depends: if random.chance(50) { vec!["lib-1".into()] } else { Vec::new() },
        bootstrap: random.chance(30),
        scratch_memory: random.chance(30).then_some(1 << 30),
        is_last: random.chance(40),
        ..spec(&format!("pkg{number}-1"))
    }
}

/// Returns how many attempts had each outcome.
fn run(seed: u64) -> BTreeMap<&'static str, usize> {
    let (mut random, place, clock) = (Random::new(seed), Scratch::new("attempts"), FakeClock::default());
    let settings = BuildSettings { one_user: random.chance(50), keep_wrkdir: random.chance(50), ..settings(&place) };
    let inner = Inner { slots: Cell::new(1 + random.below(4)), ..Inner::default() };
    let mut commands = Commands(&inner);
    let mut runner = AttemptRunner::new(&mut commands, &settings, &clock);
    let mut world =
        World { settings: &settings, inner: &inner, clock: &clock, jobs: BTreeMap::new(), kinds: BTreeMap::new() };
    for number in 0..300 {
        clock.0.set(clock.0.get() + random.below(9) as i64);
        assert_eq!(runner.capacity(), world.capacity(), "seed {seed}");
        let running = world.running();
        match random.below(10) {
            0..3 if runner.capacity() > 0 => start(&mut random, &mut world, &mut runner, number),
            3 if !running.is_empty() => {
                let job = *random.pick(&running);
                inner.can_terminate.set(random.chance(50));
                assert_eq!(runner.terminate(JobId(job), TerminationReason::Requested), inner.can_terminate.get());
                world.jobs.get_mut(&job).unwrap().is_killed = true;
            }
            4 if !running.is_empty() => {
                let why = TerminationReason::Output { limit_bytes: 1 };
                runner.terminate(JobId(*random.pick(&running)), why);
            }
            // Most commands succeed, or no attempt would get far. Its end is noticed at once.
            _ if !running.is_empty() => {
                while runner.has_completed() {
                    world.check(runner.wait(None).unwrap());
                }
                let job = *random.pick(&running);
                world.check_line(job);
                let fate = if random.chance(85) { Fate::Succeeds } else { *random.pick(&Fate::ALL) };
                let refuses = random.chance(3);
                world.ended(job, fate, refuses);
                inner.refuses.set(refuses);
                // Without output, there is no log to write.
                inner.complete(Completion { output: fate.output_of_failure(), ..fate.completion(JobId(job)) });
                world.check(runner.wait(None).unwrap());
                inner.refuses.set(false);
            }
            _ => {}
        }
    }
    assert!(inner.wakeups.borrow().is_empty());
    finish(&mut random, &mut world, &mut runner);
    world.kinds
}

fn start(random: &mut Random, world: &mut World<'_>, runner: &mut AttemptRunner<'_>, number: u32) {
    let spec = random.chance(80).then(|| random_spec(random, number));
    let task = spec.as_ref().map_or_else(|| command("deliver"), attempt);
    let refuses = random.chance(10);
    world.inner.refuses.set(refuses);
    assert_eq!(runner.start(JobId(number), &task, Cost::default()).is_err(), refuses);
    if refuses {
        return;
    }
    let at_ms = world.clock.0.get();
    let begins = || Seen::Begins { stage: "client-clean", at_ms, ended: None };
    let expected = spec.iter().map(|_| begins()).collect();
    let stage = Stage::ClientClean;
    let model = Model { spec, stage, failure: None, is_killed: false, expected, has_ended: false };
    world.jobs.insert(number, model);
}

/// Aborts, or delivers everything that was queued.
fn finish(random: &mut Random, world: &mut World<'_>, runner: &mut AttemptRunner<'_>) {
    if random.chance(50) {
        while runner.has_completed() {
            world.check(runner.wait(None).unwrap());
        }
    }
    let mut aborted: Vec<u32> = runner.abort().into_iter().map(|JobId(job)| job).collect();
    aborted.sort_unstable();
    assert_eq!(aborted, world.jobs.keys().copied().collect::<Vec<_>>());
    assert!(!runner.has_completed());
}

#[test]
fn attempts_follow_the_model() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds(60) {
        for (kind, count) in run(seed) {
            *kinds.entry(kind).or_default() += count;
        }
    }
    for kind in ["built", "failed", "needs root", "machine failed", "out of memory", "exceeded tmpfs"] {
        assert!(kinds.get(kind).is_some_and(|&count| count >= 5), "{kind} in {kinds:?}");
    }
}
