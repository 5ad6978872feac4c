//! What happens to each package of a run, and writing it down. Does not know how commands are run.

mod bounds;
mod faults;
mod news;
mod notes;
mod room;
mod standing;
mod wishes;

use std::collections::BTreeMap;
use std::fs;

use tanto_exec::clock::Clock;
use tanto_exec::job::report::{MonitorReport, Termination, TerminationReason};
use tanto_exec::job::{Command, Completion, Exit, JobId};
use tanto_record::database::Change;
use tanto_record::database::journal::Journal;

use self::bounds::logged;
use self::faults::{machines_fault, told, wants_root, was_killed, why};
use self::notes::cpu_ms;
use super::clients::{self, Clients};
use super::control_socket::Desk;
use super::plan::Plan;
use super::sources::Sources;
use super::state::{Current, MACHINE, PackageState, Pending, State, StateRecord, Success};
use crate::attempt::build_settings::Site;
use crate::config::Stage;
use crate::resolve::Package;

/// How often a package is tried whose failure is the machine's.
const MOST_ATTEMPTS: u32 = 3;
/// Why a package needs root of which that was not known before it was built.
const WANTS_ROOT: &str = "it wants to be another user, or that files belong to one";
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
    running: BTreeMap<Package, Progress>,
    /// Where users ask.
    desk: &'a mut dyn Desk,
    /// From which it follows what packages need.
    sources: Sources,
    /// Changes of states that the view has not been told.
    records: Vec<StateRecord>,
    /// Packages that are open again although their job has just ended in the schedule.
    reopened: Vec<Package>,
    /// These are built on the disk from now on, and in memory before.
    moved: Vec<Package>,
    /// For the view: stages that packages have come to, and that states are others.
    stages: Vec<(Package, Stage, i64)>,
    has_moved: bool,
    moved_ms: i64,
    clients: Clients,
    /// For the user, not yet told.
    notices: Vec<String>,
    /// As it was last told.
    told_full: bool,
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
    /// The most memory that its processes held, without what was kept there as files, if all that it writes is.
    peak_kib: u64,
    disk_kib: u64,
    /// How many KiB it may write in memory; none: it writes on the disk.
    room_kib: Option<u64>,
    /// How often it was tried before, in a row.
    tries: u32,
    /// Its failure was the machine's: it is tried again when it is cleaned up.
    retries: bool,
    /// It has written more than may be in memory: then it is tried again on the disk, and nobody is to blame.
    outgrew: bool,
    /// Something killed it, perhaps for memory: not before there is room for what it had.
    crowded: bool,
    /// The user wants it to end.
    killed: bool,
}

