//! Seeded bulk builds without processes: commands succeed, fail, are refused or interrupted at random, and the coordinator
//! is killed at random moments. The database must match the plan, and builds must end.

mod control_clients;
mod durability;
mod memory;
mod unreliable_clients;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;

use tanto_bulk::attempt::build_settings::BuildSettings;
use tanto_bulk::config::Config;
use tanto_bulk::coordinator::Build;
use tanto_bulk::coordinator::control_socket::{ControlServer, NoControl};
use tanto_bulk::coordinator::plan::{Plan, Planned};
use tanto_bulk::coordinator::sources::Sources;
use tanto_bulk::coordinator::state::{PackageState, State};
use tanto_bulk::coordinator::workdirs::Workdirs;
use tanto_bulk::package::records;
use tanto_bulk::resolve::PackageId;
use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::{Command, Exit};
use tanto_exec::run::BuildOutcome;
use tanto_exec::runner::Runner;
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::schedule::ResourceSample;
use tanto_record::database::journal::Journal;
use tanto_record::database::{Database, PackageRow as Row};
use tanto_testing::{Random, Scratch, seeds};

use self::control_clients::ControlClients;
use self::unreliable_clients::UnreliableClients;

struct NoView;

impl View for NoView {
    fn event(&mut self, _: Event<'_>) {}
}

/// Paths below the scratch directory.
const SETTINGS: &str = "pkgsrc = 'src'\nprefix = 'prefix'\npkgdb = 'pkgdb'\nbootstrapkit = 'kit'\nmake_jobs = 1\n";

fn settings(scratch: &Scratch) -> BuildSettings {
    BuildSettings::new(&Config::read(SETTINGS, scratch.path()).unwrap())
}

/// Returns the records of a random tree, and the dependencies of each package. Some packages cannot be built.
fn tree(random: &mut Random) -> (String, Vec<Vec<PackageId>>) {
    let count = 2 + random.below(25);
    let depends: Vec<Vec<PackageId>> = (0..count)
        .map(|at| {
            let mut needs: Vec<PackageId> =
                (0..random.below(4)).filter(|_| at > 0).map(|_| random.below(at.max(1)) as PackageId).collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        })
        .collect();
    let record = |at: usize, skip: bool| {
        let reason = if skip { "PKG_SKIP_REASON=no\n" } else { "" };
        let needs: Vec<String> =
            depends[at].iter().map(|needed| format!("pkg{needed}>=1:../../cat/pkg{needed}")).collect();
        let needs = needs.join(" ");
        format!("PKGNAME=pkg{at}-1\nPKG_LOCATION=cat/pkg{at}\nALL_DEPENDS={needs}\n{reason}")
    };
    let users = |number| if number == 0 { "USERGROUP_PHASE=build\n" } else { "" };
    let text: String = (0..count).map(|at| record(at, random.below(15) == 0) + users(random.below(15))).collect();
    (text, depends)
}

fn plan((text, depends): &(String, Vec<Vec<PackageId>>)) -> Plan {
    Plan::new(&records::read(text.as_bytes()).unwrap(), depends).unwrap()
}

/// Returns the effect of a command. The same packages fail in each run.
fn effect(command: &Command, fails: &HashMap<String, &'static str>, random: &mut Random, kills: bool) -> Effect {
    if kills && random.below(60) == 0 {
        return Effect::Interrupts(2);
    }
    let line = String::from_utf8_lossy(&command.line).into_owned();
    let fate = fails.iter().find(|(name, _)| line.contains(&format!("/{name} ")) && line.contains(" all "));
    match fate.map(|(_, fate)| *fate) {
        Some("fails") => Effect::ends(1, b"cc: error\n"),
        Some("owner") => Effect::ends(1, b"chown: changing ownership of 'x': Invalid argument\n"),
        Some("disk") if random.below(2) == 0 => Effect::ends(1, b"write error: No space left on device\n"),
        Some("killed") if random.below(2) == 0 => Effect::Ends { exit: Exit::Signal(9), output: Vec::new() },
        Some("refused") if random.below(2) == 0 => Effect::Refused(io::ErrorKind::OutOfMemory),
        _ => Effect::success(),
    }
}

/// Failures that are no machine failures.
const OWN: [&str; 2] = ["fails", "owner"];

struct World {
    scratch: Scratch,
    settings: BuildSettings,
    run: i64,
}

impl World {
    fn new(seed: u64) -> World {
        let scratch = Scratch::new(&format!("bulk-{seed}"));
        let run = Database::open(&scratch.at("db")).unwrap().begin_run(0).unwrap();
        World { settings: BuildSettings { one_user: seed % 2 == 1, ..settings(&scratch) }, scratch, run }
    }

