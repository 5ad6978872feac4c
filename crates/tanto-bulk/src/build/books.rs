//! What happens to each package of a run, and writing it down. Does not know how commands are run.

mod standing;
mod wishes;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::{Command, Completion, Exit, JobId, Usage};
use tanto_exec::monitor::findings::Why;
use tanto_record::store::journal::Journal;
use tanto_record::store::{Attempt, Change, Cost};

use super::clients::{self, Clients};
use super::plan::Plan;
use super::sources::Sources;
use super::stages::{Site, Stage};
use super::state::State;
use crate::check::{self, Content};
use crate::door::Desk;
use crate::resolve::Package;

/// How often a package is tried whose failure is the machine's.
const MOST_ATTEMPTS: u32 = 3;
/// So often a view hears how packages stand, at most; in milliseconds.
const STANDING_MS: i64 = 500;
/// Why a package has failed that the user has ended.
const KILLED: &str = "killed by the user";

/// What books begin with.
pub struct Opening<'a> {
    /// The packages.
    pub plan: Plan,
    /// Where they are built.
    pub site: &'a Site,
    /// What time it is.
    pub clock: &'a dyn Clock,
    /// When the clock stood at 0, in milliseconds since 1970.
    pub epoch_ms: i64,
    /// Where users ask.
    pub desk: &'a mut dyn Desk,
    /// From which it follows what packages need; nothing if that is not known.
    pub sources: Sources,
}

/// All that is known of a run that goes on.
pub struct Books<'a> {
    /// The packages, and where they stand.
    pub plan: Plan,
    site: &'a Site,
    clock: &'a dyn Clock,
    /// When the clock stood at 0, in milliseconds since 1970.
    epoch_ms: i64,
    journal: Journal,
    running: HashMap<Package, Progress>,
    /// Where users ask.
    desk: &'a mut dyn Desk,
    /// From which it follows what packages need.
    sources: Sources,
    /// These have ended, and are to be built once more.
    again: Vec<Package>,
    /// What was said of a directory while this package of it was being built.
    later: HashMap<Package, Vec<u8>>,
    /// Which attempt at a package was the last one of this build.
    attempts: HashMap<Package, u32>,
    /// For the view: stages that packages have come to, and that states are others.
    stages: Vec<(Package, Stage, i64)>,
    has_moved: bool,
    moved_ms: i64,
    clients: Clients,
    /// For the user, not yet told.
    notices: Vec<String>,
    /// As it was last told.
    told_full: bool,
    /// The package whose turn came last, if there was nothing to do.
    stood: Option<Package>,
}

/// How far a package has come.
struct Progress {
    attempt: u32,
    /// Who builds it.
    client: usize,
    began_ms: i64,
    stage: Stage,
    stage_began_ms: i64,
    /// What its stages have left running, in words.
    left: Vec<String>,
    /// Why it has failed; then it is only cleaned up.
    failed: Option<Failure>,
    cpu_ms: u64,
    peak_kib: u64,
    /// How often it was tried before, in a row.
    tries: u32,
    /// The user wants it to end.
    killed: bool,
    /// When it has ended, it is to be built once more.
    again: bool,
}

#[derive(Clone)]
struct Failure {
    exit: Exit,
    why: String,
    /// For the user: the end of what was printed, why, and where the rest is.
    told: Vec<u8>,
}

