//! The packages of a bulk build: what each needs, and its state.

mod again;

use std::collections::{HashMap, VecDeque};

use tanto_exec::job::JobId;
use tanto_exec::schedule::{JobSpec, Kind, Order, PoolId, Schedule};
use tanto_protocol::AttemptSpec;
use tanto_record::database::{self, Change};
use thiserror::Error;

use super::needs::ResourceNeeds;
use super::simulate;
use super::state::{Exclusion, MACHINE, PackageState, State, StateRecord};
use crate::attempt::build_settings::BuildSettings;
use crate::error::BulkError;
use crate::estimate::Estimate;
use crate::freshness::{Content, Freshness};
use crate::package::options;
use crate::package::records::Record;
use crate::resolve::{PackageId, cycle};

/// A package of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    /// MULTI_VERSION: arguments for make.
    pub arguments: Vec<String>,
    /// CATEGORIES.
    pub categories: String,
    /// BOOTSTRAP_PKG: may be installed already; there is no test installation.
    pub bootstrap: bool,
    /// USE_DESTDIR is `user-destdir`: the unprivileged user installs it.
    pub user_destdir: bool,
    /// USERGROUP_PHASE.
    pub usergroup_phase: String,
    /// Options for this build (see `package::options`); empty if unknown.
    pub options: String,
    pub depends: Vec<PackageId>,
    /// Changed only by `Plan::set`.
    state: PackageState,
    /// Freshness of the existing package file.
    pub freshness: Freshness,
    /// Content of the existing package file, for a comparison after the build.
    pub content: Option<Content>,
    /// Built in this run.
    pub is_new: bool,
    /// Resources used by earlier builds.
    pub needs: ResourceNeeds,
    /// Builds on the disk even if others build in memory.
    pub on_disk: bool,
    /// Attempts in this run.
    pub attempts: u32,
}

/// All packages of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub packages: Vec<Planned>,
    /// Dependents of each package.
    dependents: Vec<Vec<PackageId>>,
}

/// Why packages cannot be planned.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlanError {
    /// Not UTF-8, or a path out of its directory.
    #[error("'{}' is not a valid name of a package or its directory", String::from_utf8_lossy(.0))]
    Name(Vec<u8>),
    #[error("{0}")]
    Cycle(String),
}

impl From<PlanError> for BulkError {
    fn from(error: PlanError) -> BulkError {
        BulkError::Invalid(error.to_string())
    }
}

