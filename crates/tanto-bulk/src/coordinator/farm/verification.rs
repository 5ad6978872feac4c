//! Verifies packages of clients: another client builds some of them again when it has nothing else to do, and both packages
//! are compared. If they differ, a third build decides which one is wrong. The accepted package stays in any case.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use tanto_exec::event::{Event, Level, View};
use tanto_exec::schedule::Schedule;
use tanto_protocol::{AttemptOutcome, Digest, Lease, LeaseId, PackageBlob, ResultReport};
use tanto_record::database::{self, Change, Database, ProvenanceRow, VerificationRow};
use tanto_sys::random;

use super::leases::needs;
use crate::config::Config;
use crate::coordinator::acceptance::{AcceptAnswer, AcceptorRequest, CompareRequest, StoredPackage, Taken};
use crate::coordinator::dispatch::lease::Cause;
use crate::coordinator::dispatch::{ClientIndex, Dispatch, DispatchEffect, PackageNeeds, ThisMachine};
use crate::coordinator::frontend::Coordinator;
use crate::coordinator::state::State;
use crate::coordinator::verification::{VerificationResult, describe, is_mismatch};
use crate::resolve::PackageId;

/// Builds that may fail until a package is given up.
const MAX_FAILURES: usize = 3;

/// Packages that are verified, and how they are chosen.
#[derive(Default)]
pub struct Verifications {
    /// In hundredths of a percent.
    share: u32,
    /// No client can guess which packages are chosen with it.
    secret: [u8; 16],
    /// Names of clients that decide; empty: all.
    trusted: Vec<String>,
    open: BTreeMap<PackageId, Verification>,
    /// The number of the last comparison.
    last_request: u64,
    /// Those of the run with different packages.
    pub mismatches: Vec<VerificationRow>,
    /// When something was built, offered or compared last.
    last_change_ms: i64,
    /// The user knows that the build waits for verifications.
    is_announced: bool,
}

/// A verification that has not ended.
struct Verification {
    accepted: AcceptedBuild,
    /// The second build, if its package differs.
    second: Option<SecondBuild>,
    step: VerificationStep,
    /// Clients that could not build it.
    failed: Vec<String>,
}

/// The build whose package was accepted.
#[derive(Clone)]
struct AcceptedBuild {
    attempt: u32,
    client: String,
    digest: Digest,
    tree: Option<Digest>,
    /// The digests of all dependencies.
    built_with: Vec<database::Sha256>,
}

struct SecondBuild {
    client: String,
    blob: PackageBlob,
    /// The members that differ, for people.
    members: String,
}

enum VerificationStep {
    Waiting,
    Building(LeaseId),
    Comparing { request: u64, lease: LeaseId, client: String, blob: PackageBlob },
}

impl Verifications {
    pub fn new(config: &Config) -> Verifications {
        // Without random numbers, no client can have a lease either.
        let secret = random::bytes().unwrap_or_default();
        Verifications { share: config.verify, secret, trusted: config.trusted.clone(), ..Verifications::default() }
    }

    /// Restores the verifications of a run that had not ended. Their builds begin anew.
    pub fn restored(mut self, database: &Database, run: i64) -> database::Result<Verifications> {
        for row in database.verifications(run)? {
            match VerificationResult::of(&row) {
                Some(VerificationResult::Open) => {
                    let built = database.provenance_of(&row.name)?.filter(|built| built.digest == Some(row.digest));
                    self.open.extend(built.map(|built| (row.job, Verification::new(AcceptedBuild::of(&row, built)))));
                }
                Some(result) if result.is_mismatch() => self.mismatches.push(row),
                _ => {}
            }
        }
        Ok(self)
    }

    fn is_chosen(&self, name: &str, attempt: u32) -> bool {
        let hash = Sha256::digest([&self.secret[..], &attempt.to_le_bytes(), name.as_bytes()].concat());
        let number = hash.iter().take(8).fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        number % 10_000 < u64::from(self.share)
    }

    /// The packages that the server has to keep.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> {
        self.open.values().flat_map(|it| {
            let comparing = match &it.step {
                VerificationStep::Comparing { blob, .. } => Some(blob.digest),
                _ => None,
            };
            it.second.iter().map(|second| second.blob.digest).chain(comparing)
        })
    }
}

impl AcceptedBuild {
    fn of(row: &VerificationRow, built: ProvenanceRow) -> AcceptedBuild {
        AcceptedBuild {
            attempt: row.attempt,
            client: row.first.clone(),
            digest: Digest(row.digest),
            tree: built.tree.parse().ok(),
            built_with: built.built_with,
        }
    }
}