#[derive(Clone)]
struct Failure {
    exit: Exit,
    why: String,
    /// The package's state from then on.
    state: State,
    /// For the user: the end of what was printed, why, and where the rest is.
    told: Vec<u8>,
    /// How it was ended, if it was.
    stopped: Option<Termination>,
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
            running: BTreeMap::new(),
            desk,
            sources,
            records: Vec::new(),
            reopened: Vec::new(),
            moved: Vec::new(),
            stages: Vec::new(),
            has_moved: true,
            moved_ms: i64::MIN,
            clients,
            notices: Vec::new(),
            told_full: false,
        }
    }

    /// Nothing more is built; if there is nothing left to be, the run is over, and that is noted. The plan as it is now, and
    /// what is to be waited for.
    pub fn close(mut self) -> (Plan, Journal) {
        if !self.plan.has_open() {
            self.journal.record(Change::Ended { at_ms: self.date(self.clock.now_ms()) });
        }
        (self.plan, self.journal)
    }

    /// Begins a package: its first command, or `None` if it is up to date or cannot be built here.
    pub fn begin(&mut self, package: Package) -> Option<Command> {
        let Some(why) = self.plan.due(package) else {
            self.note_options(package, false);
            self.set(package, PackageState::Done(Success::UpToDate));
            return None;
        };
        if self.site.one_user && !self.plan.package(package).usergroup_phase.is_empty() {
            self.end(package, PackageState::NeedsRoot(State::OTHER_USERS.into()));
            return None;
        }
        if !why.is_empty() {
            self.journal.record(Change::Due { package, why });
        }
        let (failures, not) = match *self.plan.package(package).package_state() {
            PackageState::Open(Pending::OutOfMemory { failures, client }) => (failures, Some(client)),
            _ => (0, None),
        };
        Some(self.attempt(package, failures, not))
    }

    /// Reopens a package that was interrupted.
    pub fn interrupted(&mut self, package: Package) {
        let Some(progress) = self.running.remove(&package) else { return };
        self.clients.release(progress.client);
        if !progress.retries {
            self.note_attempt(package, &progress, "interrupted", "");
        }
        let publishing = progress.stage == Stage::SyncPackage;
        let pending = self.rebuild(package).map_or(Pending::Interrupted { publishing }, Pending::Rebuild);
        self.set(package, PackageState::Open(pending));
    }

    /// Records the end of a package's job.
    pub fn finish(&mut self, package: Package, exit: Exit) {
        let progress = self.running.remove(&package).expect("it was begun");
        if progress.crowded {
            self.blame(progress.client, package);
            let pending = Pending::OutOfMemory { failures: progress.tries + 1, client: progress.client };
            self.end(package, PackageState::Open(pending));
            return;
        }
        self.clients.release(progress.client);
        let state = progress.failed.as_ref().map_or(State::Failed, |failed| failed.state);
        if exit.success() && state != State::NeedsRoot {
            self.clients.praise(progress.client);
            let left = progress.left.join("; ");
            self.note_attempt(package, &progress, "done", &left);
            self.note_cost(package, &progress);
            self.note_content(package);
            self.note_options(package, true);
            self.end(package, PackageState::Done(Success::Built(left)));
            // What it printed is of no more use.
            let _ = fs::remove_dir_all(self.logs(package));
            return;
        }
        self.keep_out(package, progress.client);
        let why: Vec<String> = progress.failed.iter().map(|it| it.why.clone()).chain(progress.left.clone()).collect();
        let why = why.join("; ");
        if state == State::MachineFailed {
            self.blame(progress.client, package);
        }
        let outcome = if state == State::MachineFailed { MACHINE } else { state.name() };
        self.note_attempt(package, &progress, outcome, &why);
        self.end(package, PackageState::restore(state, &why));
    }

    /// Sets the state that a package's turn has led to. It is open instead if another build was requested meanwhile.
    fn end(&mut self, package: Package, state: PackageState) {
        let state = self.rebuild(package).map_or(state, |records| PackageState::Open(Pending::Rebuild(records)));
        let kind = state.kind();
        self.set(package, state);
        if kind == State::Open {
            self.reopened.push(package);
        } else if kind.is_lost() {
            let records = self.plan.fail_dependents(package);
            self.publish(records);
        }
    }

    /// The request to build a running package once more.
    fn rebuild(&self, package: Package) -> Option<Vec<u8>> {
        match self.plan.package(package).package_state() {
            PackageState::Running(current) => current.rebuild.clone(),
            _ => None,
        }
    }

    /// What it has left in its sandbox for its logs gets there.
    fn keep_out(&self, package: Package, client: usize) {
        if let Some(sandbox) = &self.site.sandbox {
            // What cannot be kept is no failure of anything.
            let file = format!("{}{}", self.plan.package(package).name, self.site.suffix);
            let _ = sandbox.keep_out(client, &self.logs(package), &file);
        }
    }

    /// Somebody tries to build it; in vain so many times before; rather not that client.
    fn attempt(&mut self, package: Package, tries: u32, not: Option<usize>) -> Command {
        let now_ms = self.clock.now_ms();
        let attempt = self.plan.tries(package);
        let stage = Stage::after(None, self.plan.package(package), self.site).expect("each package has stages");
        let client = self.clients.take(not);
        let room = self.room(package);
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
            disk_kib: self.known_to_write(package),
            room_kib: room.map(|bytes| bytes / 1024),
            tries,
            retries: false,
            outgrew: false,
            crowded: false,
            killed: false,
        };
        let rebuild = self.rebuild(package);
        self.set(package, PackageState::Running(Current { attempt, client, failures: tries, rebuild }));
        self.stages.push((package, stage, now_ms));
        self.journal.record(Change::Attempt(self.attempt_row(package, &progress, None, "", "")));
        self.running.insert(package, progress);
        if let Some(sandbox) = &self.site.sandbox {
            // Without its plan nobody can enter, and says so.
            let _ = sandbox.begin(client, &self.plan.package(package).name, room);
        }
        self.command(package, stage)
    }

    fn command(&self, package: Package, stage: Stage) -> Command {
        let client = self.running[&package].client;
        let line = stage.command(self.site, &self.plan, package, client).into_bytes();
        Command { line, console: false, limits: self.bounds(package, stage) }
    }

    fn set(&mut self, package: Package, state: PackageState) {
        let record = self.plan.set(package, state);
        self.publish(record);
    }

    /// A stage has failed: the package is tried again if that was the machine's fault, else it is cleaned up.
    fn failed(
        &mut self,
        package: Package,
        completion: &mut Completion,
        log: &str,
        fault: Option<String>,
    ) -> Option<Command> {
        let progress = self.running.get_mut(&package).expect("it runs");
        let why = if progress.killed { KILLED.to_owned() } else { why(progress.stage, completion) };
        let fault = fault.or_else(|| machines_fault(progress.stage, completion).map(str::to_owned));
        let fault = fault.filter(|_| !progress.killed);
        if let Some(fault) = &fault
            && progress.tries + 1 < MOST_ATTEMPTS
        {
            (progress.retries, progress.crowded) = (true, was_killed(completion));
            let had = progress.had();
            self.note_fault(package, &format!("{why}: {fault}"));
            // Files in memory may have had a part in that.
            self.leave_memory(package, had);
            // What lies in its sandbox goes before it is tried elsewhere: it may be what fills the disk.
            return match self.site.sandbox {
                Some(_) => Some(self.enter(package, Stage::Clean)),
                None => self.retry(package, completion),
            };
        }
        let told = told(&completion.output, &why, log);
        let needs_root = self.site.one_user && !progress.killed && wants_root(progress.stage, completion);
        let (state, why) = match fault {
            _ if needs_root => (State::NeedsRoot, format!("{why}: {WANTS_ROOT}")),
            // What is killed each time may need more memory than the machine has.
            Some(fault) if !was_killed(completion) => (State::MachineFailed, format!("{why}: {fault}")),
            _ => (State::Failed, why),
        };
        let stopped = completion.report.as_ref().and_then(|report| report.termination.clone());
        progress.failed = Some(Failure { exit: completion.exit, why, state, told, stopped });
        let next = Stage::after_failure(progress.stage, self.site).expect("it is cleaned up");
        Some(self.enter(package, next))
    }

    /// It is tried again, for its failure was the machine's: at once, or when its turn comes again.
    fn retry(&mut self, package: Package, completion: &mut Completion) -> Option<Command> {
        if self.running[&package].crowded {
            // That it has ended for now is told, and no failure.
            (completion.exit, completion.output, completion.report) = (Exit::Code(0), Vec::new(), None);
            return None;
        }
        let progress = self.running.remove(&package).expect("it runs");
        Some(if progress.outgrew {
            self.clients.release(progress.client);
            self.attempt(package, progress.tries, None)
        } else {
            self.blame(progress.client, package);
            self.attempt(package, progress.tries + 1, Some(progress.client))
        })
    }

    /// Takes what there is to tell of a stage's sandbox and of its processes. Says why the sandbox could not be entered, if
    /// it could not.
    fn heed_report(&mut self, package: Package, completion: &mut Completion) -> Option<String> {
        let progress = self.running.get_mut(&package).expect("it runs");
        // Otherwise it would be that of the stage before.
        let sandbox = self.site.sandbox.as_ref().filter(|_| progress.stage.enters());
        let report = sandbox.map(|it| it.place(progress.client).report()).unwrap_or_default();
        if completion.report.as_ref().is_some_and(|report| report.termination.is_some()) {
            // What it says then is how the monitor ended it.
            return report.fault;
        }
        progress.disk_kib = progress.disk_kib.max(report.written_kib.unwrap_or(0));
        if let Some(signal) = report.signal {
            completion.exit = Exit::Signal(signal);
        }
        let seen = completion.report.iter().flat_map(|report| &report.leftovers);
        let outside = seen.map(|process| String::from_utf8_lossy(&process.command).into_owned());
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
        let log = self.write_log(package, stage, &logged(stage, completion));
        self.note_stage(package, completion, log.clone());
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.cpu_ms += cpu_ms(completion.usage);
        progress.peak_kib = progress.peak_kib.max(completion.usage.max_rss_kib);
        if progress.retries {
            return self.retry(package, completion);
        }
        if let Some(failure) = progress.failed.clone() {
            if stage == Stage::SyncBuildlog && !completion.exit.success() {
                let name = &self.plan.package(package).name;
                self.notices.push(format!("{name}: {}; {log}", why(stage, completion)));
            }
            (completion.exit, completion.output) = match failure.state {
                // It is no failure, so nobody is told of one.
                State::NeedsRoot => (Exit::Code(0), Vec::new()),
                _ => (failure.exit, failure.told),
            };
            if let Some(stopped) = failure.stopped {
                completion.report =
                    Some(Box::new(MonitorReport { termination: Some(stopped), ..MonitorReport::default() }));
            }
            let next = Stage::after_failure(stage, self.site)?;
            if next == Stage::SyncBuildlog {
                self.keep_out(package, self.running[&package].client);
            }
            return Some(self.enter(package, next));
        }
        if progress.killed && completion.exit.success() {
            completion.exit = Exit::Code(TerminationReason::Requested.exit_code());
        }
        if self.has_outgrown(package, completion) {
            return Some(self.go_to_disk(package, completion));
        }
        if !completion.exit.success() && stage != Stage::Clean {
            return self.failed(package, completion, &log, fault);
        }
        match stage {
            Stage::Package if self.site.sandbox.is_none() => self.measure(package),
            Stage::SyncPackage => self.note_file(package),
            _ => {}
        }
        completion.exit = Exit::Code(0);
        completion.output.clear();
        let next = Stage::after(Some(stage), self.plan.package(package), self.site)?;
        Some(self.enter(package, next))
    }
}