impl<'a> Books<'a> {
    /// The books of a run that begins.
    pub fn new(opening: Opening<'a>, journal: Journal) -> Books<'a> {
        let Opening { plan, site, clock, epoch_ms, desk, sources } = opening;
        let clients = Clients::new(site.clients);
        Books {
            plan,
            site,
            clock,
            epoch_ms,
            journal,
            running: HashMap::new(),
            desk,
            sources,
            again: Vec::new(),
            later: HashMap::new(),
            attempts: HashMap::new(),
            stages: Vec::new(),
            has_moved: true,
            moved_ms: i64::MIN,
            clients,
            notices: Vec::new(),
            told_full: false,
            stood: None,
        }
    }

    /// The view hears what has changed since.
    pub fn tell(&mut self, view: &mut dyn View) {
        for (package, stage, at_ms) in self.stages.drain(..) {
            view.event(Event::Stage { job: JobId(package), stage: stage.name(), at_ms });
        }
        let now_ms = self.clock.now_ms();
        if self.has_moved && now_ms - STANDING_MS >= self.moved_ms {
            (self.has_moved, self.moved_ms) = (false, now_ms);
            view.event(Event::Standing { counts: &self.counts(), at_ms: now_ms });
        }
    }

    /// All that was noted goes to the database. False if that fails for good.
    pub fn flush(&mut self) -> bool {
        self.journal.flush()
    }

    /// There is no room for what is noted: nothing more is to be started.
    pub fn disk_is_full(&self) -> bool {
        self.journal.disk_is_full()
    }

    /// Is the disk full, and was that not told yet?
    pub fn has_news_of_the_disk(&mut self) -> bool {
        let full = self.disk_is_full();
        full && !std::mem::replace(&mut self.told_full, full)
    }

    /// May another package begin?
    pub fn may_begin(&self) -> bool {
        !self.disk_is_full() && self.clients.has_free()
    }

    /// There is nobody left to build anything.
    pub fn has_no_clients(&self) -> bool {
        self.clients.is_empty()
    }

    /// What the user has not been told.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Nothing more is built; if the run is over, that is noted. The plan as it is now, and what is to be waited for.
    pub fn close(mut self, is_over: bool) -> (Plan, Journal) {
        if is_over {
            self.journal.note(Change::Ended { at_ms: self.date(self.clock.now_ms()) });
        }
        (self.plan, self.journal)
    }

    /// Has its turn just shown that it is up to date? Others that are done were never waited for.
    pub fn has_stood(&mut self, package: Package) -> bool {
        self.stood.take_if(|stood| *stood == package).is_some()
    }

    /// A package's turn has come: its first command, or nothing if it turns out to be up to date.
    pub fn begin(&mut self, package: Package) -> Option<Command> {
        let Some(why) = self.plan.due(package) else {
            self.stood = Some(package);
            self.set(package, State::Done, State::UP_TO_DATE.into());
            return None;
        };
        if !why.is_empty() {
            self.journal.note(Change::Due { package, why });
        }
        self.set(package, State::Running, String::new());
        Some(self.attempt(package, 0, None))
    }

    /// A package was interrupted: it will be built again.
    pub fn interrupted(&mut self, package: Package) {
        if let Some(progress) = self.running.remove(&package) {
            self.clients.release(progress.client);
            self.note_attempt(package, &progress, "interrupted", "");
        }
        self.set(package, State::Open, String::new());
    }

    /// A package is done, or has failed, with all that needs it, which is told: they are not built.
    pub fn finish(&mut self, package: Package, exit: Exit) -> Vec<Package> {
        let progress = self.running.remove(&package).expect("it was begun");
        self.clients.release(progress.client);
        self.again.extend(progress.again.then_some(package));
        if exit.success() {
            self.clients.praise(progress.client);
            let left = progress.left.join("; ");
            self.note_attempt(package, &progress, "done", &left);
            self.note_cost(package, &progress);
            self.note_content(package);
            self.set(package, State::Done, left);
            // What it printed is of no more use.
            let _ = fs::remove_dir_all(self.logs(package));
            return Vec::new();
        }
        if let Some(sandbox) = &self.site.sandbox {
            // What cannot be kept is no failure of anything.
            let _ = sandbox.keep_out(progress.client, &self.logs(package));
        }
        let why = progress.failed.as_ref().map(|failed| failed.why.clone()).unwrap_or_default();
        self.note_attempt(package, &progress, "failed", &why);
        self.set(package, State::Failed, why);
        let fallen = self.plan.fell(package);
        for &fallen in &fallen {
            let it = self.plan.package(fallen);
            let (state, why) = (it.state, it.why.clone());
            self.note_state(fallen, state, why);
        }
        fallen
    }

    /// A package was built. If that brought the same as before, as far as it is asked, nothing else is built for that.
    fn note_content(&mut self, package: Package) {
        let Site { pkgsrc, packages, suffix, .. } = self.site;
        let place = check::Place { pkgsrc, packages, suffix, contents: true };
        let it = self.plan.package(package);
        let renewed = it.content.as_ref().and_then(|before| place.renewed(&it.name, before));
        match &renewed {
            Some(Content { written_ns, since_ns, .. }) if since_ns < written_ns => {
                let (name, written_ns, since_ns) = (it.name.clone(), *written_ns, *since_ns);
                self.journal.note(Change::Content { name, written_ns, since_ns });
            }
            _ => self.plan.built(package),
        }
        self.plan.holds(package, renewed);
    }

    /// Somebody tries to build it; in vain so many times before; rather not that client.
    fn attempt(&mut self, package: Package, tries: u32, not: Option<usize>) -> Command {
        let now_ms = self.clock.now_ms();
        let last = self.attempts.entry(package).or_default();
        *last += 1;
        let attempt = *last;
        let stage = Stage::after(None, self.plan.package(package), self.site).expect("each package has stages");
        let client = self.clients.take(not);
        let progress = Progress {
            attempt,
            client,
            began_ms: now_ms,
            stage,
            stage_began_ms: now_ms,
            left: Vec::new(),
            failed: None,
            cpu_ms: 0,
            peak_kib: 0,
            tries,
            killed: false,
            again: false,
        };
        self.stages.push((package, stage, now_ms));
        self.journal.note(Change::Attempt(self.attempt_row(package, &progress, None, "", "")));
        self.running.insert(package, progress);
        if let Some(sandbox) = &self.site.sandbox {
            // Without its plan nobody can enter, and says so.
            let _ = sandbox.begin(client, &self.plan.package(package).name);
        }
        self.command(package, stage)
    }

    fn command(&self, package: Package, stage: Stage) -> Command {
        let client = self.running[&package].client;
        Command { line: stage.command(self.site, &self.plan, package, client).into_bytes(), console: false }
    }

    fn set(&mut self, package: Package, state: State, why: String) {
        self.plan.set(package, state, why.clone());
        self.note_state(package, state, why);
    }

    fn note_state(&mut self, package: Package, state: State, why: String) {
        self.has_moved = true;
        self.journal.note(Change::State { package, state: state.name(), why });
    }

    /// A package is something else now.
    fn note_again(&mut self, package: Package) {
        self.has_moved = true;
        self.plan.rows_of(package).for_each(|change| self.journal.note(change));
    }

    /// Who builds it.
    fn client(&self, it: &Progress) -> String {
        clients::name(it.client)
    }

    /// Milliseconds since 1970.
    fn date(&self, ms: i64) -> i64 {
        self.epoch_ms.saturating_add(ms)
    }

    fn note_attempt(&mut self, package: Package, progress: &Progress, outcome: &str, why: &str) {
        let ended_ms = Some(self.date(self.clock.now_ms()));
        self.journal.note(Change::Attempt(self.attempt_row(package, progress, ended_ms, outcome, why)));
    }

    fn attempt_row(&self, job: u32, it: &Progress, ended_ms: Option<i64>, outcome: &str, why: &str) -> Attempt {
        Attempt {
            job,
            attempt: it.attempt,
            client: self.client(it),
            began_ms: self.date(it.began_ms),
            ended_ms,
            outcome: outcome.into(),
            why: why.into(),
        }
    }

    fn note_stage(&mut self, package: Package, completion: &Completion, log: String) {
        let progress = &self.running[&package];
        let usage = completion.usage;
        self.journal.note(Change::Stage(tanto_record::store::Stage {
            job: package,
            attempt: progress.attempt,
            stage: progress.stage.name().into(),
            began_ms: self.date(progress.stage_began_ms),
            wall_ms: u64::try_from(self.clock.now_ms() - progress.stage_began_ms).unwrap_or(0),
            cpu_ms: cpu_ms(usage),
            peak_kib: usage.max_rss_kib,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
            exit: completion.exit.code(),
            log,
        }));
    }

    fn note_cost(&mut self, package: Package, progress: &Progress) {
        let it = self.plan.package(package);
        let now_ms = self.clock.now_ms();
        self.journal.note(Change::Cost(Cost {
            name: it.name.clone(),
            location: it.location.clone(),
            at_ms: self.date(now_ms),
            wall_ms: u64::try_from(now_ms - progress.began_ms).unwrap_or(0),
            cpu_ms: progress.cpu_ms,
            peak_kib: progress.peak_kib,
            disk_kib: 0,
        }));
    }

    fn logs(&self, package: Package) -> PathBuf {
        PathBuf::from(&self.site.logs).join(&self.plan.package(package).name)
    }

    /// What a stage printed, in a file; its name, or nothing if it printed nothing. A log that cannot be written is no
    /// failure of the package.
    fn write_log(&self, package: Package, stage: Stage, output: &[u8]) -> String {
        let path = self.logs(package).join(format!("{}.log", stage.name()));
        let write = || fs::create_dir_all(self.logs(package)).and_then(|()| fs::write(&path, output));
        if output.is_empty() || write().is_err() { String::new() } else { path.to_string_lossy().into_owned() }
    }

    /// A stage has failed: the package is tried again if that was the machine's fault, else it is cleaned up.
    fn failed(&mut self, package: Package, completion: &Completion, log: &str, fault: Option<String>) -> Command {
        let progress = self.running.get_mut(&package).expect("it runs");
        let why = if progress.killed { KILLED.to_owned() } else { why(progress.stage, completion) };
        if let Some(fault) = fault.or_else(|| machines_fault(completion).map(str::to_owned))
            && progress.tries + 1 < MOST_ATTEMPTS
            && !progress.killed
        {
            let progress = self.running.remove(&package).expect("it runs");
            self.note_attempt(package, &progress, "machine", &format!("{why}: {fault}"));
            self.blame(progress.client, package);
            let first = self.attempt(package, progress.tries + 1, Some(progress.client));
            self.running.entry(package).and_modify(|it| it.again = progress.again);
            return first;
        }
        let told = told(&completion.output, &why, log);
        progress.failed = Some(Failure { exit: completion.exit, why, told });
        self.enter(package, Stage::after_failure(self.site))
    }

    /// Takes what there is to tell of a stage's sandbox and of its processes. Says why the sandbox could not be entered, if
    /// it could not.
    fn heed_report(&mut self, package: Package, completion: &mut Completion) -> Option<String> {
        let progress = self.running.get_mut(&package).expect("it runs");
        let report = self.site.sandbox.as_ref().map(|it| it.place(progress.client).report()).unwrap_or_default();
        if completion.findings.as_ref().is_some_and(|findings| findings.stopped.is_some()) {
            // What it says then is how the monitor ended it.
            return report.fault;
        }
        if let Some(signal) = report.signal {
            completion.exit = Exit::Signal(signal);
        }
        let seen = completion.findings.iter().flat_map(|findings| &findings.left);
        let outside = seen.map(|process| String::from_utf8_lossy(&process.line).into_owned());
        let left: Vec<String> = outside.chain(report.left).collect();
        if !left.is_empty() {
            let told = format!("{} left processes running: {}", progress.stage.name(), left.join(", "));
            self.notices.push(format!("{}: {told}", self.plan.package(package).name));
            progress.left.push(told);
        }
        report.fault
    }

    fn blame(&mut self, client: usize, package: Package) {
        self.clients.release(client);
        if self.clients.blame(client, package) {
            let name = clients::name(client);
            self.notices.push(format!("{name} gets no more packages: several failed on it that were not to blame"));
        }
    }

    fn enter(&mut self, package: Package, stage: Stage) -> Command {
        let now_ms = self.clock.now_ms();
        let progress = self.running.get_mut(&package).expect("it runs");
        (progress.stage, progress.stage_began_ms) = (stage, now_ms);
        self.stages.push((package, stage, now_ms));
        self.command(package, stage)
    }
}

impl Books<'_> {
    /// A command of a package has ended: the next one, or nothing, and then `finish` comes next.
    pub fn stage_ended(&mut self, completion: &mut Completion) -> Option<Command> {
        let JobId(package) = completion.job;
        let stage = self.running[&package].stage;
        let fault = self.heed_report(package, completion);
        if completion.exit.interrupted() {
            // One of its own processes sent that: it is no wish of the user's.
            completion.exit = Exit::Code(1);
        }
        let log = self.write_log(package, stage, &completion.output);
        self.note_stage(package, completion, log.clone());
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.cpu_ms += cpu_ms(completion.usage);
        progress.peak_kib = progress.peak_kib.max(completion.usage.max_rss_kib);
        if let Some(failure) = progress.failed.clone() {
            (completion.exit, completion.output) = (failure.exit, failure.told);
            if stage == Stage::Keep {
                return Some(self.enter(package, Stage::Clean));
            }
            return None;
        }
        if progress.killed && completion.exit.success() {
            completion.exit = Exit::Code(Why::Wanted.code());
        }
        if !completion.exit.success() && stage != Stage::Clean {
            return Some(self.failed(package, completion, &log, fault));
        }
        completion.exit = Exit::Code(0);
        completion.output.clear();
        let next = Stage::after(Some(stage), self.plan.package(package), self.site)?;
        Some(self.enter(package, next))
    }
}