    fn store(&self) -> Database {
        Database::open(&self.scratch.at("db")).unwrap()
    }

    /// Builds until the end, or until the build is killed.
    fn build(&self, plan: Plan, slots: usize, effect: impl FnMut(&Command) -> Effect) -> (BuildOutcome, Plan) {
        self.build_with(plan, &mut FakeRunner::new(slots, effect), &mut NoControl, Sources::default())
    }

    fn build_with(
        &self,
        plan: Plan,
        runner: &mut dyn Runner,
        control: &mut dyn ControlServer,
        sources: Sources,
    ) -> (BuildOutcome, Plan) {
        self.build_in(plan, runner, control, sources, None)
    }

    /// The sampler, if there is one, always returns `reading`.
    fn build_in(
        &self,
        mut plan: Plan,
        runner: &mut dyn Runner,
        control: &mut dyn ControlServer,
        sources: Sources,
        reading: Option<ResourceSample>,
    ) -> (BuildOutcome, Plan) {
        let rows = self.store().packages(self.run).unwrap();
        let state = |row: &Row| (row.name.clone(), PackageState::of_row(row).unwrap());
        let states: HashMap<String, PackageState> = rows.iter().map(state).collect();
        plan.resume(|name| states.get(name).cloned());
        plan.restore_attempts(&self.store().attempts(self.run).unwrap());
        let mut journal = Journal::start(self.store(), self.run).unwrap();
        plan.rows().for_each(|change| journal.record(change));
        let times = vec![1; plan.packages.len()];
        let clock = FakeClock::default();
        let workdirs = Workdirs::of(self.scratch.text());
        let (settings, view, epoch_ms) = (&self.settings, &mut NoView, 1_000_000);
        let mut read = || reading.unwrap_or_default();
        let sampler = reading.map(|_| &mut read as &mut dyn FnMut() -> ResourceSample);
        let build = Build {
            settings,
            runner,
            view,
            clock: &clock,
            epoch_ms,
            control,
            sources,
            workdirs,
            farm: None,
            keeps_provenance: true,
            sampler,
        };
        let (outcome, plan, journal) = build.run(plan, &times, journal).unwrap();
        journal.finish().unwrap();
        (outcome, plan)
    }

    /// Checks that the database matches the plan, and states match those of dependencies.
    fn check(&self, plan: &Plan) {
        let rows = self.store().packages(self.run).unwrap();
        let stored: Vec<(&str, &str)> = rows.iter().map(|row| (&row.state[..], &row.why[..])).collect();
        let planned: Vec<(&str, &str)> = plan.packages.iter().map(|it| (it.state().name(), it.why())).collect();
        assert_eq!(stored, planned);
        for it in &plan.packages {
            let needs = || it.depends.iter().map(|&needed| plan.package(needed).state());
            match it.state() {
                State::Done | State::Failed | State::MachineFailed => {
                    assert!(needs().all(|state| state == State::Done), "{}", it.name)
                }
                State::IndirectFailed | State::IndirectPrefailed => {
                    assert!(needs().any(|state| !matches!(state, State::Done | State::Open)), "{}", it.name);
                }
                State::NeedsRoot => assert!(self.settings.one_user, "{}", it.name),
                State::Open | State::Prefailed | State::Running => {}
            }
        }
    }
}

#[test]
fn killed_builds_resume_and_end() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let plan = plan(&tree(&mut random));
        let fates = ["fails", "owner", "disk", "refused", "killed"];
        let mut fails = HashMap::new();
        for it in &plan.packages {
            if random.below(6) == 0 {
                fails.insert(it.location.clone(), fates[random.below(fates.len())]);
            }
        }
        let world = World::new(seed);
        let slots = 1 + random.below(4);
        let chance = RefCell::new(random);
        let done = Cell::new(0);
        let last = loop {
            let kills = done.get() < 50;
            let effect = |command: &Command| effect(command, &fails, &mut chance.borrow_mut(), kills);
            let (outcome, now) = world.build(plan.clone(), slots, effect);
            world.check(&now);
            let finished = now.counts()[0];
            assert!(finished >= done.get() || kills, "seed {seed}: a done package was lost");
            done.set(done.get() + 1);
            if outcome != BuildOutcome::Interrupted {
                break now;
            }
        };
        for it in &last.packages {
            assert!(!matches!(it.state(), State::Open | State::Running), "seed {seed}: {} has not ended", it.name);
            let own_fault = fails.get(&it.location).is_some_and(|fate| OWN.contains(fate));
            assert!(!(own_fault && it.state() == State::Done), "seed {seed}: {} cannot be done", it.name);
        }
        let attempts = world.store().attempts(world.run).unwrap();
        assert!(attempts.iter().all(|attempt| attempt.ended_ms.is_some()), "seed {seed}");
        for job in last.all() {
            let its = || attempts.iter().filter(|attempt| attempt.job == job);
            assert!(
                its().map(|attempt| attempt.attempt).eq(1..=its().count() as u32),
                "seed {seed}: attempts are numbered"
            );
            assert!(its().filter(|attempt| attempt.outcome == "done").count() <= 1, "seed {seed}: done more than once");
            let own = its().filter(|attempt| attempt.outcome == "failed").count();
            assert!(own <= 1, "seed {seed}: failed packages are not tried again");
        }
        assert!(world.store().last_run().unwrap().unwrap().1.is_some());
    }
}