impl Plan {
    /// Plans the packages of a resolved scan. Packages with a reason not to build them are excluded, with their
    /// dependents.
    pub fn new(records: &[Record<'_>], depends: &[Vec<PackageId>]) -> Result<Plan, PlanError> {
        let planned = records.iter().zip(depends).map(|(record, depends)| Planned::new(record, depends.clone()));
        let packages = planned.collect::<Result<Vec<Planned>, PlanError>>()?;
        let mut dependents = vec![Vec::new(); packages.len()];
        for (package, it) in (0..).zip(&packages) {
            it.depends.iter().for_each(|&needed| dependents[needed as usize].push(package));
        }
        let mut plan = Plan { packages, dependents };
        for package in plan.all() {
            if plan.package(package).state() == State::Prefailed {
                plan.fail_dependents(package);
            }
        }
        Ok(plan)
    }

    /// Restores states and dependencies from the database. All other fields are empty.
    pub fn from_rows(rows: &[database::PackageRow], edges: &[(PackageId, PackageId)]) -> Plan {
        let mut packages: Vec<Planned> = rows.iter().map(Planned::from_row).collect();
        let mut dependents = vec![Vec::new(); packages.len()];
        let count = packages.len();
        for &(package, needed) in edges.iter().filter(|&&(a, b)| (a as usize) < count && (b as usize) < count) {
            packages[package as usize].depends.push(needed);
            dependents[needed as usize].push(package);
        }
        Plan { packages, dependents }
    }

    pub fn all(&self) -> std::ops::Range<PackageId> {
        0..self.packages.len() as PackageId
    }

    pub fn package(&self, package: PackageId) -> &Planned {
        &self.packages[package as usize]
    }

    /// Returns all direct and indirect dependencies.
    pub fn all_dependencies(&self, package: PackageId) -> Vec<PackageId> {
        // Called for each attempt: a hash set would take most of the time.
        let mut seen = vec![false; self.packages.len()];
        seen[package as usize] = true;
        let mut needed: Vec<PackageId> = Vec::new();
        let mut next = 0;
        let mut at = Some(package);
        while let Some(user) = at {
            let is_new = |it: &PackageId| !std::mem::replace(&mut seen[*it as usize], true);
            needed.extend(self.package(user).depends.iter().copied().filter(is_new));
            at = needed.get(next).copied();
            next += 1;
        }
        needed
    }

    /// Changes a package's state; `None` if it is the same.
    pub fn set(&mut self, package: PackageId, state: PackageState) -> Option<StateRecord> {
        self.packages[package as usize].state.set(package, state)
    }

    pub fn set_freshness(&mut self, package: PackageId, freshness: Freshness) {
        self.packages[package as usize].freshness = freshness;
    }

    /// Makes packages stale that were built with other options. `before`: the options by PKGNAME.
    pub fn compare_options(&mut self, before: &HashMap<String, String>) {
        for package in self.all() {
            let it = self.package(package);
            let is_open = it.state() == State::Open && it.freshness == Freshness::Unknown && !it.options.is_empty();
            let before = before.get(&it.name).filter(|_| is_open);
            if let Some(why) = before.and_then(|before| options::difference(before, &it.options)) {
                self.set_freshness(package, Freshness::Stale(why));
            }
        }
    }

    /// Returns rows with the options of finished packages, for those that have none.
    pub fn option_rows(&self) -> impl Iterator<Item = Change> {
        let done = self.packages.iter().filter(|it| it.state() == State::Done);
        done.filter_map(|it| it.options_row(false))
    }

    pub fn set_content(&mut self, package: PackageId, content: Option<Content>) {
        self.packages[package as usize].content = content;
    }

    /// Returns the number of the next attempt at a package.
    pub fn next_attempt(&mut self, package: PackageId) -> u32 {
        let it = &mut self.packages[package as usize];
        it.attempts += 1;
        it.attempts
    }

    /// Restores attempt counts of an interrupted build. Packages with a machine failure write to the disk.
    pub fn restore_attempts(&mut self, attempts: &[database::AttemptRow]) {
        for it in attempts {
            if let Some(package) = self.packages.get_mut(it.job as usize) {
                package.attempts = package.attempts.max(it.attempt);
                package.on_disk |= it.outcome == MACHINE;
            }
        }
    }

    /// Returns the specification of an attempt. `is_last`: a machine failure is final.
    pub fn attempt_spec(&self, package: PackageId, settings: &BuildSettings, is_last: bool) -> AttemptSpec {
        let it = self.package(package);
        let name = |&package: &PackageId| self.package(package).name.clone();
        // Only sandboxes get indirect dependencies without pkg_add.
        let indirect = if settings.sandbox.is_some() { self.all_dependencies(package) } else { Vec::new() };
        AttemptSpec {
            attempt: it.attempts,
            name: it.name.clone(),
            location: it.location.clone(),
            arguments: it.arguments.clone(),
            bootstrap: it.bootstrap,
            user_destdir: it.user_destdir,
            usergroup_phase: it.usergroup_phase.clone(),
            depends: it.depends.iter().map(name).collect(),
            indirect: indirect.iter().filter(|needed| !it.depends.contains(needed)).map(name).collect(),
            scratch_memory: settings.memory.filter(|_| !it.on_disk),
            // On the disk, usage is measured only at the end. In memory, at most the limit was seen.
            expected_disk_kib: settings
                .memory
                .filter(|_| it.on_disk)
                .map_or(0, |max| it.needs.disk_kib.min(max / 1024)),
            is_last,
        }
    }

    /// Marks a package as rebuilt: packages that were built with its old version are stale.
    pub fn mark_rebuilt(&mut self, package: PackageId) {
        self.packages[package as usize].is_new = true;
    }

    /// Returns the reason for building a package; empty if unknown, `None` if it is up to date.
    pub fn build_reason(&self, package: PackageId) -> Option<String> {
        match &self.package(package).freshness {
            Freshness::Unknown => Some(String::new()),
            Freshness::Stale(why) => Some(why.clone()),
            Freshness::UpToDate(built_with) => {
                let new = built_with.iter().find(|&&needed| self.package(needed).is_new)?;
                Some(format!("{}, which it was built with, was built again", self.package(*new).name))
            }
        }
    }

    /// Returns all packages in topological order.
    pub fn topological_order(&self) -> Result<Vec<PackageId>, PlanError> {
        Ok(self.topological_jobs()?.into_iter().map(|JobId(package)| package).collect())
    }

    fn topological_jobs(&self) -> Result<Vec<JobId>, PlanError> {
        let chain = simulate::topological_order(self.packages.len(), |it| &self.package(it).depends[..]);
        chain.map_err(|cycle| PlanError::Cycle(cycle::message(&cycle, |it| self.package(it).name.as_bytes())))
    }

    /// Excludes a package and its dependents.
    pub fn exclude(&mut self, package: PackageId, why: String) {
        if self.package(package).state() != State::Prefailed {
            self.set(package, PackageState::Prefailed(Exclusion::Because(why)));
            self.fail_dependents(package);
        }
    }

    /// Excludes packages that need several users, and their dependents, for a build with only one.
    pub fn exclude_multi_user(&mut self) {
        for package in self.all() {
            let it = self.package(package);
            let is_due = it.state() == State::Open && !matches!(it.freshness, Freshness::UpToDate(_));
            if is_due && !it.usergroup_phase.is_empty() {
                self.set(package, PackageState::NeedsRoot(State::OTHER_USERS.into()));
                self.fail_dependents(package);
            }
        }
    }

    /// Fails the open direct and indirect dependents of a lost package.
    pub fn fail_dependents(&mut self, package: PackageId) -> Vec<StateRecord> {
        let state = self.state_of_dependents(package);
        let mut records: Vec<StateRecord> = Vec::new();
        let mut lost = VecDeque::from([package]);
        while let Some(package) = lost.pop_front() {
            for user in self.dependents[package as usize].clone() {
                if self.package(user).state() == State::Open {
                    records.extend(self.set(user, state.clone()));
                    lost.push_back(user);
                }
            }
        }
        records
    }

    /// Returns the state of dependents of a lost package.
    fn state_of_dependents(&self, package: PackageId) -> PackageState {
        let it = self.package(package);
        let why = |verb: &str| format!("it needs {}, which {verb}", it.name);
        match it.state() {
            State::Prefailed | State::IndirectPrefailed => PackageState::IndirectPrefailed(why("cannot be built")),
            State::NeedsRoot => PackageState::IndirectPrefailed(why("needs root")),
            State::MachineFailed => PackageState::IndirectFailed(why("had a machine failure")),
            _ => PackageState::IndirectFailed(why("failed")),
        }
    }

    /// Restores the states of an unfinished build, by name. Done and failed packages are not built again, except after
    /// machine failures.
    pub fn resume(&mut self, state: impl Fn(&str) -> Option<PackageState>) {
        for package in self.all() {
            let Some(state) = state(&self.package(package).name) else { continue };
            let is_final = matches!(state.kind(), State::Done | State::Failed | State::NeedsRoot);
            let is_open = self.package(package).state() == State::Open;
            if is_open && (is_final || state == PackageState::SKIPPED) {
                self.set(package, state);
            }
        }
        for package in self.all() {
            if self.package(package).state().is_lost() {
                self.fail_dependents(package);
            }
        }
    }

    /// Returns whether a package is open or, on another machine, still running.
    pub fn has_unfinished(&self) -> bool {
        self.packages.iter().any(|package| matches!(package.state(), State::Open | State::Running))
    }

    pub fn has_open(&self) -> bool {
        self.packages.iter().any(|package| package.state() == State::Open)
    }

    /// Counts the packages in each state, in the order of `State::ALL`.
    pub fn counts(&self) -> [usize; State::ALL.len()] {
        State::ALL.map(|state| self.packages.iter().filter(|package| package.state() == state).count())
    }

    /// Returns the plan as rows of the database.
    pub fn rows(&self) -> impl Iterator<Item = Change> {
        self.all().flat_map(|package| {
            let it = self.package(package);
            let edges = it.depends.iter().map(move |&needs| Change::Edge { package, needs });
            let due = match &it.freshness {
                Freshness::Stale(why) if it.state() == State::Open => Some(Change::Due { package, why: why.clone() }),
                _ => None,
            };
            std::iter::once(row(package, it)).chain(edges).chain(due)
        })
    }

    /// Returns the estimates of open packages as rows of the database.
    pub fn estimate_rows<'a>(&'a self, estimates: &'a [Estimate]) -> impl Iterator<Item = Change> + 'a {
        let open = self.all().zip(estimates).filter(|&(package, _)| self.package(package).state() == State::Open);
        open.map(|(package, it)| {
            Change::Expected(database::EstimateRow { package, wall_ms: it.ms, basis: it.basis.name().into() })
        })
    }

    /// Returns a schedule of the open packages. Job numbers are package numbers. `times` are in milliseconds.
    pub fn schedule(&self, times: &[u64]) -> Result<Schedule, PlanError> {
        let mut schedule = Schedule::new();
        for (order, package) in (0..).zip(&self.packages) {
            let wanted = package.state() == State::Open;
            schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted });
        }
        let chain = self.topological_jobs()?;
        for (package, &ms) in self.all().zip(times) {
            for &needed in &self.package(package).depends {
                schedule.add_dependency(JobId(package), JobId(needed), 0);
            }
            let wall_ms = u32::try_from(ms).unwrap_or(u32::MAX);
            self.package(package).expected().apply(&mut schedule, JobId(package), wall_ms);
        }
        schedule.prioritize(&chain, Order::Critical);
        Ok(schedule)
    }
}

