//! What users want of a build while it goes on: that packages are built again, left out or ended. Does not know how they
//! say it.

use std::collections::{BTreeMap, HashSet};

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::job::report::TerminationReason;
use tanto_exec::runner::Runner;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};

use super::Books;
use crate::config::Stage;
use crate::coordinator::control_socket::{Answer, Request};
use crate::coordinator::plan::{PlanError, Planned};
use crate::coordinator::sources::{Anew, Merged};
use crate::coordinator::state::{Current, Exclusion, PackageState, Pending, REQUESTED, State, StateRecord};
use crate::freshness::Freshness;
use crate::package::records::{self, Record};
use crate::resolve::Package;

/// So many are answered before the build goes on.
const MOST_AT_ONCE: usize = 16;

/// The parts of a build that are changed.
struct Wishes<'w, 'b> {
    books: &'w mut Books<'b>,
    schedule: &'w mut Schedule,
    runner: &'w mut dyn Runner,
    view: &'w mut dyn View,
    /// Changes of states that are neither journaled nor in the schedule.
    records: Vec<StateRecord>,
}

impl Books<'_> {
    /// The schedule is told what a package needs by now.
    fn expect(&self, package: Package, schedule: &mut Schedule) {
        let job = JobId(package);
        self.plan.package(package).expected().tell(schedule, job, schedule.cost(job).wall_ms);
    }

    /// Does what others have asked for since the last call.
    pub fn attend(&mut self, schedule: &mut Schedule, runner: &mut dyn Runner, view: &mut dyn View) {
        for package in std::mem::take(&mut self.moved) {
            self.expect(package, schedule);
        }
        for package in std::mem::take(&mut self.reopened) {
            Wishes { books: self, schedule, runner, view, records: Vec::new() }.reopen(package);
        }
        for _ in 0..MOST_AT_ONCE {
            let Some((guest, request)) = self.desk.next() else { return };
            let answer = Wishes { books: self, schedule, runner, view, records: Vec::new() }.obey(request);
            self.desk.answer(guest, answer);
        }
    }
}

impl Wishes<'_, '_> {
    fn obey(&mut self, request: Request) -> Answer {
        match request {
            Request::Status => {
                let left_ms = self.books.left_ms(self.schedule);
                Answer::said(self.books.standing(self.schedule, left_ms))
            }
            Request::Log { package, stage } => self.log(&package, stage.as_deref()),
            Request::Retry { packages, records } => {
                let (known, unknown) = self.sort_out(&packages);
                self.retry(&known, &unknown, &records)
            }
            Request::Skip(packages) => self.of_each(&packages, Self::skip),
            Request::Kill(packages) => self.of_each(&packages, Self::kill),
        }
    }

    /// Those that are known by these words, and the other words.
    fn sort_out(&self, words: &[String]) -> (Vec<Package>, Vec<String>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for word in words {
            match self.books.plan.named(word) {
                Ok(packages) => known.extend(packages),
                Err(_) => unknown.push(word.clone()),
            }
        }
        (known, unknown)
    }

    /// Does something with each, or nothing with any if one of them does not exist.
    fn of_each(&mut self, words: &[String], what: fn(&mut Self, Package) -> Result<String, String>) -> Answer {
        let mut packages = Vec::new();
        for word in words {
            match self.books.plan.named(word) {
                Ok(named) => packages.extend(named),
                Err(why) => return Answer::refused(why),
            }
        }
        let mut answer = Answer::default();
        for package in packages {
            match what(self, package) {
                Ok(said) => answer.out.extend_from_slice(format!("{said}\n").as_bytes()),
                Err(why) if answer.err.is_empty() => answer.err = why.into_bytes(),
                Err(why) => answer.err.extend_from_slice(format!("; {why}").as_bytes()),
            }
        }
        answer.code = u8::from(!answer.err.is_empty());
        self.settle(&[]);
        answer
    }

    fn name(&self, package: Package) -> String {
        self.books.plan.package(package).name.clone()
    }

