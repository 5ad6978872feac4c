//! Offers leases to clients, and takes back packages whose leases end without a result.

use tanto_exec::frontend::Fatal;
use tanto_exec::job::{JobId, JobInfo};
use tanto_exec::runner::Wakeup;
use tanto_exec::schedule::Schedule;
use tanto_protocol::{Lease, LeaseId, PackageBlob};
use tanto_sys::random;

use super::completion;
use crate::config::Stage;
use crate::coordinator::dispatch::lease::{Cause, LeaseTerms};
use crate::coordinator::dispatch::{ClientIndex, NextState, PackageNeeds, RunningAttempt, ThisMachine};
use crate::coordinator::frontend::{Coordinator, Step};
use crate::coordinator::plan::Plan;
use crate::coordinator::state::{PackageState, Pending};
use crate::resolve::PackageId;

/// The longest time without progress if stages have no limit, in milliseconds.
const UNLIMITED_MS: i64 = i64::MAX / 4;

impl Coordinator<'_> {
    /// Starts ready packages on clients. `here`: packages that start as well here are left.
    pub(in crate::coordinator) fn start_on_clients(
        &mut self,
        here: bool,
        schedule: &mut Schedule,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        let mut started = Vec::new();
        self.take_back_packages(schedule);
        if self.farm.is_none() || !self.dispatch.has_free_client() {
            return Ok(started);
        }
        let needs = |package| needs(&self.plan, package, self.labels(package), self.trusted_clients(package));
        let may_start = |&package: &PackageId| self.has_place(package) && self.awaited_distfile(package).is_none();
        let ready = schedule.ready_jobs().map(|JobId(package)| package).filter(may_start);
        for job in self.dispatch.candidates(ready, needs).into_iter().map(JobId) {
            if !self.dispatch.has_free_client() {
                break;
            }
            if let Some(info) = self.start_on_client(job, here, schedule) {
                started.push((job, info));
            }
        }
        if !started.is_empty() {
            self.answer_clients(self.clock.now_ms());
        }
        Ok(started)
    }

    pub(super) fn start_on_client(&mut self, job: JobId, here: bool, schedule: &mut Schedule) -> Option<JobInfo> {
        let JobId(package) = job;
        let now_ms = self.clock.now_ms();
        let is_changed = self.farm.as_ref().is_some_and(|farm| farm.tree.is_changed(package));
        if is_changed || self.dispatch.current(package).is_some() {
            return None;
        }
        let why = self.plan.build_reason(package)?;
        let packages = self.dependency_blobs(package)?;
        let (failures, excluded) = self.last_failures(package);
        let labels = self.labels(package).to_vec();
        let trusted = self.trusted_clients(package).map(<[String]>::to_vec);
        let needs = needs(&self.plan, package, &labels, trusted.as_deref());
        let this_machine = if here { ThisMachine::Now } else { ThisMachine::Later };
        let needs = PackageNeeds { excluded: excluded.as_slice(), this_machine, ..needs };
        let Some(ClientIndex::Remote(client)) = self.dispatch.choose(now_ms, &needs) else { return None };
        let distfiles = self.lease_distfiles(package)?;
        let lease = LeaseId(random::bytes().ok()?);
        let info = self.job_info(package);
        self.record_reason(package, why);
        schedule.take_elsewhere(job);
        self.estimator.started(job);
        let spec = self.begin_attempt(package, failures, ClientIndex::Remote(client));
        let tree = self.farm.as_ref().and_then(|farm| farm.tree.manifest());
        let lease = Lease { lease, spec, tree, packages, distfiles, features: Vec::new() };
        let terms = self.lease_terms(package);
        let began_ms = self.running[&package].began_ms;
        self.dispatch.offer(began_ms, client, package, lease, terms);
        Some(info)
    }

    /// Returns the packages of all dependencies; `None` if one has no digest yet.
    pub(super) fn dependency_blobs(&self, package: PackageId) -> Option<Vec<PackageBlob>> {
        let farm = self.farm.as_ref()?;
        let all = self.plan.all_dependencies(package).into_iter();
        all.map(|needed| farm.packages.get(&self.plan.package(needed).name).cloned()).collect()
    }

    /// Failures of a package in a row, and the client of the last one.
    fn last_failures(&self, package: PackageId) -> (u32, Option<ClientIndex>) {
        match *self.plan.package(package).package_state() {
            PackageState::Open(Pending::OutOfMemory { failures, client }) => (failures, Some(client)),
            _ => (0, None),
        }
    }

    /// Explains why no client can start a ready package now. `elsewhere`: this machine cannot.
    pub(in crate::coordinator) fn why_no_client(
        &self,
        package: PackageId,
        elsewhere: bool,
        running: &[RunningAttempt],
    ) -> String {
        if self.farm.as_ref().is_some_and(|farm| farm.tree.is_changed(package)) {
            return "waiting for a slot of this machine, or until the package tree was scanned for clients".to_owned();
        }
        if let Some((name, client)) = self.awaited_distfile(package) {
            return format!("waiting for {} to fetch {name}", self.dispatch.name(client));
        }
        let (_, excluded) = self.last_failures(package);
        let needs = needs(&self.plan, package, self.labels(package), self.trusted_clients(package));
        let this_machine = if elsewhere { ThisMachine::Never } else { ThisMachine::Now };
        let needs = PackageNeeds { excluded: excluded.as_slice(), this_machine, ..needs };
        self.dispatch.why_not(self.clock.now_ms(), &needs, running)
    }

    pub(super) fn lease_terms(&self, package: PackageId) -> LeaseTerms {
        let limits = || Stage::ALL.into_iter().filter_map(|stage| self.settings.limits.get(&stage));
        let hang_ms = limits().map(|limits| limits.hang_ms.unwrap_or(UNLIMITED_MS)).max().unwrap_or(UNLIMITED_MS);
        let total = limits().map(|limits| limits.total_ms.unwrap_or(UNLIMITED_MS));
        LeaseTerms {
            needs: self.plan.package(package).expected(),
            idle_ms: hang_ms.saturating_mul(2),
            total_ms: total.fold(0, i64::saturating_add),
        }
    }

    /// The lease of a package has ended without a result.
    pub(super) fn lost(&mut self, package: PackageId, client: ClientIndex, cause: Cause, next: NextState) {
        let Some(running) = self.running.get_mut(&package) else { return };
        let name = self.dispatch.name(client);
        let why = match cause {
            Cause::Unconfirmed => format!("{name} did not take it"),
            Cause::Bye => format!("{name} has left"),
            Cause::Restarted => format!("{name} was restarted"),
            Cause::Silent => format!("{name} was lost"),
            Cause::Stuck => format!("{name} made no progress"),
            Cause::Killed => "the user has ended it".to_owned(),
            Cause::Withdrawn => "it was withdrawn".to_owned(),
        };
        running.step = Step::Lost(why, next);
        if let Some(farm) = &mut self.farm {
            farm.wakeups.push_back(Wakeup::Completed(completion(
                JobId(package),
                i32::from(next != NextState::Open),
                Vec::new(),
            )));
        }
    }
}

/// The conditions of a package for its client.
pub(super) fn needs<'a>(
    plan: &Plan,
    package: PackageId,
    labels: &'a [String],
    trusted: Option<&'a [String]>,
) -> PackageNeeds<'a> {
    let it = plan.package(package);
    PackageNeeds {
        package,
        usage: it.expected(),
        root: !it.usergroup_phase.is_empty(),
        labels,
        trusted,
        excluded: &[],
        long_lived: false,
        this_machine: ThisMachine::Now,
    }
}