fn row(package: PackageId, it: &Planned) -> Change {
    let (name, location, why) = (it.name.clone(), it.location.clone(), it.why().to_owned());
    Change::Package(database::PackageRow {
        package,
        job: package,
        name,
        location,
        state: it.state().name().to_owned(),
        detail: it.state.detail().name().to_owned(),
        why,
    })
}

impl Planned {
    pub fn state(&self) -> State {
        self.state.kind()
    }

    pub fn package_state(&self) -> &PackageState {
        &self.state
    }

    pub fn why(&self) -> &str {
        self.state.why()
    }

    /// Excludes a package that is not yet in a plan.
    pub fn excluded(mut self, why: String) -> Planned {
        self.state = PackageState::Prefailed(Exclusion::Because(why));
        self
    }

    /// Returns the row of its options. `is_new`: it was built with them now.
    pub(super) fn options_row(&self, is_new: bool) -> Option<Change> {
        let (name, options) = (self.name.clone(), self.options.clone());
        (!options.is_empty()).then_some(Change::Options { name, options, is_new })
    }

    fn from_row(row: &database::PackageRow) -> Planned {
        Planned {
            name: row.name.clone(),
            location: row.location.clone(),
            arguments: Vec::new(),
            categories: String::new(),
            bootstrap: false,
            user_destdir: false,
            usergroup_phase: String::new(),
            options: String::new(),
            depends: Vec::new(),
            state: PackageState::of_row(row).unwrap_or(PackageState::NEW),
            freshness: Freshness::Unknown,
            content: None,
            is_new: false,
            needs: ResourceNeeds::default(),
            on_disk: false,
            attempts: 0,
        }
    }

