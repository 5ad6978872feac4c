//! A build directory in memory: a virtual disk, both logs, and scripted commands.

use tanto_exec::clock::FakeClock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::Command;
use tanto_exec::job::CostLookup;
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::fake::{Effect, FakeRunner};
use tanto_exec::schedule::{ResourceSample, Schedule};
use tanto_ninja::disk::VirtualDisk;
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::frontend::{FrontendOptions, NinjaFrontend};
use tanto_ninja::graph::Graph;
use tanto_ninja::ids::NodeId;
use tanto_ninja::load::{self, LoadOptions};
use tanto_ninja::logs::{BuildLog, DepsLog};
use tanto_ninja::scan::{PrefetchOptions, Scan};

/// Common rules. See `effect` for the commands.
pub const RULES: &str = "\
rule make
  command = make $out
rule keep
  command = keep $out
  restat = 1
rule fail
  command = fail $out
";

/// The state that persists between builds.
pub struct World {
    pub disk: VirtualDisk,
    graph: Graph<'static>,
    log: BuildLog,
    deps_log: DepsLog,
    pub options: FrontendOptions,
    pub prefetch: PrefetchOptions,
    pub failures_allowed: usize,
    /// Costs beside the log. If set, long commands run first.
    pub past: Option<CostLookup<'static>>,
}

/// The result of a build.
pub struct Built {
    pub verdict: BuildOutcome,
    /// In start order.
    pub commands: Vec<String>,
    /// The number of commands in the plan at the end.
    pub total: i64,
    /// Explanations as printed by `-d explain`.
    pub why: Vec<String>,
    /// Jobs not started because of a failure: `outputs <- number of the failed job`.
    pub skipped: Vec<String>,
    /// The states of all files and edges before the first command.
    pub known: String,
}

#[derive(Default)]
struct Counter {
    total: i64,
    why: Vec<String>,
    skipped: Vec<String>,
}

impl View for Counter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Planned { .. } => self.total += 1,
            Event::Unplanned { .. } => self.total -= 1,
            Event::Started { info, .. } => {
                self.why.extend(info.why.iter().map(|why| String::from_utf8_lossy(why).into_owned()));
            }
            Event::Skipped { outputs, because, .. } => {
                let outputs = String::from_utf8_lossy(&outputs.join(&b' ')).into_owned();
                self.skipped.push(format!("{outputs} <- {}", because.0));
            }
            _ => {}
        }
    }
}

impl World {
    /// The manifest is appended to `RULES`.
    pub fn new(manifest: &str, sources: &[&str]) -> World {
        let disk = VirtualDisk::new();
        sources.iter().for_each(|source| disk.put(source, ""));
        put_manifest(&disk, manifest);
        let graph = load(&disk);
        disk.tick();
        let (log, deps_log) = (BuildLog::in_memory(7), DepsLog::in_memory());
        World {
            disk,
            graph,
            log,
            deps_log,
            options: FrontendOptions::default(),
            prefetch: PrefetchOptions::default(),
            failures_allowed: 1,
            past: None,
        }
    }

    /// Replaces the log by an empty one of another version.
    pub fn with_log_version(self, version: u32) -> World {
        World { log: BuildLog::in_memory(version), ..self }
    }

    /// Replaces the manifest but keeps the files and the build log; drops discovered inputs.
    pub fn rewrite(&mut self, manifest: &str) {
        put_manifest(&self.disk, manifest);
        self.reload();
    }

    /// Drops discovered inputs and loaded dyndep files, like a new process with only the build log.
    pub fn reload(&mut self) {
        self.graph = load(&self.disk);
        self.deps_log = DepsLog::in_memory();
    }

    /// Replaces the manifest but keeps the files and both logs, like a new process.
    pub fn restart(&mut self, manifest: &str) {
        put_manifest(&self.disk, manifest);
        let mut graph = load(&self.disk);
        let mut log = DepsLog::in_memory();
        for &out in self.deps_log.nodes() {
            let Some(deps) = self.deps_log.deps(out) else { continue };
            let ins: Vec<NodeId> = deps.ins().map(|input| graph.intern(self.graph.path(input))).collect();
            let out = graph.intern(self.graph.path(out));
            log.record(&mut graph, out, deps.mtime, &ins).expect("what was recorded before");
        }
        (self.graph, self.deps_log) = (graph, log);
    }

    /// Changes a file at a later time.
    pub fn touch(&self, path: &str) {
        self.disk.tick();
        self.disk.touch(path);
        self.disk.tick();
    }

    /// The number of inputs in the deps log.
    pub fn logged_deps(&self, output: &str) -> usize {
        let output = self.graph.lookup(output.as_bytes()).expect("an output of the manifest");
        self.deps_log.deps(output).map_or(0, |deps| deps.ins().len())
    }

