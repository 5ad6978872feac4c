//! Handles control requests during a build: status, log, retry, skip and kill.

mod distrust;

use std::collections::{BTreeMap, HashSet};

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::job::report::TerminationReason;
use tanto_exec::runner::Runner;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};

use super::control_socket::{REMOTE, Request, Response};
use super::dispatch::ClientIndex;
use super::frontend::Coordinator;
use super::plan::Planned;
use super::sources::{Merged, Rewired};
use super::state::{Current, Exclusion, PackageState, Pending, REQUESTED, State, StateRecord};
use crate::attempt::runner::{AttemptEvent, Task};
use crate::config::Stage;
use crate::freshness::Freshness;
use crate::package::records::{self, Record};
use crate::resolve::PackageId;

/// The maximum number of requests per turn of the loop.
const MAX_REQUESTS: usize = 16;

/// The parts of a build that requests change.
struct Control<'c, 'b> {
    coordinator: &'c mut Coordinator<'b>,
    schedule: &'c mut Schedule,
    runner: &'c mut dyn Runner<Task, AttemptEvent>,
    view: &'c mut dyn View,
    /// Changes of states that are not published yet.
    records: Vec<StateRecord>,
}

impl Coordinator<'_> {
    /// Reopens packages whose job has ended, and answers pending requests.
    pub(super) fn handle_requests(
        &mut self,
        schedule: &mut Schedule,
        runner: &mut dyn Runner<Task, AttemptEvent>,
        view: &mut dyn View,
    ) {
        for package in std::mem::take(&mut self.reopened) {
            Control { coordinator: self, schedule, runner, view, records: Vec::new() }.reopen(package);
        }
        for _ in 0..MAX_REQUESTS {
            let Some((connection, request)) = self.control.next() else { return };
            let changes = request.changes_packages();
            let answer = Control { coordinator: self, schedule, runner, view, records: Vec::new() }.handle(request);
            let recorded = match changes {
                true => self.journal.recorded(),
                // A status that warns is better than none.
                false if self.journal.disk_is_full() => 0,
                false => self.last_result.recorded(),
            };
            self.answers.push_back((recorded, connection, answer));
        }
    }

    /// Sends the answers whose records are committed.
    pub(super) fn send_answers(&mut self) {
        let committed = self.last_result.committed();
        for (recorded, connection, answer) in std::mem::take(&mut self.answers) {
            match recorded <= committed {
                true => self.control.answer(connection, answer),
                false => self.answers.push_back((recorded, connection, answer)),
            }
        }
    }
}

impl Control<'_, '_> {
    fn handle(&mut self, request: Request) -> Response {
        match request {
            Request::Status => Response::ok(self.coordinator.status(self.schedule)),
            Request::Why(package) => self.why(&package),
            Request::Log { package, stage } => self.log(&package, stage.as_deref()),
            Request::Follow { package, position } => match self.running_package(&package) {
                Ok(package) => self.coordinator.followed_output(package, position, &*self.runner),
                Err(why) => Response::refused(why),
            },
            Request::Retry { packages, records } => {
                let (known, unknown) = self.find(&packages);
                self.retry(&known, &unknown, &records)
            }
            Request::Skip(packages) => self.for_each(&packages, Self::skip),
            Request::Kill(packages) => self.for_each(&packages, Self::kill),
            Request::Clients => Response::ok(self.coordinator.clients_table()),
            Request::Drain(name) => self.coordinator.drain(&name).map_or_else(Response::refused, Response::ok),
            Request::Distrust { client, packages } => self.distrust(client, &packages),
            Request::Link => Response::refused("this connection cannot relay requests"),
        }
    }

    /// Returns the packages with these names, and the unknown names.
    fn find(&self, words: &[String]) -> (Vec<PackageId>, Vec<String>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for word in words {
            match self.coordinator.plan.find(word) {
                Ok(packages) => known.extend(packages),
                Err(_) => unknown.push(word.clone()),
            }
        }
        (known, unknown)
    }

    /// Applies a request to each package, or to none if one of them does not exist.
    fn for_each(&mut self, words: &[String], apply: fn(&mut Self, PackageId) -> Result<String, String>) -> Response {
        let mut packages = Vec::new();
        for word in words {
            match self.coordinator.plan.find(word) {
                Ok(named) => packages.extend(named),
                Err(why) => return Response::refused(why),
            }
        }
        let mut answer = Response::default();
        for package in packages {
            match apply(self, package) {
                Ok(line) => answer.out.extend_from_slice(format!("{line}\n").as_bytes()),
                Err(why) if answer.err.is_empty() => answer.err = why.into_bytes(),
                Err(why) => answer.err.extend_from_slice(format!("; {why}").as_bytes()),
            }
        }
        answer.code = u8::from(!answer.err.is_empty());
        self.settle(&[]);
        answer
    }