    /// Reads a package's record. Fails if a name is not safe.
    pub fn new(record: &Record<'_>, depends: Vec<PackageId>) -> Result<Planned, PlanError> {
        let text = |variable| String::from_utf8_lossy(record.value(variable).unwrap_or_default()).trim().to_owned();
        let reason = ["PKG_SKIP_REASON", "PKG_FAIL_REASON"].map(text).into_iter().find(|reason| !reason.is_empty());
        Ok(Planned {
            name: safe_name(record.name, false)?,
            location: safe_name(record.location, true)?,
            arguments: text("MULTI_VERSION").split_whitespace().map(str::to_owned).collect(),
            categories: text("CATEGORIES"),
            bootstrap: !text("BOOTSTRAP_PKG").is_empty(),
            user_destdir: text("USE_DESTDIR") == "user-destdir",
            usergroup_phase: text("USERGROUP_PHASE"),
            options: text(options::VARIABLE),
            depends,
            state: reason.map_or(PackageState::NEW, |why| PackageState::Prefailed(Exclusion::Because(why))),
            freshness: Freshness::Unknown,
            content: None,
            is_new: false,
            needs: ResourceNeeds::default(),
            on_disk: false,
            attempts: 0,
        })
    }
}

/// Checks a name that becomes a part of paths and command lines.
fn safe_name(text: &[u8], slashes: bool) -> Result<String, PlanError> {
    match std::str::from_utf8(text) {
        Ok(name) if tanto_protocol::is_safe_name(text, slashes) => Ok(name.to_owned()),
        _ => Err(PlanError::Name(text.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::state::{Current, Success};
    use crate::package::records;

    fn plan(packages: &[(&str, &str, &[PackageId])]) -> Result<Plan, PlanError> {
        let text = |(name, more, _): &(&str, &str, &[PackageId])| format!("PKGNAME={name}\nPKG_LOCATION=a/b\n{more}");
        let text: String = packages.iter().map(text).collect();
        let records = records::read(text.as_bytes()).unwrap();
        Plan::new(&records, &packages.iter().map(|(.., depends)| depends.to_vec()).collect::<Vec<_>>())
    }

    fn changed(records: &[StateRecord]) -> Vec<PackageId> {
        records.iter().map(|it| it.package).collect()
    }

    #[test]
    fn dependents_of_prefailed_packages_are_excluded() {
        let plan = plan(&[
            ("skip-1", "PKG_SKIP_REASON=\"not here\"\n", &[]),
            ("user-1", "", &[0]),
            ("deep-1", "", &[1, 3]),
            ("fine-1", "PKG_FAIL_REASON=\n", &[]),
        ])
        .unwrap();
        use State::{IndirectPrefailed, Open, Prefailed};
        let states: Vec<State> = plan.packages.iter().map(Planned::state).collect();
        assert_eq!(states, [Prefailed, IndirectPrefailed, IndirectPrefailed, Open]);
        assert_eq!(plan.package(0).why(), "\"not here\"");
        assert_eq!(plan.package(2).why(), "it needs skip-1, which cannot be built");
        assert_eq!(plan.counts(), [0, 0, 1, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn packages_with_users_need_root() {
        let users = "USERGROUP_PHASE=configure\n";
        let mut plan =
            plan(&[("own-1", users, &[]), ("user-1", "", &[0]), ("there-1", users, &[]), ("that-1", "", &[2])])
                .unwrap();
        plan.set_freshness(2, Freshness::UpToDate(vec![]));
        plan.exclude_multi_user();
        use State::{IndirectPrefailed, NeedsRoot, Open};
        let states: Vec<State> = plan.packages.iter().map(Planned::state).collect();
        assert_eq!(states, [NeedsRoot, IndirectPrefailed, Open, Open], "up-to-date packages are not excluded");
        assert_eq!(plan.package(1).why(), "it needs own-1, which needs root");
    }

    #[test]
    fn failure_fails_open_dependents() {
        let mut plan =
            plan(&[("base-1", "", &[]), ("user-1", "", &[0]), ("deep-1", "", &[1]), ("done-1", "", &[0])]).unwrap();
        plan.set(3, PackageState::Done(Success::UpToDate));
        plan.set(0, PackageState::Running(Current::default()));
        plan.set(0, PackageState::Failed("it hung".into()));
        assert_eq!(changed(&plan.fail_dependents(0)), [1, 2]);
        assert_eq!(plan.package(2).state(), State::IndirectFailed);
        assert_eq!(plan.package(2).why(), "it needs base-1, which failed");
        assert_eq!(plan.package(3).state(), State::Done);
    }

    #[test]
    fn resume_retries_machine_failures() {
        let packages: [(&str, &str, &[PackageId]); 3] = [("full-1", "", &[]), ("user-1", "", &[0]), ("bad-1", "", &[])];
        let mut before = plan(&packages).unwrap();
        before.set(0, PackageState::Running(Current::default()));
        before.set(0, PackageState::MachineFailed("build exited with 1: the disk is full".into()));
        before.set(2, PackageState::Failed("build exited with 1".into()));
        assert_eq!(changed(&before.fail_dependents(0)), [1]);
        assert_eq!(before.package(1).why(), "it needs full-1, which had a machine failure");
        let mut now = plan(&packages).unwrap();
        now.resume(|name| {
            let it = before.packages.iter().find(|it| it.name == name)?;
            Some(it.package_state().clone())
        });
        let states: Vec<State> = now.packages.iter().map(Planned::state).collect();
        assert_eq!(states, [State::Open, State::Open, State::Failed]);
    }

    #[test]
    fn unsafe_names_are_refused() {
        for name in ["../x-1", "a/x-1", "x;y-1", "x$y-1", "-rf-1", "x'y-1"] {
            assert_eq!(plan(&[(name, "", &[])]), Err(PlanError::Name(name.into())));
        }
        let text = b"PKGNAME=good-1\nPKG_LOCATION=a/../../b\n";
        let records = records::read(text).unwrap();
        assert_eq!(Plan::new(&records, &[vec![]]), Err(PlanError::Name(b"a/../../b".to_vec())));
    }

    #[test]
    fn cycle_has_no_schedule() {
        let plan = plan(&[("one-1", "", &[1]), ("two-1", "", &[0])]).unwrap();
        assert_eq!(
            plan.schedule(&[1, 1]).err(),
            Some(PlanError::Cycle("circular dependency: one-1 -> two-1 -> one-1".into()))
        );
    }
}
