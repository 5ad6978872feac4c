//! Takes over the results of clients.

use tanto_exec::job::JobId;
use tanto_exec::runner::Wakeup;
use tanto_protocol::{AttemptOutcome, AttemptResult, Digest, LeaseId, ResultReport};

use super::{AcceptingResult, completion};
use crate::attempt::failure;
use crate::attempt::runner::AttemptEvent;
use crate::config::Stage;
use crate::coordinator::acceptance::{
    AcceptAnswer, AcceptRequest, AcceptedPackage, AcceptorRequest, Destination, IncomingFile, IncomingPackage, Taken,
};
use crate::coordinator::dispatch::ClientIndex;
use crate::coordinator::frontend::Coordinator;
use crate::resolve::PackageId;

impl Coordinator<'_> {
    /// The digest of the package that a client has made in the running attempt.
    pub(in crate::coordinator) fn accepted_digest(&self, package: PackageId) -> Option<Digest> {
        self.accepted(package).map(|accepted| accepted.digest)
    }

    /// Whether the package of the running attempt was installed when it was accepted from a client.
    pub(in crate::coordinator) fn is_installed(&self, package: PackageId) -> bool {
        self.accepted(package).is_some_and(|accepted| accepted.installed.is_some())
    }

    /// The digests of the package if it was installed when it was accepted from a client: the SHA512 in hex, and the SHA256.
    pub(in crate::coordinator) fn installed_digests(&self, package: PackageId) -> Option<(String, Digest)> {
        let accepted = self.accepted(package)?;
        Some((accepted.installed.clone()?, accepted.digest))
    }

    fn accepted(&self, package: PackageId) -> Option<&AcceptedPackage> {
        match self.current(package).client {
            ClientIndex::Remote(_) => self.farm.as_ref()?.accepted.get(&package),
            ClientIndex::Local(_) => None,
        }
    }

    /// Settles a lease when its result, which is being recorded, is durable.
    pub(in crate::coordinator) fn settle_later(&mut self, lease: LeaseId) {
        self.dispatch.outcome_recorded(lease);
        self.record_leases();
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

    /// Has the files of a result accepted by a process of its own.
    pub(super) fn reported(&mut self, lease: LeaseId, package: PackageId) {
        let Some(farm) = &mut self.farm else { return };
        let Some(report) = farm.reports.remove(&lease) else { return };
        farm.last_request += 1;
        farm.accepted.remove(&package);
        let number = farm.last_request;
        let request = self.accept_request(number, package, &report);
        let accepting = AcceptingResult { package, attempt: self.current(package).attempt, report };
        let at_ms = self.clock.now_ms();
        let Some(farm) = &mut self.farm else { return };
        if request.package.is_some() {
            let event = AttemptEvent::Stage { stage: Stage::SyncPackage, at_ms, ended: None };
            farm.wakeups.push_back(Wakeup::Progress(JobId(package), event));
        }
        let blobs = &farm.blobs;
        let blob = |digest: Digest| blobs.blob_path(&tanto_cas::Digest(digest.0));
        farm.distfiles.take(&self.plan.package(package).location, &accepting.report.distfiles, blob);
        farm.acceptance.submit(&AcceptorRequest::Accept(Box::new(request)));
        farm.accepting.insert(number, accepting);
    }

    fn accept_request(&self, number: u64, package: PackageId, report: &ResultReport) -> AcceptRequest {
        let name = &self.plan.package(package).name;
        let (dir, file) = (self.attempt_dir(package), self.settings.package_file(name));
        let blob = |digest| self.farm.as_ref().map(|farm| farm.blob_path(digest)).unwrap_or_default();
        let logs = report.logs.iter().filter(|log| is_foreign_log(&log.file, &file));
        let logs = logs.map(|log| IncomingFile { name: log.file.clone(), blob: blob(log.digest) }).collect();
        let built = report.packages.iter().find(|it| it.name == *name);
        let built = built.filter(|_| report.result.outcome == AttemptOutcome::Built);
        // The hook is a command of the user, with its own limits.
        let destination = match self.settings.sync_package.is_empty() {
            true => self.destination(package),
            false => Destination::Attempt(file),
        };
        let package = built.map(|built| IncomingPackage {
            blob: blob(built.digest),
            digest: built.digest,
            size: built.size,
            name: name.clone(),
            dependencies: self.dependency_names(package),
            destination,
        });
        AcceptRequest { number, dir: dir.path().to_owned(), logs, package }
    }

    fn destination(&self, package: PackageId) -> Destination {
        let (new, place) = self.package_paths(package);
        Destination::Packages { new, place }
    }

    fn dependency_names(&self, package: PackageId) -> Vec<String> {
        let all = self.plan.all_dependencies(package).into_iter();
        all.map(|needed| self.plan.package(needed).name.clone()).collect()
    }

    /// Continues the packages whose results were accepted or refused.
    pub(super) fn take_accepted(&mut self) {
        let Some(farm) = &mut self.farm else { return };
        for AcceptAnswer { number, notes, result } in farm.acceptance.answers() {
            let Some(accepting) = self.farm.as_mut().and_then(|farm| farm.accepting.remove(&number)) else { continue };
            let AcceptingResult { package, attempt, report } = accepting;
            // The build may have given it up.
            if !self.running.contains_key(&package) || self.current(package).attempt != attempt {
                continue;
            }
            let mut attempted = report.result;
            attempted.left.extend(notes);
            match result {
                Ok(Taken::Package(accepted)) => {
                    let Some(farm) = &mut self.farm else { return };
                    farm.accepted.insert(package, accepted);
                }
                Ok(Taken::Logs | Taken::Differences(_)) => {}
                Err(why) => {
                    let why = format!("its result was refused: {why}");
                    let outcome = AttemptOutcome::MachineFailed { why };
                    let AttemptResult { stages, left, .. } = attempted;
                    attempted = AttemptResult { stages, left, ..AttemptResult::of(outcome) };
                }
            }
            self.continue_attempt(package, attempted);
        }
    }

    /// Continues a package as after a local attempt.
    fn continue_attempt(&mut self, package: PackageId, result: AttemptResult) {
        let job = JobId(package);
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
}

/// Whether a client may name a log so: not like the package, nor like a file of the coordinator.
fn is_foreign_log(name: &str, package_file: &str) -> bool {
    let own = [Stage::SyncPackage, Stage::SyncBuildlog].map(|stage| format!("{}.log", stage.name()));
    !name.starts_with('.') && name != package_file && !own.contains(&name.to_owned())
}