    fn name(&self, package: PackageId) -> String {
        self.coordinator.plan.package(package).name.clone()
    }

    /// Excludes a package from this run.
    fn skip(&mut self, package: PackageId) -> Result<String, String> {
        let name = self.name(package);
        match self.state(package) {
            State::Open | State::IndirectFailed | State::IndirectPrefailed => {
                self.set(package, PackageState::SKIPPED);
                let users = self.coordinator.plan.all_dependents(&[package]);
                let open = users.iter().filter(|&&user| self.state(user) == State::Open).count();
                Ok(format!("{name} will not be built in this run; dependents that will not be built: {open}"))
            }
            State::Running => Err(format!("{name} is being built: run 'tanto bulk kill {name}' to end it")),
            state => Err(format!("{name} is {}", state.name())),
        }
    }

    /// Terminates the running stage of a package, which fails.
    fn kill(&mut self, package: PackageId) -> Result<String, String> {
        let name = self.name(package);
        let Some(running) = self.coordinator.running.get(&package) else {
            return Err(format!("{name} is not being built"));
        };
        if running.stage >= Stage::Keep {
            return Err(format!("{name} has ended and is being cleaned up"));
        }
        let stage = running.stage.name();
        match self.coordinator.dispatch.current(package) {
            // The client hears of it with its next heartbeat.
            Some(lease) => self.coordinator.dispatch.stop(lease),
            // If nothing can be terminated, the stage fails when it ends.
            None => drop(self.runner.terminate(JobId(package), TerminationReason::Requested)),
        }
        Ok(format!("killing stage {stage} of {name}"))
    }

    fn why(&self, word: &str) -> Response {
        match self.coordinator.plan.find(word).as_deref() {
            Ok([package]) => Response::ok(self.coordinator.why_waiting(*package, self.schedule)),
            Ok(_) => Response::refused(format!("'{word}' is ambiguous")),
            Err(why) => Response::refused(why.as_str()),
        }
    }

    fn running_package(&self, word: &str) -> Result<PackageId, String> {
        let mut named = self.coordinator.plan.find(word)?;
        named.retain(|package| self.coordinator.running.contains_key(package));
        match named[..] {
            [package] => Ok(package),
            _ => Err(format!("{word} is not being built")),
        }
    }

    fn log(&mut self, word: &str, stage: Option<&str>) -> Response {
        let package = match self.running_package(word) {
            Ok(package) => package,
            Err(why) => return Response::refused(why),
        };
        let now = self.coordinator.running[&package].stage.name();
        if stage.is_some_and(|stage| stage != now) {
            return Response::refused(format!("{} is in stage {now}", self.name(package)));
        }
        if let ClientIndex::Remote(_) = self.coordinator.current(package).client {
            return Response { code: REMOTE, ..Response::default() };
        }
        Response::ok(self.runner.output_so_far(JobId(package)).unwrap_or_default())
    }

    /// Builds packages and their dependents again. `words` are names that are not in the plan; the scan records of their
    /// directories may be in `records`.
    fn retry(&mut self, packages: &[PackageId], words: &[String], records: &[u8]) -> Response {
        let fresh = match records::read(records) {
            Ok(fresh) if words.is_empty() || !self.coordinator.sources.is_empty() => fresh,
            Ok(_) => return Response::refused(format!("there is no package '{}'", words.join("', '"))),
            Err(bad) => return Response::refused(format!("the scan has a malformed record: {}", bad.problem)),
        };
        let rewired = match self.merge_records(&fresh) {
            Ok(rewired) => rewired,
            Err(why) => return Response::refused(why),
        };
        let mut wanted = packages.to_vec();
        for word in words {
            match self.coordinator.plan.find(word) {
                Ok(named) => wanted.extend(named),
                // The merged records stay.
                Err(why) => {
                    self.settle(&rewired);
                    return Response::refused(why);
                }
            }
        }
        self.open(&wanted);
        self.settle(&rewired);
        Response::ok(wanted.iter().map(|&package| self.next_step(package)).collect::<String>())
    }

    /// Returns a line about the effect of a retry.
    fn next_step(&self, package: PackageId) -> String {
        let it = self.coordinator.plan.package(package);
        let name = &it.name;
        match it.state() {
            State::Open => format!("{name} will be built again\n"),
            State::Running => format!("{name} is being built, and will be built again afterwards\n"),
            state => format!("{name} is {}: {}\n", state.name(), it.why()),
        }
    }