fn cpu_ms(usage: Usage) -> u64 {
    (usage.user_us + usage.system_us) / 1000
}

/// In words.
fn why(stage: Stage, completion: &Completion) -> String {
    let stopped = completion.findings.as_ref().and_then(|findings| findings.stopped.as_ref());
    match (stopped, completion.exit) {
        (Some(_), _) => format!("{} was ended by the monitor", stage.name()),
        (None, Exit::Code(code)) => format!("{} exited with {code}", stage.name()),
        (None, Exit::Signal(signal) | Exit::Dumped(signal)) => format!("{} died of signal {signal}", stage.name()),
    }
}

/// So much of a failed stage's output is shown.
const SHOWN: usize = 2 << 10;

fn told(output: &[u8], why: &str, log: &str) -> Vec<u8> {
    let from = output.len().saturating_sub(SHOWN);
    let line = if from == 0 { 0 } else { memchr::memchr(b'\n', &output[from..]).map_or(from, |end| from + end + 1) };
    let place = if log.is_empty() { String::new() } else { format!("; all that it printed is in {log}") };
    [&output[line..], why.as_bytes(), place.as_bytes(), b"\n"].concat()
}

const SIGKILL: i32 = 9;
/// What programs print when a disk is full.
const FULL: &[u8] = b"No space left on device";
/// How much of the end of the output is searched for that.
const TAIL: usize = 16 << 10;

/// Why a failure is not the package's, if it is not.
fn machines_fault(completion: &Completion) -> Option<&'static str> {
    let tail = &completion.output[completion.output.len().saturating_sub(TAIL)..];
    let was_stopped = completion.findings.as_ref().is_some_and(|findings| findings.stopped.is_some());
    match completion.exit {
        Exit::Signal(SIGKILL) if !was_stopped => Some("something killed it, perhaps for memory"),
        Exit::Code(126) if completion.output.starts_with(b"cannot start a command: ") => Some("no process to be had"),
        _ if memchr::memmem::find(tail, FULL).is_some() => Some("the disk is full"),
        _ => None,
    }
}
