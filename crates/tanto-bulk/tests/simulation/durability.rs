//! Nothing tells the end of a package before the journal has committed it.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tanto_bulk::coordinator::control_socket::{Request, Response};
use tanto_exec::job::{Cost, JobId};
use tanto_exec::runner::Wakeup;
use tanto_record::database::{Change, DatabaseError};

use super::*;

type Write = Box<dyn FnMut(&mut Database, &[Change]) -> Result<(), DatabaseError> + Send>;

/// Packages whose end is committed.
type Committed = Arc<Mutex<BTreeSet<u32>>>;

/// Checks each event, and keeps a line for some.
struct CheckedView {
    committed: Committed,
    lines: Vec<String>,
}

impl View for CheckedView {
    fn event(&mut self, event: Event<'_>) {
        let is_committed = |JobId(job)| self.committed.lock().unwrap().contains(&job);
        let line = match event {
            Event::Started { job, .. } => format!("started {}", job.0),
            Event::Finished { job, .. } | Event::NothingToRun { job, .. } | Event::Unplanned { job, .. } => {
                assert!(is_committed(job), "{event:?} precedes its commit");
                format!("ended {}", job.0)
            }
            Event::StateCounts { counts, .. } => {
                let ended = counts.iter().filter(|(state, _)| !["open", "running"].contains(state));
                let ended: usize = ended.map(|(_, count)| count).sum();
                assert!(ended <= self.committed.lock().unwrap().len(), "{counts:?} precede their commit");
                return;
            }
            Event::BuildFinished { .. } => "build finished".into(),
            _ => return,
        };
        self.lines.push(line);
    }
}

/// Asks for the status at each opportunity.
struct StatusClient {
    committed: Committed,
    requests: u64,
    answers: u64,
}

impl ControlServer for StatusClient {
    fn next(&mut self) -> Option<(u64, Request)> {
        if self.requests > self.answers {
            return None;
        }
        self.requests += 1;
        Some((self.requests, Request::Status))
    }

    fn answer(&mut self, _: u64, answer: Response) {
        self.answers += 1;
        let text = String::from_utf8(answer.out).unwrap();
        let counts = text.lines().next().unwrap().split(": ").nth(1).unwrap().split(", ");
        let ended = counts.filter(|count| !count.ends_with(" open") && !count.ends_with(" running"));
        let ended: usize = ended.map(|count| count.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
        assert!(ended <= self.committed.lock().unwrap().len(), "{text} precedes its commit");
    }
}

/// Lets the journal be flushed before each wait.
struct FlushedRunner<F>(FakeRunner<F>);

impl<F: FnMut(&Command) -> Effect> Runner for FlushedRunner<F> {
    fn capacity(&mut self) -> usize {
        self.0.capacity()
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        self.0.start(job, command, expected)
    }