    /// It is not built in this run.
    fn skip(&mut self, package: Package) -> Result<String, String> {
        let name = self.name(package);
        match self.state(package) {
            State::Open | State::IndirectFailed | State::IndirectPrefailed => {
                self.set(package, PackageState::SKIPPED);
                let users = self.books.plan.all_users(&[package]);
                let open = users.iter().filter(|&&user| self.state(user) == State::Open).count();
                Ok(format!("{name} is not built in this run, nor are {open} packages that need it"))
            }
            State::Running => Err(format!("{name} is being built: 'tanto bulk kill' ends that")),
            state => Err(format!("{name} is {}", state.name())),
        }
    }

    /// Its stage is ended, and it has failed.
    fn kill(&mut self, package: Package) -> Result<String, String> {
        let name = self.name(package);
        let Some(progress) = self.books.running.get_mut(&package) else {
            return Err(format!("{name} is not being built"));
        };
        if progress.failed.is_some() || progress.stage == Stage::Clean {
            return Err(format!("{name} is only cleaned up"));
        }
        progress.killed = true;
        let stage = progress.stage.name();
        // Where nothing can be ended, it fails as soon as its stage has ended.
        self.runner.terminate(JobId(package), TerminationReason::Requested);
        Ok(format!("{name} is ended in its stage {stage}"))
    }

    fn log(&mut self, word: &str, stage: Option<&str>) -> Answer {
        let running: Vec<Package> = match self.books.plan.named(word) {
            Ok(packages) => packages.into_iter().filter(|package| self.books.running.contains_key(package)).collect(),
            Err(why) => return Answer::refused(why),
        };
        let [package] = running[..] else { return Answer::refused(format!("{word} is not being built")) };
        let now = self.books.running[&package].stage.name();
        if stage.is_some_and(|stage| stage != now) {
            return Answer::refused(format!("{} is in its stage {now}", self.name(package)));
        }
        Answer::said(self.runner.output_so_far(JobId(package)).unwrap_or_default())
    }

    /// These are built again, and what needs them. Of `words` nothing was known before; `records` may say what they are.
    fn retry(&mut self, packages: &[Package], words: &[String], records: &[u8]) -> Answer {
        let fresh = match records::read(records) {
            Ok(fresh) if words.is_empty() || !self.books.sources.is_empty() => fresh,
            Ok(_) => return Answer::refused(format!("there is no package '{}'", words.join("', '"))),
            Err(bad) => return Answer::refused(format!("the scan has a malformed record: {}", bad.problem)),
        };
        let rewired = match self.learn(&fresh) {
            Ok(rewired) => rewired,
            Err(why) => return Answer::refused(why),
        };
        let mut wanted = packages.to_vec();
        for word in words {
            match self.books.plan.named(word) {
                Ok(named) => wanted.extend(named),
                // What was learnt stays learnt.
                Err(why) => {
                    self.settle(&rewired);
                    return Answer::refused(why);
                }
            }
        }
        self.open(&wanted);
        self.settle(&rewired);
        Answer::said(wanted.iter().map(|&package| self.outlook(package)).collect::<String>())
    }

    /// What becomes of a package now, as a line.
    fn outlook(&self, package: Package) -> String {
        let it = self.books.plan.package(package);
        let name = &it.name;
        match it.state() {
            State::Open => format!("{name} is built again\n"),
            State::Running => format!("{name} is being built, and is built again when that has ended\n"),
            state => format!("{name} is {}: {}\n", state.name(), it.why()),
        }
    }

    /// They are to be built, and so is what was built with them.
    fn open(&mut self, packages: &[Package]) {
        for &package in packages {
            match self.state(package) {
                State::Running => self.request_rebuild(package, None),
                // The package's own reason stands.
                State::Prefailed if *self.books.plan.package(package).package_state() != PackageState::SKIPPED => {}
                _ => {
                    self.set(package, PackageState::Open(Pending::Requested));
                    self.books.plan.stands(package, Freshness::Stale(REQUESTED.into()));
                }
            }
        }
        for user in self.books.plan.all_users(packages) {
            match self.state(user) {
                // What failed may have failed because of it.
                State::Done | State::Failed | State::MachineFailed => self.set(user, PackageState::NEW),
                State::Running => self.request_rebuild(user, None),
                _ => {}
            }
        }
    }