    /// The states after a walk from each of the two targets.
    pub fn walk_twice(&mut self, targets: [&str; 2]) -> String {
        let nodes = targets.map(|target| self.graph.lookup(target.as_bytes()).expect("a target of the manifest"));
        let explanations = Explanations::new(ExplainLevel::All);
        let mut scan = Scan::new(&mut self.graph, &mut self.disk, &mut self.log, &mut self.deps_log, explanations);
        scan.prefetch = self.prefetch;
        for node in nodes {
            scan.prefetch(&[node]);
            let walked = scan.recompute_dirty(node);
            scan.end_prefetch();
            if let Err(error) = walked {
                return error.to_string();
            }
        }
        known(&scan)
    }

    /// Builds targets. An error is one before the first command.
    pub fn try_build(&mut self, targets: &str) -> Result<Built, String> {
        let mut disk = self.disk.clone();
        let node = |target: &str| self.graph.lookup(target.as_bytes()).expect("a target of the manifest");
        let targets: Vec<NodeId> = targets.split(' ').map(node).collect();
        let explanations = Explanations::new(ExplainLevel::All);
        let mut scan = Scan::new(&mut self.graph, &mut disk, &mut self.log, &mut self.deps_log, explanations);
        scan.prefetch = self.prefetch;
        let mut frontend = NinjaFrontend::new(scan, self.options.clone());
        let (mut schedule, mut view) = (Schedule::new(), Counter::default());
        frontend.add_targets(&mut schedule, &mut view, &targets).map_err(|error| error.to_string())?;
        let known = known(&frontend.scan);
        let files = self.disk.clone();
        let dry_run = self.options.dry_run;
        let mut runner = FakeRunner::new(0, |command: &Command| match dry_run {
            true => Effect::success(),
            false => effect(&files, &command.line),
        });
        frontend.cost_history = self.past;
        frontend.begin(&mut schedule, if self.past.is_some() { usize::MAX } else { 1 });
        let clock = FakeClock::default();
        let verdict = match schedule.has_work() {
            false => BuildOutcome::Succeeded,
            true => Build {
                frontend: &mut frontend,
                schedule: &mut schedule,
                runner: &mut runner,
                view: &mut view,
                clock: &clock,
                failures_allowed: self.failures_allowed,
                sampler: &mut ResourceSample::default,
            }
            .run(),
        };
        let commands = runner.started().iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        Ok(Built { verdict, commands, total: view.total, why: view.why, skipped: view.skipped, known })
    }

    /// Builds targets successfully; returns the commands that ran.
    pub fn build(&mut self, targets: &str) -> Vec<String> {
        let built = self.try_build(targets).expect("a build that begins");
        assert_eq!(built.verdict, BuildOutcome::Succeeded);
        built.commands
    }

    /// Asserts that nothing has to run.
    pub fn assert_clean(&mut self, target: &str) {
        assert_eq!(self.build(target), [""; 0]);
    }
}

/// The states of all files (dirty, mtime, explanation) and edges (ready, deps missing).
pub fn known(scan: &Scan<'_, '_>) -> String {
    let info = |node: NodeId| {
        let why = scan.explanations.of_nodes(scan.graph, &[node]).concat();
        let (path, why) = (scan.graph.path(node).escape_ascii(), why.escape_ascii());
        format!("{path} {} {} {why}\n", scan.is_dirty(node), scan.mtime(node))
    };
    let of = |edge| format!("{}{} ", u8::from(scan.outputs_ready(edge)), u8::from(scan.deps_missing(edge)));
    scan.graph.node_ids().map(info).chain(scan.graph.edge_ids().map(of)).collect()
}

fn put_manifest(disk: &VirtualDisk, manifest: &str) {
    disk.put("build.ninja", &format!("{RULES}{manifest}"));
}

fn load(disk: &VirtualDisk) -> Graph<'static> {
    // Leaked, because the graph borrows from it.
    let arena = Box::leak(Box::default());
    let disk = disk.clone();
    load::load(arena, &disk, b"build.ninja", LoadOptions::default(), &mut |_| {}).expect("a sound manifest")
}

/// Runs a command at a later time. Its parts are separated by semicolons: `make FILES` writes files, `keep FILES`
/// writes missing ones, `edit FILE` changes a file, `write FILE TEXT` writes one, `fail` exits with 1, `exit CODE` with
/// a code, and `stop` is a user interrupt.
fn effect(disk: &VirtualDisk, line: &[u8]) -> Effect {
    disk.tick();
    for part in String::from_utf8_lossy(line).split(';') {
        let words: Vec<&str> = part.split_whitespace().collect();
        match words.as_slice() {
            ["make" | "edit", files @ ..] => files.iter().for_each(|file| disk.touch(file)),
            ["keep", files @ ..] => files.iter().filter(|file| !disk.has(file)).for_each(|file| disk.touch(file)),
            ["write", file, text @ ..] => disk.put(file, &(text.join(" ").replace("\\n", "\n") + "\n")),
            ["fail", ..] => return Effect::ends(1, b""),
            ["exit", code] => return Effect::ends(code.parse().expect("a code"), b""),
            ["stop", ..] => return Effect::Interrupts(2),
            [] => {}
            other => panic!("no such command: {other:?}"),
        }
    }
    Effect::success()
}