    fn has_completed(&self) -> bool {
        false
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        self.0.wait(most)
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.0.abort()
    }
}

/// Runs `write`, then notes the packages that have ended.
fn noting(run: i64, committed: &Committed, mut write: Write) -> Write {
    let committed = Arc::clone(committed);
    let pending = |state: &str| ["open", "running"].contains(&state);
    Box::new(move |store, changes| {
        write(store, changes)?;
        store.apply(run, changes)?;
        committed.lock().unwrap().extend(changes.iter().filter_map(|change| match change {
            Change::State { package, state, .. } if !pending(state) => Some(*package),
            Change::Package(row) if !pending(&row.state) => Some(row.package),
            _ => None,
        }));
        Ok(())
    })
}

/// Builds, and returns the lines of the view, the number of answers and the result of the journal.
fn build(
    world: &World,
    plan: Plan,
    runner: &mut dyn Runner,
    write: Write,
) -> (Vec<String>, u64, Result<Database, DatabaseError>) {
    // Packages that the plan excludes are no results.
    let excluded = plan.all().filter(|&package| plan.package(package).state() != State::Open);
    let committed: Committed = Arc::new(Mutex::new(excluded.collect()));
    let write = noting(world.run, &committed, write);
    let mut journal = Journal::start_with(world.store(), write).unwrap();
    plan.rows().for_each(|change| journal.record(change));
    let times = vec![1; plan.packages.len()];
    let clock = FakeClock::default();
    let mut view = CheckedView { committed: Arc::clone(&committed), lines: Vec::new() };
    let mut control = StatusClient { committed, requests: 0, answers: 0 };
    let build = Build {
        settings: &world.settings,
        runner,
        view: &mut view,
        clock: &clock,
        epoch_ms: 0,
        control: &mut control,
        sources: Sources::default(),
        workdirs: Workdirs::of(world.scratch.text()),
        farm: None,
        keeps_provenance: false,
        sampler: None,
    };
    let (_, _, journal) = build.run(plan, &times, journal).unwrap();
    (view.lines, control.answers, journal.finish())
}

/// A package and one that needs it.
fn two_packages() -> Plan {
    let text = ["pkg0", "pkg1"].map(|it| format!("PKGNAME={it}-1\nPKG_LOCATION=cat/{it}\n")).concat();
    plan(&(text, vec![vec![], vec![0]]))
}

const ALL_TOLD: [&str; 5] = ["started 0", "started 1", "ended 0", "ended 1", "build finished"];

#[test]
fn results_are_told_after_their_commit() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let tree = tree(&mut random);
        let plan = plan(&tree);
        let mut fails = HashMap::new();
        for it in plan.packages.iter().filter(|_| random.below(6) == 0) {
            fails.insert(it.location.clone(), "fails");
        }
        let slots = 1 + random.below(4);
        let effect = |command: &Command| effect(command, &fails, &mut random, false);
        let mut runner = FlushedRunner(FakeRunner::new(slots, effect));
        let open = plan.packages.iter().filter(|it| it.state() == State::Open).count();
        let world = World::new(seed + 3_000_000);
        let (lines, answers, store) = build(&world, plan, &mut runner, Box::new(|_, _| Ok(())));
        assert!(answers > 0 && lines.last().is_some_and(|line| line == "build finished"), "seed {seed}");
        let ended: BTreeSet<&String> = lines.iter().filter(|line| line.starts_with("ended")).collect();
        assert!(ended.len() >= open, "seed {seed}: all results are told at the end");
        assert!(store.is_ok(), "seed {seed}");
    }
}

#[test]
fn dependents_start_while_a_commit_is_held_back() {
    let (release, held) = mpsc::channel::<()>();
    let mut release = Some(release);
    let effect = |command: &Command| {
        // The second package ends before the first is committed.
        if String::from_utf8_lossy(&command.line).contains("pkg1-1.tgz") {
            release = None;
        }
        Effect::success()
    };
    let write = Box::new(move |_: &mut Database, _: &[Change]| {
        let _ = held.recv();
        Ok(())
    });
    let (lines, _, store) = build(&World::new(3_100_000), two_packages(), &mut FakeRunner::new(1, effect), write);
    assert_eq!(lines, ALL_TOLD);
    assert!(store.is_ok());
}

#[test]
fn failing_commit_tells_no_result() {
    let write = Box::new(|_: &mut Database, changes: &[Change]| {
        let is_end = |change: &Change| matches!(change, Change::State { state: "done", .. });
        if changes.iter().any(is_end) { Err(DatabaseError::Damaged("a test".into())) } else { Ok(()) }
    });
    let mut runner = FakeRunner::new(1, |_: &Command| Effect::success());
    let (lines, _, store) = build(&World::new(3_200_000), two_packages(), &mut runner, write);
    assert_eq!(lines, ["started 0", "started 1", "build finished"]);
    assert!(store.unwrap_err().to_string().starts_with("damaged (a test)"));
}

#[test]
fn full_disk_delays_results() {
    let mut refusals = 2;
    let write = Box::new(move |_: &mut Database, _: &[Change]| {
        refusals -= i32::from(refusals > 0);
        if refusals > 0 { Err(DatabaseError::Full) } else { Ok(()) }
    });
    let mut runner = FakeRunner::new(1, |_: &Command| Effect::success());
    let (lines, _, store) = build(&World::new(3_300_000), two_packages(), &mut runner, write);
    assert_eq!(lines, ALL_TOLD);
    assert!(store.is_ok());
}