    /// Opens packages and their dependents.
    fn open(&mut self, packages: &[PackageId]) {
        self.coordinator.tree_changed(packages);
        for &package in packages {
            match self.state(package) {
                State::Running => self.request_rebuild(package, None),
                // Its own reason remains valid.
                State::Prefailed
                    if *self.coordinator.plan.package(package).package_state() != PackageState::SKIPPED => {}
                _ => {
                    self.set(package, PackageState::Open(Pending::Requested));
                    self.coordinator.plan.set_freshness(package, Freshness::Stale(REQUESTED.into()));
                }
            }
        }
        for user in self.coordinator.plan.all_dependents(packages) {
            match self.state(user) {
                // Failed dependents may have failed because of it.
                State::Done | State::Failed | State::MachineFailed => self.set(user, PackageState::NEW),
                State::Running => self.request_rebuild(user, None),
                _ => {}
            }
        }
    }

    /// Requests another build of a running package, with the scan records of its directory if they have changed.
    fn request_rebuild(&mut self, package: PackageId, records: Option<Vec<u8>>) {
        if let PackageState::Running(current) = self.coordinator.plan.package(package).package_state().clone() {
            let rebuild = records.or(current.rebuild).or_else(|| Some(Vec::new()));
            self.set(package, PackageState::Running(Current { rebuild, ..current }));
        }
    }

    /// Reopens the job of a package that is open although its job has just ended.
    fn reopen(&mut self, package: PackageId) {
        match self.coordinator.plan.package(package).package_state().clone() {
            PackageState::Open(Pending::Rebuild(records)) => {
                let answer = self.retry(&[package], &[], &records);
                // No client waits for the answer. Build it with its old records.
                if answer.code != 0 {
                    self.view.event(Event::Notice { level: Level::Warning, text: &answer.err });
                    self.retry(&[package], &[], &[]);
                }
            }
            PackageState::Open(_) => self.settle(&[]),
            _ => {}
        }
    }

    fn state(&self, package: PackageId) -> State {
        self.coordinator.plan.package(package).state()
    }

    fn set(&mut self, package: PackageId, state: PackageState) {
        self.records.extend(self.coordinator.plan.set(package, state));
    }

