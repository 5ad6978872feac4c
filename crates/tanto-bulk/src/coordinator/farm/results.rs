//! Takes over the results of clients.

use std::fs::{self, File};
use std::io;

use tanto_exec::job::JobId;
use tanto_exec::runner::Wakeup;
use tanto_protocol::{AttemptOutcome, AttemptResult, Digest, LeaseId, ResultReport};

use super::completion;
use crate::attempt::failure;
use crate::attempt::runner::AttemptEvent;
use crate::config::Stage;
use crate::coordinator::dispatch::ClientIndex;
use crate::coordinator::frontend::Coordinator;
use crate::resolve::PackageId;

impl Coordinator<'_> {
    /// The digest that a client has reported for the package of a running attempt.
    pub(in crate::coordinator) fn reported_digest(&self, package: PackageId) -> Option<Digest> {
        match self.current(package).client {
            ClientIndex::Remote(_) => self.farm.as_ref()?.reported.get(&package).copied(),
            ClientIndex::Local(_) => None,
        }
    }

    /// Settles a lease when its result is durable.
    pub(in crate::coordinator) fn settle_later(&mut self, lease: LeaseId) {
        if let Some(farm) = &mut self.farm {
            farm.settling.push((lease, None));
        }
    }

    pub(super) fn settle_leases(&mut self) {
        let (recorded, committed) = (self.last_result.recorded(), self.last_result.committed());
        let Some(farm) = &mut self.farm else { return };
        for (lease, result) in std::mem::take(&mut farm.settling) {
            match result.is_some_and(|result| result <= committed) {
                true => self.dispatch.accepted(lease),
                false => farm.settling.push((lease, result.or(Some(recorded)))),
            }
        }
    }

    /// Settles the leases whose results are recorded, when nothing follows. The journal commits both in this order.
    pub(in crate::coordinator) fn settle_last_leases(&mut self) {
        let Some(farm) = &mut self.farm else { return };
        for (lease, _) in std::mem::take(&mut farm.settling) {
            self.dispatch.accepted(lease);
        }
        self.record_leases();
    }

    /// Takes over the files of a result, which then continues like that of a local attempt.
    pub(super) fn reported(&mut self, lease: LeaseId, package: PackageId) {
        let job = JobId(package);
        let Some(report) = self.farm.as_mut().and_then(|farm| farm.reports.remove(&lease)) else { return };
        let mut result = report.result.clone();
        let name = &self.plan.package(package).name;
        let digest = report.packages.iter().find(|blob| blob.name == *name).map(|blob| blob.digest);
        if let Some(farm) = &mut self.farm {
            match digest {
                Some(digest) => farm.reported.insert(package, digest),
                None => farm.reported.remove(&package),
            };
        }
        if let Err(error) = self.take_files(package, &report) {
            let why = format!("its result cannot be read: {error}");
            result =
                AttemptResult { stages: result.stages, ..AttemptResult::of(AttemptOutcome::MachineFailed { why }) };
        }
        let exit = match (&result.outcome, result.exit) {
            (AttemptOutcome::Built, _) => 0,
            (_, 0) => 1,
            (_, exit) => exit,
        };
        let mut completion = completion(job, exit, result.output.clone().into_bytes());
        failure::deny_interrupt(&mut completion);
        let Some(farm) = &mut self.farm else { return };
        farm.wakeups.push_back(Wakeup::Progress(job, AttemptEvent::Result(Box::new(result))));
        farm.wakeups.push_back(Wakeup::Completed(completion));
    }

    /// Links the blobs of a report into the directory of the attempt.
    pub(super) fn take_files(&self, package: PackageId, report: &ResultReport) -> io::Result<()> {
        let Some(farm) = &self.farm else { return Ok(()) };
        let dir = self.attempt_dir(package);
        dir.clear();
        fs::create_dir_all(dir.path())?;
        let name = &self.plan.package(package).name;
        let file = self.settings.package_file(name);
        // `deliver` copies the package and compares its digest.
        if let Some(blob) = report.packages.iter().find(|blob| blob.name == *name) {
            let (from, to) = (farm.blob_path(blob.digest), dir.file(&file));
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop))?;
        }
        for log in report.logs.iter().filter(|log| is_foreign_log(&log.file, &file)) {
            // A link would let later writers change the blob.
            let mut to = File::create_new(dir.file(&log.file))?;
            io::copy(&mut File::open(farm.blob_path(log.digest))?, &mut to)?;
        }
        Ok(())
    }
}

/// Whether a client may name a log so: not like the package, nor like a file of the coordinator.
fn is_foreign_log(name: &str, package_file: &str) -> bool {
    let own = [Stage::SyncPackage, Stage::SyncBuildlog].map(|stage| format!("{}.log", stage.name()));
    !name.starts_with('.') && name != package_file && !own.contains(&name.to_owned())
}
