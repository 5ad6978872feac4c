//! Seeded bulk builds without processes: commands end well, fail, are refused or are interrupted at random, and the
//! coordinator is killed at any moment. What the database says must be true, and a build must come to its end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;

use tanto_bulk::build::Build;
use tanto_bulk::build::plan::Plan;
use tanto_bulk::build::sources::Sources;
use tanto_bulk::build::stages::Site;
use tanto_bulk::build::state::State;
use tanto_bulk::door::Nobody;
use tanto_bulk::records;
use tanto_bulk::resolve::Package;
use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::Command;
use tanto_exec::run::Verdict;
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_record::store::Store;
use tanto_record::store::journal::Journal;
use tanto_testing::{Random, Scratch, seeds};

struct Blind;

impl View for Blind {
    fn event(&mut self, _: Event<'_>) {}
}

fn site(scratch: &Scratch) -> Site {
    let text = |path: &str| scratch.at(path).to_string_lossy().into_owned();
    Site {
        pkgsrc: "/src".into(),
        make: "make".into(),
        prefix: text("prefix"),
        pkgdb: text("pkgdb"),
        packages: text("packages"),
        logs: text("logs"),
        bootstrapkit: "/kit".into(),
        pkg_add: "pkg_add".into(),
        pkg_delete: "pkg_delete".into(),
        make_jobs: 1,
        makes: None,
        suffix: ".tgz".into(),
        user: None,
        ..Site::default()
    }
}

/// A tree of packages, some of which cannot be built.
fn plan(random: &mut Random) -> Plan {
    let count = 2 + random.below(25);
    let record = |at: usize, skip: bool| {
        let reason = if skip { "PKG_SKIP_REASON=no\n" } else { "" };
        format!("PKGNAME=pkg{at}-1\nPKG_LOCATION=cat/pkg{at}\n{reason}")
    };
    let text: String = (0..count).map(|at| record(at, random.below(15) == 0)).collect();
    let depends: Vec<Vec<Package>> = (0..count)
        .map(|at| {
            let mut needs: Vec<Package> =
                (0..random.below(4)).filter(|_| at > 0).map(|_| random.below(at.max(1)) as Package).collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        })
        .collect();
    Plan::new(&records::read(text.as_bytes()).unwrap(), &depends).unwrap()
}

/// What happens to a command: the same package fails in each run, or never.
fn effect(command: &Command, fails: &HashMap<String, &'static str>, random: &mut Random, kills: bool) -> Effect {
    if kills && random.below(60) == 0 {
        return Effect::Interrupts(2);
    }
    let line = String::from_utf8_lossy(&command.line).into_owned();
    let fate = fails.iter().find(|(name, _)| line.contains(&format!("/{name} ")) && line.contains(" all "));
    match fate.map(|(_, fate)| *fate) {
        Some("fails") => Effect::ends(1, b"cc: error\n"),
        Some("disk") if random.below(2) == 0 => Effect::ends(1, b"write error: No space left on device\n"),
        Some("refused") if random.below(2) == 0 => Effect::Refused(io::ErrorKind::OutOfMemory),
        _ => Effect::success(),
    }
}

struct World {
    scratch: Scratch,
    site: Site,
    run: i64,
}

impl World {
    fn new(seed: u64) -> World {
        let scratch = Scratch::new(&format!("bulk-{seed}"));
        let run = Store::open(&scratch.at("db")).unwrap().begin_run(0).unwrap();
        World { site: site(&scratch), scratch, run }
    }

    fn store(&self) -> Store {
        Store::open(&self.scratch.at("db")).unwrap()
    }

    /// Builds until the end, or until something kills the build.
    fn build(&self, mut plan: Plan, slots: usize, effect: impl FnMut(&Command) -> Effect) -> (Verdict, Plan) {
        let rows = self.store().packages(self.run).unwrap();
        let states: HashMap<String, (State, String)> =
            rows.into_iter().map(|row| (row.name, (State::named(&row.state).unwrap(), row.why))).collect();
        plan.recall(|name| states.get(name).cloned());
        let mut journal = Journal::start(self.store(), self.run).unwrap();
        plan.rows().for_each(|change| journal.note(change));
        let times = vec![1; plan.packages.len()];
        let mut runner = FakeRunner::new(slots, effect);
        let clock = FakeClock::default();
        let build = Build {
            site: &self.site,
            runner: &mut runner,
            view: &mut Blind,
            clock: &clock,
            epoch_ms: 1_000_000,
            desk: &mut Nobody,
            sources: Sources::default(),
        };
        let (verdict, plan, journal) = build.run(plan, &times, journal).unwrap();
        journal.end().unwrap();
        (verdict, plan)
    }

    /// What the database says is what the plan says.
    fn check(&self, plan: &Plan) {
        let rows = self.store().packages(self.run).unwrap();
        let told: Vec<(&str, &str)> = rows.iter().map(|row| (&row.state[..], &row.why[..])).collect();
        let known: Vec<(&str, &str)> = plan.packages.iter().map(|it| (it.state.name(), &it.why[..])).collect();
        assert_eq!(told, known);
        for it in &plan.packages {
            let needs = || it.depends.iter().map(|&needed| plan.package(needed).state);
            match it.state {
                State::Done | State::Failed => assert!(needs().all(|state| state == State::Done), "{}", it.name),
                State::IndirectFailed | State::IndirectPrefailed => {
                    assert!(needs().any(|state| !matches!(state, State::Done | State::Open)), "{}", it.name);
                }
                State::Open | State::Prefailed | State::Running => {}
            }
        }
    }
}

#[test]
fn builds_end_as_they_must_however_often_they_are_killed() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let plan = plan(&mut random);
        let fates = ["fails", "disk", "refused"];
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
            let (verdict, now) = world.build(plan.clone(), slots, effect);
            world.check(&now);
            let finished = now.counts()[0];
            assert!(finished >= done.get() || kills, "seed {seed}: what was done is not");
            done.set(done.get() + 1);
            if verdict != Verdict::Interrupted {
                break now;
            }
        };
        for it in &last.packages {
            assert!(!matches!(it.state, State::Open | State::Running), "seed {seed}: {} has no end", it.name);
            let own_fault = fails.get(&it.location) == Some(&"fails");
            assert!(!(own_fault && it.state == State::Done), "seed {seed}: {} cannot be done", it.name);
        }
        let attempts = world.store().attempts(world.run).unwrap();
        assert!(attempts.iter().all(|attempt| attempt.ended_ms.is_some() && attempt.attempt <= 3), "seed {seed}");
        assert!(world.store().last_run().unwrap().unwrap().1.is_some());
    }
}
