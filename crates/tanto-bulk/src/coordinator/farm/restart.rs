//! Continues the leases of a coordinator that has ended before its run: their clients may still have them.

use std::collections::BTreeMap;

use tanto_exec::job::{JobId, JobInfo};
use tanto_exec::schedule::{Next, Schedule, State as JobState};
use tanto_protocol::Digest;
use tanto_record::database::{AttemptRow, Change, ClientWorkRow, LeaseRow};

use crate::config::Stage;
use crate::coordinator::dispatch::lease::{Cause, LeaseRecord, LeaseState};
use crate::coordinator::dispatch::{ClientIndex, ClientWork, Dispatch};
use crate::coordinator::frontend::{Coordinator, Running, Step};
use crate::coordinator::state::{Current, INTERRUPTED, PackageState, State};

/// What the database has of the run that continues.
#[derive(Default)]
pub struct EarlierLeases {
    pub leases: Vec<LeaseRow>,
    /// What clients have built, by name.
    pub work: Vec<ClientWorkRow>,
}

impl Coordinator<'_> {
    /// Records the changes of leases.
    pub(in crate::coordinator) fn record_leases(&mut self) {
        let records = self.dispatch.take_records();
        let Some(farm) = self.farm.as_mut().filter(|_| !records.is_empty()) else { return };
        for it in records {
            self.journal.record(Change::Lease(LeaseRow {
                lease: it.lease.to_string(),
                job: it.package,
                attempt: it.attempt,
                client: it.client,
                token: it.token,
                began_ms: self.epoch_ms.saturating_add(it.began_ms),
                state: it.state.name().to_owned(),
                cause: it.state.cause().map_or("", Cause::name).to_owned(),
                tree: tree_text(it.tree),
                environment: farm.environment.clone(),
            }));
        }
        farm.answers.wait_for(self.journal.recorded());
    }

    /// Restores the leases of the run, and continues the attempts that clients may still have.
    pub(in crate::coordinator) fn restore_leases(&mut self, schedule: &mut Schedule) {
        let Some(farm) = &mut self.farm else { return };
        let (times, earlier) = (farm.times, std::mem::take(&mut farm.earlier));
        let work = earlier.work.into_iter().map(|it| {
            let ClientWorkRow { client, built, expected_ms, took_ms } = it;
            (client, ClientWork { built, expected_ms, took_ms })
        });
        let work: BTreeMap<String, ClientWork> = work.collect();
        let leases = earlier.leases.iter().filter_map(|row| Some((row, self.lease_record(row)?)));
        let leases: Vec<(&LeaseRow, LeaseRecord)> = leases.collect();
        let records: Vec<LeaseRecord> = leases.iter().map(|(_, record)| record.clone()).collect();
        let (now_ms, slots) = (self.clock.now_ms(), self.dispatch.local.clone());
        let terms = |package| self.lease_terms(package);
        self.dispatch = Dispatch::restore(times, slots, now_ms, &records, work, terms);
        for (row, record) in leases.iter().filter(|(_, record)| !record.state.has_ended()) {
            complete_noops(schedule);
            match self.may_continue(row, schedule) {
                true => self.continue_lease(record, schedule),
                false => self.withdraw_lease(record),
            }
        }
        self.record_leases();
    }

    fn lease_record(&self, row: &LeaseRow) -> Option<LeaseRecord> {
        Some(LeaseRecord {
            lease: row.lease.parse().ok()?,
            package: Some(row.job).filter(|package| self.plan.all().contains(package))?,
            attempt: row.attempt,
            client: row.client.clone(),
            token: row.token.clone(),
            tree: row.tree.parse().ok(),
            began_ms: row.began_ms.saturating_sub(self.epoch_ms),
            state: LeaseState::restore(&row.state, &row.cause)?,
        })
    }

    /// Whether the result of a lease would be that of a new attempt.
    fn may_continue(&self, row: &LeaseRow, schedule: &Schedule) -> bool {
        let Some(farm) = &self.farm else { return false };
        // This coordinator knows only the tree as it is now. A lease of an older one may lack files that were changed.
        let same_files = row.tree == tree_text(farm.tree.manifest()) && row.environment == farm.environment;
        let is_open = self.plan.package(row.job).state() == State::Open;
        let is_trusted = farm.trust.clients(row.job).is_none_or(|names| names.contains(&row.client));
        same_files && is_trusted && is_open && schedule.state(JobId(row.job)) == JobState::Ready
    }

    fn continue_lease(&mut self, record: &LeaseRecord, schedule: &mut Schedule) {
        let Some(entry) = self.dispatch.lease(record.lease) else { return };
        let (package, client) = (record.package, ClientIndex::Remote(entry.client));
        let job = JobId(package);
        let info = self.job_info(package);
        self.withdraw_blob(package);
        let current = Current { attempt: record.attempt, client, failures: 0, rebuild: None };
        let change = self.plan.set(package, PackageState::Running(current));
        self.record_states(change.as_slice());
        let running = Running {
            began_ms: record.began_ms,
            stage: Stage::ClientClean,
            stage_began_ms: self.clock.now_ms(),
            step: Step::Attempt(None),
            built_with: self.built_with(package),
            stages_ms: Some(0),
        };
        self.running.insert(package, running);
        schedule.take_elsewhere(job);
        self.estimator.started(job);
        if let Some(farm) = &mut self.farm {
            farm.continued.push((job, info));
        }
    }

    /// Ends a lease whose result is of no use. The package is open.
    fn withdraw_lease(&mut self, record: &LeaseRecord) {
        self.dispatch.supersede(record.lease);
        self.journal.record(Change::Attempt(AttemptRow {
            job: record.package,
            attempt: record.attempt,
            client: record.client.clone(),
            began_ms: self.date(record.began_ms),
            ended_ms: None,
            outcome: INTERRUPTED.into(),
            why: String::new(),
        }));
    }

    /// Takes the jobs of the attempts that continue.
    pub(in crate::coordinator) fn take_continued(&mut self) -> Vec<(JobId, JobInfo)> {
        self.farm.as_mut().map(|farm| std::mem::take(&mut farm.continued)).unwrap_or_default()
    }
}

/// The name of a tree in the database; empty if there is none.
fn tree_text(tree: Option<Digest>) -> String {
    tree.map(|it| it.to_string()).unwrap_or_default()
}

/// Completes the jobs of packages that are not built, so that those that depend on them are ready.
fn complete_noops(schedule: &mut Schedule) {
    while schedule.has_noop() {
        if let Some(Next::NoOp(job)) = schedule.take_next() {
            schedule.succeeded(job);
        }
    }
}