impl Verification {
    fn new(accepted: AcceptedBuild) -> Verification {
        Verification { accepted, second: None, step: VerificationStep::Waiting, failed: Vec::new() }
    }

    /// Clients that must not build it now: the package of a third one, or of a trusted one, decides.
    fn excluded(&self, has_trusted: bool) -> Vec<&str> {
        let first = &*self.accepted.client;
        match &self.second {
            None => vec![first],
            Some(_) if has_trusted => Vec::new(),
            Some(second) => vec![first, &*second.client],
        }
    }

    /// Clients that build it only if no other can.
    fn avoided(&self) -> impl Iterator<Item = &String> {
        let built = self.second.iter().flat_map(|second| [&self.accepted.client, &second.client]);
        built.chain(&self.failed)
    }
}

impl Coordinator<'_> {
    /// Decides whether a package that was accepted from a client is built again.
    pub(in crate::coordinator) fn choose_for_verification(&mut self, package: PackageId, built: &ProvenanceRow) {
        let Some(farm) = &mut self.farm else { return };
        let Some(digest) = built.digest.filter(|_| farm.verifications.is_chosen(&built.name, built.attempt)) else {
            return;
        };
        let row = VerificationRow {
            job: package,
            attempt: built.attempt,
            name: built.name.clone(),
            digest,
            first: built.client.clone(),
            second: String::new(),
            third: String::new(),
            result: VerificationResult::Open.name().to_owned(),
            suspect: String::new(),
            detail: String::new(),
            at_ms: built.ended_ms,
        };
        farm.verifications.open.insert(package, Verification::new(AcceptedBuild::of(&row, built.clone())));
        self.journal.record(Change::Verification(row));
    }

    /// Has clients that have nothing else to do build packages again.
    pub(in crate::coordinator) fn start_verifications(&mut self, schedule: &Schedule, view: &mut dyn View) {
        let now_ms = self.clock.now_ms();
        let Some(farm) = self.farm.as_mut().filter(|farm| !farm.verifications.open.is_empty()) else { return };
        if schedule.has_work() {
            farm.verifications.last_change_ms = now_ms;
        } else if !std::mem::replace(&mut farm.verifications.is_announced, true) {
            let text = match farm.verifications.open.len() {
                1 => "waiting for the verification of 1 package".to_owned(),
                count => format!("waiting for the verification of {count} packages"),
            };
            view.event(Event::Notice { level: Level::Info, text: text.as_bytes() });
        }
        let is_waiting = |it: &Verification| matches!(it.step, VerificationStep::Waiting);
        let waiting = farm.verifications.open.iter().filter(|(_, it)| is_waiting(it)).map(|(&package, _)| package);
        let waiting: Vec<PackageId> = waiting.collect();
        let mut has_started = false;
        for package in waiting {
            if !self.dispatch.has_free_client() {
                break;
            }
            has_started |= self.start_verification(package).is_some();
        }
        if has_started {
            self.answer_clients(now_ms);
        }
    }

    fn start_verification(&mut self, package: PackageId) -> Option<()> {
        let client = self.with_verifier_needs(package, Dispatch::choose_verifier)??;
        if let Some(why) = self.obsolete(package) {
            self.end_verification(package, VerificationResult::Unverified, why.to_owned());
            return None;
        }
        // They may be being built again.
        let packages = self.dependency_blobs(package)?;
        let distfiles = self.lease_distfiles(package)?;
        let id = LeaseId(random::bytes().ok()?);
        let (now_ms, terms) = (self.clock.now_ms(), self.lease_terms(package));
        let spec = self.plan.attempt_spec(package, self.settings, false);
        let farm = self.farm.as_mut()?;
        let it = farm.verifications.open.get_mut(&package)?;
        let lease = Lease { lease: id, spec, tree: it.accepted.tree, packages, distfiles, features: Vec::new() };
        it.step = VerificationStep::Building(id);
        farm.verifications.last_change_ms = now_ms;
        self.dispatch.offer_verification(now_ms, client, package, lease, terms);
        Some(())
    }

    /// Asks about clients that may verify a package.
    fn with_verifier_needs<T>(
        &self,
        package: PackageId,
        ask: impl FnOnce(&Dispatch, i64, &PackageNeeds<'_>, &[&str]) -> T,
    ) -> Option<T> {
        let farm = self.farm.as_ref()?;
        let it = farm.verifications.open.get(&package)?;
        let trusted = Some(&*farm.verifications.trusted).filter(|names| it.second.is_some() && !names.is_empty());
        let clients = self.dispatch.clients();
        let avoided: Vec<ClientIndex> = (0..clients.len())
            .filter(|&client| it.avoided().any(|name| *name == clients[client].name))
            .map(ClientIndex::Remote)
            .collect();
        let needs = needs(&self.plan, package, self.labels(package), trusted);
        let needs = PackageNeeds { excluded: &avoided, this_machine: ThisMachine::Never, ..needs };
        Some(ask(&self.dispatch, self.clock.now_ms(), &needs, &it.excluded(trusted.is_some())))
    }

    /// Handles the end of an attempt for verification.
    pub(super) fn verification_effect(&mut self, effect: DispatchEffect) {
        let now_ms = self.clock.now_ms();
        match effect {
            DispatchEffect::Reported { lease, package, client, .. } => {
                let client = self.dispatch.name(client);
                let report = self.farm.as_mut().and_then(|farm| farm.reports.remove(&lease));
                match report.filter(|_| self.is_verified_by(package, lease)) {
                    Some(report) => self.verification_reported(lease, package, client, &report),
                    None => self.dispatch.accepted(lease),
                }
            }
            DispatchEffect::Ended { lease, package, client, cause, .. } => {
                let name = self.dispatch.name(client);
                if !self.is_verified_by(package, lease) {
                    return;
                }
                self.set_waiting(package);
                if cause != Cause::Bye {
                    self.verification_failed(package, name, "it was lost".to_owned());
                }
            }
            _ => return,
        }
        if let Some(farm) = &mut self.farm {
            farm.verifications.last_change_ms = now_ms;
        }
    }

    /// Whether the verification of a package has this lease.
    fn is_verified_by(&self, package: PackageId, lease: LeaseId) -> bool {
        let it = self.farm.as_ref().and_then(|farm| farm.verifications.open.get(&package));
        it.is_some_and(|it| match &it.step {
            VerificationStep::Waiting => false,
            VerificationStep::Building(own) | VerificationStep::Comparing { lease: own, .. } => *own == lease,
        })
    }

    fn set_waiting(&mut self, package: PackageId) {
        if let Some(it) = self.farm.as_mut().and_then(|farm| farm.verifications.open.get_mut(&package)) {
            it.step = VerificationStep::Waiting;
        }
    }

    fn verification_reported(&mut self, lease: LeaseId, package: PackageId, client: String, report: &ResultReport) {
        if let Some(why) = self.obsolete(package) {
            self.dispatch.accepted(lease);
            return self.end_verification(package, VerificationResult::Unverified, why.to_owned());
        }
        let name = &self.plan.package(package).name;
        let built = report.packages.iter().find(|it| it.name == *name);
        let Some(blob) = built.filter(|_| report.result.outcome == AttemptOutcome::Built).cloned() else {
            self.dispatch.accepted(lease);
            return match &report.result.outcome {
                AttemptOutcome::TreeChanged { why } => {
                    self.end_verification(package, VerificationResult::Unverified, why.clone())
                }
                outcome => self.verification_failed(package, client, outcome.why().to_owned()),
            };
        };
        let Some(accepted) = self.farm.as_ref().and_then(|farm| farm.packages.get(name)).cloned() else { return };
        let first = self.provided(&accepted);
        let first = StoredPackage { path: first.path, digest: first.digest, size: first.size };
        let Some(farm) = &mut self.farm else { return };
        let blob_of = |blob: &PackageBlob| StoredPackage {
            path: farm.blob_path(blob.digest),
            digest: blob.digest,
            size: blob.size,
        };
        let Some(it) = farm.verifications.open.get(&package) else { return };
        let others = std::iter::once(first).chain(it.second.iter().map(|second| blob_of(&second.blob))).collect();
        let number = farm.verifications.last_request + 1;
        let compare = CompareRequest { number, package: blob_of(&blob), others };
        farm.verifications.last_request = number;
        farm.comparison.submit(&AcceptorRequest::Compare(compare));
        if let Some(it) = farm.verifications.open.get_mut(&package) {
            it.step = VerificationStep::Comparing { request: number, lease, client, blob };
        }
    }

    /// A client could not build a package again: another one tries.
    fn verification_failed(&mut self, package: PackageId, client: String, why: String) {
        self.set_waiting(package);
        let Some(it) = self.farm.as_mut().and_then(|farm| farm.verifications.open.get_mut(&package)) else { return };
        let why = format!("{client} could not build it: {why}");
        it.failed.push(client);
        if it.failed.len() >= MAX_FAILURES {
            self.give_up(package, why);
        }
    }

    /// Ends a verification without a decision.
    fn give_up(&mut self, package: PackageId, why: String) {
        let Some(it) = self.farm.as_ref().and_then(|farm| farm.verifications.open.get(&package)) else { return };
        match &it.second {
            Some(second) => self.end_verification(package, VerificationResult::Undecided, second.members.clone()),
            None => self.end_verification(package, VerificationResult::Unverified, why),
        }
    }

    /// Handles packages that were compared.
    pub(super) fn take_compared(&mut self, view: &mut dyn View) {
        let Some(farm) = &mut self.farm else { return };
        for AcceptAnswer { number, result, .. } in farm.comparison.answers() {
            self.compared(number, result, view);
        }
    }

    fn compared(&mut self, number: u64, result: Result<Taken, String>, view: &mut dyn View) {
        let now_ms = self.clock.now_ms();
        let Some(farm) = &mut self.farm else { return };
        farm.verifications.last_change_ms = now_ms;
        let is_it =
            |it: &Verification| matches!(it.step, VerificationStep::Comparing { request, .. } if request == number);
        let Some((&package, it)) = farm.verifications.open.iter_mut().find(|(_, it)| is_it(it)) else { return };
        let step = std::mem::replace(&mut it.step, VerificationStep::Waiting);
        let VerificationStep::Comparing { lease, client, blob, .. } = step else { return };
        self.dispatch.accepted(lease);
        let lists = match result {
            Ok(Taken::Differences(lists)) => lists.into_iter().map(|names| names.join(", ")).collect::<Vec<String>>(),
            Ok(_) => return self.give_up(package, "the packages could not be compared".to_owned()),
            Err(why) => return self.give_up(package, why),
        };
        match (&lists[..], &it.second) {
            ([members], None) if members.is_empty() => {
                self.verified(package, (client, String::new()), VerificationResult::Equal, "", view);
            }
            ([members], None) => {
                it.failed.clear();
                it.second = Some(SecondBuild { client, blob, members: members.clone() });
            }
            ([from_first, from_second], Some(second)) => {
                let (other, first) = (second.client.clone(), it.accepted.client.clone());
                let (result, suspect) = match (from_first.is_empty(), from_second.is_empty()) {
                    (true, _) => (VerificationResult::Differs, other.clone()),
                    (_, true) => (VerificationResult::Differs, first),
                    _ => (VerificationResult::NotReproducible, String::new()),
                };
                self.verified(package, (other, client), result, &suspect, view);
            }
            _ => self.give_up(package, "the packages could not be compared".to_owned()),
        }
    }

    /// Records the result of a verification, and tells the user if packages differ.
    fn verified(
        &mut self,
        package: PackageId,
        (second, third): (String, String),
        result: VerificationResult,
        suspect: &str,
        view: &mut dyn View,
    ) {
        let Some(it) = self.farm.as_mut().and_then(|farm| farm.verifications.open.remove(&package)) else { return };
        let detail = it.second.as_ref().map(|second| second.members.clone()).unwrap_or_default();
        let row = self.verification_row(package, &it, result, detail);
        let row = VerificationRow { second, third, suspect: suspect.to_owned(), ..row };
        if result.is_mismatch() {
            let text = format!("{}: {}", row.name, describe(&row));
            view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
        }
        self.record_verification(row);
    }

    /// Records a verification that ends without a further build.
    fn end_verification(&mut self, package: PackageId, result: VerificationResult, detail: String) {
        let Some(it) = self.farm.as_mut().and_then(|farm| farm.verifications.open.remove(&package)) else { return };
        let row = self.verification_row(package, &it, result, detail);
        self.record_verification(row);
    }

    fn verification_row(
        &self,
        package: PackageId,
        it: &Verification,
        result: VerificationResult,
        detail: String,
    ) -> VerificationRow {
        VerificationRow {
            job: package,
            attempt: it.accepted.attempt,
            name: self.plan.package(package).name.clone(),
            digest: it.accepted.digest.0,
            first: it.accepted.client.clone(),
            second: it.second.as_ref().map(|second| second.client.clone()).unwrap_or_default(),
            third: String::new(),
            result: result.name().to_owned(),
            suspect: String::new(),
            detail,
            at_ms: self.date(self.clock.now_ms()),
        }
    }

    fn record_verification(&mut self, row: VerificationRow) {
        if let Some(farm) = self.farm.as_mut().filter(|_| is_mismatch(&row)) {
            farm.verifications.mismatches.push(row.clone());
        }
        self.journal.record(Change::Verification(row));
    }

    /// Why another build of a package would not be the same; `None` if it would.
    fn obsolete(&self, package: PackageId) -> Option<&'static str> {
        let farm = self.farm.as_ref()?;
        let it = &farm.verifications.open.get(&package)?.accepted;
        let planned = self.plan.package(package);
        let is_same = |blob: &PackageBlob| blob.digest == it.digest;
        let with =
            |packages: Vec<PackageBlob>| packages.iter().map(|blob| blob.digest.0).eq(it.built_with.iter().copied());
        match () {
            () if planned.state() != State::Done || !farm.packages.get(&planned.name).is_some_and(is_same) => {
                Some("the package was built again")
            }
            () if !it.tree.is_some_and(|tree| farm.tree.manifests().contains(&tree)) => {
                Some("the package tree has changed")
            }
            () if !self.dependency_blobs(package).is_none_or(with) => Some("a package that it needs was built again"),
            () => None,
        }
    }

    /// Whether the build waits for verifications, although nothing else is to be done.
    pub(in crate::coordinator) fn waits_for_verifications(&self) -> bool {
        let Some(farm) = &self.farm else { return false };
        let is_late = self.clock.now_ms() >= self.verification_deadline();
        farm.verifications.open.iter().any(|(&package, it)| match &it.step {
            VerificationStep::Building(lease) => self.dispatch.is_in_progress(*lease),
            VerificationStep::Comparing { .. } => true,
            VerificationStep::Waiting => {
                !is_late && self.with_verifier_needs(package, Dispatch::has_verifier) == Some(true)
            }
        })
    }

    /// Until when the build waits for a client that can verify a package but does not ask for work.
    fn verification_deadline(&self) -> i64 {
        self.farm.as_ref().map_or(0, |farm| farm.verifications.last_change_ms.saturating_add(farm.times.silent_ms))
    }

    /// When a build that waits for verifications has to look again.
    pub(super) fn next_verification_deadline(&self) -> Option<i64> {
        let verifications = &self.farm.as_ref()?.verifications;
        let waits = verifications.is_announced && !verifications.open.is_empty();
        // After it, nothing happens by itself.
        Some(self.verification_deadline()).filter(|&deadline| waits && deadline > self.clock.now_ms())
    }

    /// Ends all verifications at the end of the run.
    pub(in crate::coordinator) fn end_verifications(&mut self) {
        let open = self.farm.iter().flat_map(|farm| farm.verifications.open.keys().copied());
        for package in open.collect::<Vec<PackageId>>() {
            self.give_up(package, "no other client has built it before the build ended".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_depends_on_the_secret() {
        let chosen = |secret: u8, share| {
            let verifications = Verifications { share, secret: [secret; 16], ..Verifications::default() };
            let is_chosen = |number: &u32| verifications.is_chosen(&format!("p{number}-1"), 1);
            (0..10_000).filter(is_chosen).collect::<Vec<u32>>()
        };
        assert_eq!((chosen(1, 0).len(), chosen(1, 10_000).len()), (0, 10_000));
        let (some, others) = (chosen(1, 200), chosen(2, 200));
        assert!((100..300).contains(&some.len()), "{}", some.len());
        assert_eq!(some, chosen(1, 200));
        assert_ne!(some, others);
    }

    #[test]
    fn who_decides_depends_on_the_trusted_clients() {
        let (client, digest) = ("first".to_owned(), Digest([0; 32]));
        let accepted = AcceptedBuild { attempt: 1, client, digest, tree: None, built_with: Vec::new() };
        let mut it = Verification { failed: vec!["broken".into()], ..Verification::new(accepted) };
        let avoided = |it: &Verification| it.avoided().cloned().collect::<Vec<String>>().join(" ");
        assert_eq!((it.excluded(false), avoided(&it)), (vec!["first"], "broken".into()));
        let blob = PackageBlob { name: "a-1".into(), digest, size: 1 };
        it.second = Some(SecondBuild { client: "second".into(), blob, members: String::new() });
        assert_eq!((it.excluded(false), it.excluded(true)), (vec!["first", "second"], vec![]));
        assert_eq!(avoided(&it), "first second broken");
    }
}
