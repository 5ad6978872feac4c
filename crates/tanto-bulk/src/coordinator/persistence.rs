//! Writes states, attempts, stages and costs to the journal.

use std::fs;
use std::path::Path;

use tanto_protocol::{AttemptResult, Digest, StageResult, StageWaits};
use tanto_record::database::{AttemptRow, Change, CostRow, FileRow, StageRow};
use tanto_sys::cgroup::StallTimes;

use super::frontend::{Coordinator, Running};
use super::state::{State, StateRecord};
use crate::attempt::build_settings::BuildSettings;
use crate::freshness::{Content, PackageFiles};
use crate::package::ALL;
use crate::resolve::PackageId;

impl Coordinator<'_> {
    /// Converts a time of the clock to milliseconds since 1970.
    pub(super) fn date(&self, ms: i64) -> i64 {
        self.epoch_ms.saturating_add(ms)
    }

    pub(super) fn record_states(&mut self, records: &[StateRecord]) {
        self.counts_changed |= !records.is_empty();
        records.iter().for_each(|record| self.journal.record(record.change()));
        if records.iter().any(|record| !matches!(record.state.kind(), State::Open | State::Running)) {
            self.last_result.set(self.journal.recorded());
        }
    }

    /// Records a package whose name or dependencies have changed.
    pub(super) fn record_package(&mut self, package: PackageId) {
        self.counts_changed = true;
        self.plan.rows_of(package).for_each(|change| self.journal.record(change));
    }

    /// Records the beginning of the running attempt or, with an outcome, its end.
    pub(super) fn record_attempt(&mut self, package: PackageId, ended_ms: Option<i64>, outcome: &str, why: &str) {
        let current = self.current(package);
        let row = AttemptRow {
            job: package,
            attempt: current.attempt,
            client: self.dispatch.name(current.client),
            began_ms: self.date(self.running[&package].began_ms),
            ended_ms: ended_ms.map(|ms| self.date(ms)),
            outcome: outcome.into(),
            why: why.into(),
        };
        self.journal.record(Change::Attempt(row));
    }

    pub(super) fn record_stage(&mut self, package: PackageId, it: StageResult) {
        let log = self.log_path(package, &it.log);
        let [after_ms, wall_ms] = [it.after_ms, it.wall_ms].map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        if let Some(Running { stages_ms: Some(end_ms), .. }) = self.running.get_mut(&package) {
            *end_ms = (*end_ms).max(after_ms.saturating_add(wall_ms));
        }
        self.journal.record(Change::Stage(StageRow {
            job: package,
            attempt: self.current(package).attempt,
            stage: it.stage,
            began_ms: self.date(self.running[&package].began_ms.saturating_add(after_ms)),
            wall_ms: it.wall_ms,
            cpu_ms: it.cpu_ms,
            peak_kib: it.peak_kib,
            read_bytes: it.read_bytes,
            written_bytes: it.written_bytes,
            waits: it.waits.map(|StageWaits { io_us, cpu_us }| StallTimes { io_us, cpu_us }),
            exit: it.exit,
            log,
        }));
    }

    /// Records the resources that a successful attempt used.
    pub(super) fn record_cost(&mut self, package: PackageId, result: &AttemptResult) {
        let it = self.plan.package(package);
        let now_ms = self.clock.now_ms();
        self.journal.record(Change::Cost(CostRow {
            name: it.name.clone(),
            location: it.location.clone(),
            at_ms: self.date(now_ms),
            wall_ms: u64::try_from(self.running[&package].took_ms(now_ms)).unwrap_or(0),
            cpu_ms: result.cpu_ms,
            peak_kib: result.peak_kib,
            disk_kib: result.disk_kib,
        }));
    }

    /// Compares the content of a package that was built with that before; if it is known to be the same, nothing else is
    /// built because of it.
    pub(super) fn record_content(&mut self, package: PackageId) {
        let BuildSettings { pkgsrc, packages, suffix, .. } = self.settings;
        let files = PackageFiles { pkgsrc, packages, suffix, contents: true };
        let it = self.plan.package(package);
        let renewed = it.content.as_ref().and_then(|before| files.renewed(&it.name, before));
        match &renewed {
            Some(Content { written_ns, since_ns, .. }) if since_ns < written_ns => {
                let (name, written_ns, since_ns) = (it.name.clone(), *written_ns, *since_ns);
                self.journal.record(Change::Content { name, written_ns, since_ns });
            }
            _ => self.plan.mark_rebuilt(package),
        }
        self.plan.set_content(package, renewed);
    }

    /// Records the options of a finished package. `is_new`: it was built with them now.
    pub(super) fn record_options(&mut self, package: PackageId, is_new: bool) {
        if let Some(change) = self.plan.package(package).options_row(is_new) {
            self.journal.record(change);
        }
    }

    /// The SHA512 of an installed package in hex, and its SHA256 if it has one.
    fn package_digests(&self, package: PackageId) -> Option<(String, Option<Digest>)> {
        if let Some((sha512, sha256)) = self.installed_digests(package) {
            return Some((sha512, Some(sha256)));
        }
        let digests = fs::read_to_string(self.digest_file(package)).ok()?;
        let mut digests = digests.lines();
        let sha512 = digests.next().unwrap_or_default().to_owned();
        Some((sha512, digests.next().and_then(|sha256| sha256.parse().ok())))
    }

    /// Records the size and the digest of an installed package.
    pub(super) fn record_file(&mut self, package: PackageId) {
        let Some((digest, blob)) = self.package_digests(package) else { return };
        let name = self.plan.package(package).name.clone();
        let path = format!("{ALL}/{name}{}", self.settings.suffix);
        let Ok(data) = fs::metadata(Path::new(&self.settings.packages).join(&path)) else { return };
        if let Some(blob) = blob {
            self.provide_package(&name, blob, data.len());
        }
        self.journal.record(Change::File(FileRow { name, path, bytes: data.len(), digest: digest.into_bytes() }));
    }
}