#[test]
fn build_without_usable_clients_can_be_resumed() {
    let text: String = (0..5).map(|at| format!("PKGNAME=pkg{at}-1\nPKG_LOCATION=cat/pkg{at}\n")).collect();
    let tree = (text, vec![vec![]; 5]);
    let mut world = World::new(2_000_000);
    world.settings.clients = 1;
    let (outcome, now) = world.build(plan(&tree), 1, |_| Effect::ends(1, b"No space left on device\n"));
    assert!(
        matches!(&outcome, BuildOutcome::Failed { reason: why, .. } if why.starts_with(b"all clients are disabled"))
    );
    world.check(&now);
    let count = |plan: &Plan, state| plan.packages.iter().filter(|it| it.state() == state).count();
    assert_eq!((count(&now, State::MachineFailed), count(&now, State::Open)), (3, 2));
    assert_eq!(world.store().last_run().unwrap(), Some((world.run, None)));
    let (_, now) = world.build(plan(&tree), 1, |_| Effect::success());
    assert_eq!(count(&now, State::Done), 5, "packages are tried again after machine failures");
    assert!(world.store().last_run().unwrap().unwrap().1.is_some());
}

#[test]
fn unreliable_clients_and_control_requests_lose_nothing() {
    let (mut retried, mut dropped) = (0, 0);
    for seed in seeds(120) {
        let mut random = Random::new(seed);
        let tree = tree(&mut random);
        let (plan, records) = (plan(&tree), records::read(tree.0.as_bytes()).unwrap());
        let mut fate = |it: &Planned| Some((it.location.clone(), *OWN.get(random.below(16))?));
        let fails: HashMap<String, &str> = plan.packages.iter().filter_map(&mut fate).collect();
        let slots = 1 + random.below(4);
        let (world, random, dice) =
            (World::new(seed + 1_000_000), RefCell::new(random), RefCell::new(Random::new(!seed)));
        let mut runner = UnreliableClients::new(slots, &random, |command: &Command| {
            effect(command, &fails, &mut dice.borrow_mut(), false)
        });
        let mut control_clients = ControlClients::new(&random, &tree.1);
        let (outcome, now) = world.build_with(plan, &mut runner, &mut control_clients, Sources::of(&records));
        assert_ne!(outcome, BuildOutcome::Interrupted, "seed {seed}");
        world.check(&now);
        for it in &now.packages {
            assert!(!matches!(it.state(), State::Open | State::Running), "seed {seed}: {} has not ended", it.name);
            let own_fault = fails.get(&it.location).is_some_and(|fate| OWN.contains(fate));
            assert!(!(own_fault && it.state() == State::Done), "seed {seed}: {} cannot be done", it.name);
        }
        let store = world.store();
        // Each accepted result ended exactly one stage.
        assert_eq!(store.stages(world.run).unwrap().len(), runner.accepted, "seed {seed}");
        let attempts = store.attempts(world.run).unwrap();
        assert!(attempts.iter().all(|attempt| attempt.ended_ms.is_some()), "seed {seed}");
        for it in now.all().filter(|&it| now.package(it).state() == State::Done) {
            let last = attempts.iter().rev().find(|attempt| attempt.job == it);
            assert_eq!(last.map(|attempt| &*attempt.outcome), Some("done"), "seed {seed}");
        }
        let edges: Vec<(PackageId, PackageId)> = now.all().flat_map(|it| edges(&now, it)).collect();
        assert_eq!(store.edges(world.run).unwrap(), edges, "seed {seed}");
        retried += control_clients
            .responses
            .iter()
            .filter(|response| response.out.ends_with(b" will be built again\n"))
            .count();
        dropped += runner.dropped;
    }
    assert!(retried > 50 && dropped > 50, "{retried} packages retried, {dropped} results dropped");
}

fn edges(plan: &Plan, package: PackageId) -> Vec<(PackageId, PackageId)> {
    let mut needs = plan.package(package).depends.clone();
    needs.sort_unstable();
    needs.into_iter().map(|needed| (package, needed)).collect()
}