    /// Merges new scan records. Returns the packages whose dependencies changed. An error changes nothing.
    fn merge_records(&mut self, fresh: &[Record<'_>]) -> Result<Vec<PackageId>, String> {
        let fresh = self.defer_running(fresh);
        if fresh.is_empty() || self.coordinator.sources.is_empty() {
            return Ok(Vec::new());
        }
        let Merged { sources, changed, gone } = self.coordinator.sources.merged(&fresh);
        let resolved = sources.resolved()?;
        let planned = changed.iter().map(|&package| {
            let record = sources.record(package).ok_or("a record is lost")?;
            let planned = Planned::new(&record, Vec::new()).map_err(|bad| bad.to_string())?;
            Ok((package, planned))
        });
        let planned = planned.collect::<Result<Vec<(PackageId, Planned)>, String>>()?;
        self.coordinator.sources = sources;
        planned.into_iter().for_each(|(package, planned)| self.replace(package, planned, &resolved));
        self.coordinator.tree_changed(&changed);
        for &package in &gone {
            let why = format!("{} no longer contains it", self.coordinator.plan.package(package).location);
            self.set(package, PackageState::Prefailed(Exclusion::Because(why)));
        }
        Ok(self.rewire(&changed, &resolved))
    }

    /// Keeps the records of running packages until these have ended; returns the others.
    fn defer_running<'t>(&mut self, fresh: &[Record<'t>]) -> Vec<Record<'t>> {
        let (mut now, mut later): (_, BTreeMap<PackageId, Vec<u8>>) = (Vec::new(), BTreeMap::new());
        for record in fresh {
            let is_it =
                |package: &&PackageId| self.coordinator.plan.package(**package).location.as_bytes() == record.location;
            match self.coordinator.running.keys().find(is_it) {
                Some(&package) => later.entry(package).or_default().extend_from_slice(record.text),
                None => now.push(*record),
            }
        }
        later.into_iter().for_each(|(package, records)| self.request_rebuild(package, Some(records)));
        now
    }

    /// Replaces or adds a package. Its dependencies are set later. A package that keeps its name keeps its state.
    fn replace(&mut self, package: PackageId, mut planned: Planned, resolved: &Rewired) {
        if let Some(why) = resolved.missing.get(&package) {
            planned = planned.excluded(why.clone());
        }
        if (package as usize) < self.coordinator.plan.packages.len() {
            let old = self.coordinator.plan.package(package);
            let was_excluded = old.state() == State::Prefailed && *old.package_state() != PackageState::SKIPPED;
            let keep_state = planned.state() != State::Prefailed && !was_excluded && old.name == planned.name;
            planned.depends = old.depends.clone();
            (planned.is_new, planned.attempts) = (old.is_new, old.attempts);
            (planned.needs, planned.on_disk) = (old.needs, old.on_disk);
            planned.content = old.content.clone().filter(|_| old.name == planned.name);
            self.records.extend(self.coordinator.plan.replace(package, planned, keep_state));
            return;
        }
        let spec = JobSpec { pool: PoolId::UNLIMITED, order: package, kind: Kind::Command, wanted: false };
        let job = self.schedule.add(spec);
        let wall_ms = self.coordinator.typical_ms(self.schedule);
        self.schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
        if planned.state() == State::Open {
            let expected_ms = Some(i64::from(wall_ms));
            self.coordinator.estimator.planned(job, expected_ms);
            self.view.event(Event::Planned { job, expected_ms });
        }
        self.coordinator.plan.replace(package, planned, true);
    }

    /// Sets the dependencies of packages that are not built yet or have changed. Returns these packages.
    fn rewire(&mut self, changed: &[PackageId], resolved: &Rewired) -> Vec<PackageId> {
        let mut rewired = Vec::new();
        for package in self.coordinator.plan.all() {
            let it = self.coordinator.plan.package(package);
            let is_open = !matches!(it.state(), State::Done | State::Running | State::Failed | State::MachineFailed);
            let depends = &resolved.depends[package as usize];
            let is_it = is_open && !resolved.missing.contains_key(&package) || changed.contains(&package);
            if is_it && it.depends != *depends {
                let mut planned = it.clone();
                planned.depends = depends.clone();
                planned.freshness = Freshness::Stale("its dependencies have changed".into());
                it.depends.iter().for_each(|&needed| self.schedule.remove_dependency(JobId(package), JobId(needed)));
                self.coordinator.plan.replace(package, planned, true);
                rewired.push(package);
            } else if changed.contains(&package) {
                rewired.push(package);
            }
        }
        rewired
    }

    /// Updates the schedule, the database and the view after changes of the plan.
    fn settle(&mut self, rewired: &[PackageId]) {
        self.records.extend(self.coordinator.plan.update_dependents());
        let reopened: Vec<PackageId> =
            self.coordinator.plan.all().filter(|&package| self.update_job(package)).collect();
        for &package in reopened.iter().chain(rewired) {
            for needed in self.coordinator.plan.package(package).depends.clone() {
                self.wait_for(package, needed);
            }
        }
        for &package in &reopened {
            for user in self.coordinator.plan.dependents(package).to_vec() {
                self.wait_for(user, package);
            }
        }
        self.withdraw_lost();
        for package in self.coordinator.plan.all() {
            self.schedule.enqueue_if_ready(JobId(package));
        }
        self.schedule.reprioritize();
        rewired.iter().for_each(|&package| self.coordinator.record_package(package));
        if !rewired.is_empty() {
            self.coordinator.update_trust();
        }
        let records = StateRecord::merged(std::mem::take(&mut self.records));
        self.coordinator.record_states(&records);
        self.coordinator.publish(&records, self.schedule, self.view);
    }

    /// Withdraws packages with a failed dependency that do not wait for it in the schedule: their jobs may have ended
    /// before the dependency was known.
    fn withdraw_lost(&mut self) {
        let waits: HashSet<JobId> = self.schedule.blocked().into_iter().map(|it| it.job).collect();
        for package in self.coordinator.plan.all() {
            let is_lost = self.state(package) == State::IndirectFailed;
            if is_lost && !waits.contains(&JobId(package)) {
                self.schedule.withdraw(JobId(package));
            }
        }
    }

    /// Updates the job of a package to its state. Returns whether the job was reopened.
    fn update_job(&mut self, package: PackageId) -> bool {
        use tanto_exec::schedule::State::{Done, Failed};
        let job = JobId(package);
        match self.state(package) {
            State::Open if matches!(self.schedule.state(job), Done | Failed) => {
                self.coordinator.tell_needs(package, self.schedule);
                self.schedule.reopen(job);
                return true;
            }
            State::Open => self.schedule.want(job),
            State::Prefailed | State::IndirectPrefailed => self.schedule.withdraw(job),
            _ => {}
        }
        false
    }

    /// Adds a dependency to the schedule, once.
    fn wait_for(&mut self, package: PackageId, needed: PackageId) {
        if self.schedule.is_pending(JobId(package)) {
            self.schedule.remove_dependency(JobId(package), JobId(needed));
            self.schedule.add_dependency(JobId(package), JobId(needed), 0);
        }
    }
}