    /// Has a running package built once more, with the records that its directory has now if they have changed.
    fn request_rebuild(&mut self, package: Package, records: Option<Vec<u8>>) {
        if let PackageState::Running(current) = self.books.plan.package(package).package_state().clone() {
            let rebuild = records.or(current.rebuild).or_else(|| Some(Vec::new()));
            self.set(package, PackageState::Running(Current { rebuild, ..current }));
        }
    }

    /// Brings a package back into the schedule that is open again although its job has just ended.
    fn reopen(&mut self, package: Package) {
        match self.books.plan.package(package).package_state().clone() {
            PackageState::Open(Pending::Rebuild(records)) => {
                let answer = self.retry(&[package], &[], &records);
                // Nobody waits for an answer any more. It is built as it was.
                if answer.code != 0 {
                    self.view.event(Event::Notice { level: Level::Warning, text: &answer.err });
                    self.retry(&[package], &[], &[]);
                }
            }
            PackageState::Open(_) => self.settle(&[]),
            _ => {}
        }
    }

    fn state(&self, package: Package) -> State {
        self.books.plan.package(package).state()
    }

    fn set(&mut self, package: Package, state: PackageState) {
        self.records.extend(self.books.plan.set(package, state));
    }

    /// Directories say something else than before. Which packages wait for others now; an error changes nothing.
    fn learn(&mut self, fresh: &[Record<'_>]) -> Result<Vec<Package>, String> {
        let fresh = self.put_off(fresh);
        if fresh.is_empty() || self.books.sources.is_empty() {
            return Ok(Vec::new());
        }
        let Merged { sources, changed, gone } = self.books.sources.merged(&fresh);
        let anew = sources.resolved()?;
        let planned = changed.iter().map(|&package| {
            let record = sources.record(package).ok_or("a record is lost")?;
            let planned = Planned::new(&record, Vec::new()).map_err(|bad| match bad {
                PlanError::Name(name) => format!("'{}' is no name for a package", String::from_utf8_lossy(&name)),
                PlanError::Cycle => "packages need each other".into(),
            })?;
            Ok((package, planned))
        });
        let planned = planned.collect::<Result<Vec<(Package, Planned)>, String>>()?;
        self.books.sources = sources;
        planned.into_iter().for_each(|(package, planned)| self.renew(package, planned, &anew));
        for &package in &gone {
            let why = format!("{} makes it no more", self.books.plan.package(package).location);
            self.set(package, PackageState::Prefailed(Exclusion::Because(why)));
        }
        Ok(self.rewire(&changed, &anew))
    }

    /// Keeps the records of directories whose packages are being built until these have ended; returns the others.
    fn put_off<'t>(&mut self, fresh: &[Record<'t>]) -> Vec<Record<'t>> {
        let (mut now, mut later): (_, BTreeMap<Package, Vec<u8>>) = (Vec::new(), BTreeMap::new());
        for record in fresh {
            let is_it = |package: &&Package| self.books.plan.package(**package).location.as_bytes() == record.location;
            match self.books.running.keys().find(is_it) {
                Some(&package) => later.entry(package).or_default().extend_from_slice(record.text),
                None => now.push(*record),
            }
        }
        later.into_iter().for_each(|(package, records)| self.request_rebuild(package, Some(records)));
        now
    }

    /// Replaces a package by what its record says now. What it needs is set later. A package that keeps its name keeps its
    /// state.
    fn renew(&mut self, package: Package, mut planned: Planned, anew: &Anew) {
        if let Some(why) = anew.lacks.get(&package) {
            planned = planned.excluded(why.clone());
        }
        if (package as usize) < self.books.plan.packages.len() {
            let old = self.books.plan.package(package);
            let was_excluded = old.state() == State::Prefailed && *old.package_state() != PackageState::SKIPPED;
            let keep_state = planned.state() != State::Prefailed && !was_excluded && old.name == planned.name;
            planned.depends = old.depends.clone();
            (planned.is_new, planned.attempts) = (old.is_new, old.attempts);
            (planned.needs, planned.on_disk) = (old.needs, old.on_disk);
            planned.content = old.content.clone().filter(|_| old.name == planned.name);
            self.records.extend(self.books.plan.replace(package, planned, keep_state));
            return;
        }
        let spec = JobSpec { pool: PoolId::UNLIMITED, order: package, kind: Kind::Command, wanted: false };
        let job = self.schedule.add(spec);
        let wall_ms = self.books.usual_ms(self.schedule);
        self.schedule.set_cost(job, Cost { wall_ms, ..Cost::default() });
        if planned.state() == State::Open {
            self.view.event(Event::Planned { job, expected_ms: Some(i64::from(wall_ms)) });
        }
        self.books.plan.replace(package, planned, true);
    }

    /// Packages need what was found anew, if they are not built yet or have changed. Which they are.
    fn rewire(&mut self, changed: &[Package], anew: &Anew) -> Vec<Package> {
        let mut rewired = Vec::new();
        for package in self.books.plan.all() {
            let it = self.books.plan.package(package);
            let is_open = !matches!(it.state(), State::Done | State::Running | State::Failed | State::MachineFailed);
            let depends = &anew.depends[package as usize];
            let is_it = is_open && !anew.lacks.contains_key(&package) || changed.contains(&package);
            if is_it && it.depends != *depends {
                let mut planned = it.clone();
                planned.depends = depends.clone();
                planned.standing = Freshness::Stale("it needs other packages than before".into());
                it.depends.iter().for_each(|&needed| self.schedule.remove_dependency(JobId(package), JobId(needed)));
                self.books.plan.replace(package, planned, true);
                rewired.push(package);
            } else if changed.contains(&package) {
                rewired.push(package);
            }
        }
        rewired
    }

    /// The schedule, the database and the view follow the plan.
    fn settle(&mut self, rewired: &[Package]) {
        self.records.extend(self.books.plan.update_dependents());
        let reopened: Vec<Package> = self.books.plan.all().filter(|&package| self.follow(package)).collect();
        for &package in reopened.iter().chain(rewired) {
            for needed in self.books.plan.package(package).depends.clone() {
                self.wait_for(package, needed);
            }
        }
        for &package in &reopened {
            for user in self.books.plan.users(package).to_vec() {
                self.wait_for(user, package);
            }
        }
        self.hold_back();
        for package in self.books.plan.all() {
            self.schedule.enqueue_if_ready(JobId(package));
        }
        self.schedule.reprioritize();
        rewired.iter().for_each(|&package| self.books.note_again(package));
        self.books.publish(StateRecord::merged(std::mem::take(&mut self.records)));
        self.books.announce(self.schedule, self.view);
    }

    /// What needs one that has failed, and does not wait for it in the schedule, is not started for all that: its job may
    /// have ended before it was learnt that it needs another.
    fn hold_back(&mut self) {
        let waits: HashSet<JobId> = self.schedule.blocked().into_iter().map(|it| it.job).collect();
        for package in self.books.plan.all() {
            let is_lost = self.state(package) == State::IndirectFailed;
            if is_lost && !waits.contains(&JobId(package)) {
                self.schedule.withdraw(JobId(package));
            }
        }
    }

    /// The job is wanted as its package is. True if it had ended.
    fn follow(&mut self, package: Package) -> bool {
        use tanto_exec::schedule::State::{Done, Failed};
        let job = JobId(package);
        match self.state(package) {
            State::Open if matches!(self.schedule.state(job), Done | Failed) => {
                self.books.expect(package, self.schedule);
                self.schedule.reopen(job);
                return true;
            }
            State::Open => self.schedule.want(job),
            State::Prefailed | State::IndirectPrefailed => self.schedule.withdraw(job),
            _ => {}
        }
        false
    }

    /// Said once, however often it is said.
    fn wait_for(&mut self, package: Package, needed: Package) {
        if self.schedule.is_pending(JobId(package)) {
            self.schedule.remove_dependency(JobId(package), JobId(needed));
            self.schedule.add_dependency(JobId(package), JobId(needed), 0);
        }
    }
}
