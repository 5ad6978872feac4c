//! Builds packages on other machines: answers the requests of clients that the server relays, offers leases, and turns the
//! messages of clients into wakeups of the run loop.

mod answers;
mod clients;
mod distfiles;
mod fetch_claims;
mod gauges;
mod leases;
pub mod place;
pub mod prepare;
mod relay;
mod restart;
mod results;
mod roots;
mod settlements;
pub mod starter;
mod tree;
mod trust;
mod verification;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use tanto_cas::Store;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::report::JobSample;
use tanto_exec::job::{Completion, Exit, JobId, JobInfo};
use tanto_exec::runner::Wakeup;
use tanto_exec::schedule::Schedule;
use tanto_protocol::{BuildDescription, Digest, LeaseId, LeaseProgress, PackageBlob, ResultReport};

use self::answers::HeldAnswers;
use self::distfiles::FarmDistfiles;
use self::place::Places;
use self::restart::EarlierLeases;
use self::settlements::Settlements;
use self::starter::ClientStarter;
use self::tree::FarmTree;
use self::trust::TrustRule;
use self::verification::Verifications;
use super::acceptance::{Acceptance, AcceptedPackage};
use super::control_socket::LinkEvent;
use super::dispatch::{DispatchEffect, LeaseTimes};
use super::frontend::Coordinator;
use super::status::span;
use crate::attempt::runner::AttemptEvent;
use crate::config::Stage;
use crate::resolve::PackageId;

/// The part of a coordinator that other machines need.
pub struct Farm {
    pub description: BuildDescription,
    /// Where clients upload results.
    pub blobs: Store,
    tree: FarmTree,
    /// Package files as blobs, by PKGNAME.
    pub packages: HashMap<String, PackageBlob>,
    distfiles: FarmDistfiles,
    /// The digest of the environment of the build.
    environment: String,
    earlier: EarlierLeases,
    /// Jobs of the attempts of an earlier coordinator that continue.
    continued: Vec<(JobId, JobInfo)>,
    answers: HeldAnswers,
    settlements: Settlements,
    /// Results that have arrived.
    reports: HashMap<LeaseId, Box<ResultReport>>,
    /// Opens and copies the files of results.
    acceptance: Acceptance,
    /// Results that are being accepted, by the number of the request.
    accepting: BTreeMap<u64, AcceptingResult>,
    /// The number of the last request.
    last_request: u64,
    /// Compares packages, so that no result has to wait for that.
    comparison: Acceptance,
    pub verifications: Verifications,
    /// Packages of clients that are in the attempt's directory or installed, but not recorded yet.
    accepted: HashMap<PackageId, AcceptedPackage>,
    /// Leases whose results are recorded but perhaps not durable, with the number of the last record.
    settling: Vec<(LeaseId, Option<u64>)>,
    wakeups: VecDeque<Wakeup<AttemptEvent>>,
    pub places: Places,
    trust: TrustRule,
    pub times: LeaseTimes,
    /// When the numbers for metrics are sent again.
    gauges_due_ms: i64,
    /// Starts clients when packages wait for some.
    pub starter: Option<ClientStarter>,
}

/// A result that is being accepted.
struct AcceptingResult {
    package: PackageId,
    attempt: u32,
    report: Box<ResultReport>,
}

/// Missing blobs that are named to a client in one answer.
const MAX_MISSING: usize = 3_000;

impl Farm {
    fn new(
        description: BuildDescription,
        blobs: Store,
        tree: FarmTree,
        (packages, distfiles): (HashMap<String, PackageBlob>, FarmDistfiles),
        [acceptance, comparison]: [Acceptance; 2],
    ) -> Farm {
        let environment: String =
            description.environment.iter().map(|(key, value)| format!("{key}={value:?}\n")).collect();
        Farm {
            environment: tanto_cas::Digest::of(environment.as_bytes()).to_string(),
            description,
            blobs,
            tree,
            packages,
            distfiles,
            earlier: EarlierLeases::default(),
            continued: Vec::new(),
            answers: HeldAnswers::default(),
            settlements: Settlements::default(),
            reports: HashMap::new(),
            acceptance,
            accepting: BTreeMap::new(),
            last_request: 0,
            comparison,
            verifications: Verifications::default(),
            accepted: HashMap::new(),
            settling: Vec::new(),
            wakeups: VecDeque::new(),
            places: Places::default(),
            trust: TrustRule::default(),
            times: LeaseTimes::default(),
            gauges_due_ms: i64::MIN,
            starter: None,
        }
    }

    /// When to look again although nothing wakes the loop.
    pub fn poll_interval(&self) -> Option<Duration> {
        self.tree.poll_interval().or(self.distfiles.poll_interval())
    }

    /// Returns the digests of a report's blobs that are not in the store.
    fn missing(&self, report: &ResultReport) -> Vec<Digest> {
        let packages = report.packages.iter().map(|it| it.digest);
        let distfiles = report.distfiles.iter().filter_map(|it| it.digest);
        let all = packages.chain(report.logs.iter().map(|it| it.digest)).chain(distfiles);
        // Without an answer of the store, they are uploaded again.
        let missing = all.filter(|digest| !self.blobs.contains(&tanto_cas::Digest(digest.0)).unwrap_or(false));
        missing.take(MAX_MISSING).collect()
    }

    /// Returns descriptors that are readable when a result may have been accepted, or packages compared.
    pub fn wake_fds(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.acceptance.wake_fd()?, self.comparison.wake_fd()?])
    }

    /// Takes the processes of its own that were started (`true`) or have ended since the last call.
    pub fn take_processes(&mut self) -> Vec<(u32, bool)> {
        [self.acceptance.take_changes(), self.comparison.take_changes()].concat()
    }

    /// Returns the tree of an attempt that begins now, if it is known.
    pub fn tree_of(&self, package: PackageId) -> Option<Digest> {
        self.tree.manifest().filter(|_| !self.tree.is_changed(package))
    }

    /// The digest of the environment of the build.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    fn blob_path(&self, digest: Digest) -> PathBuf {
        self.blobs.blob_path(&tanto_cas::Digest(digest.0))
    }
}

impl Coordinator<'_> {
    /// Returns the next wakeup of a package on another machine.
    pub(super) fn take_remote_wakeup(&mut self) -> Option<Wakeup<AttemptEvent>> {
        self.farm.as_mut()?.wakeups.pop_front()
    }

    /// Handles everything that clients have sent, and all deadlines.
    pub(super) fn serve_clients(&mut self, view: &mut dyn View) {
        if self.farm.is_none() {
            return;
        }
        let now_ms = self.clock.now_ms();
        while let Some(event) = self.control.next_link_event() {
            match event {
                LinkEvent::Up => self.link_up(now_ms),
                LinkEvent::Down(why) => {
                    self.link_down(now_ms);
                    let text = format!("the server of clients is gone: {why}");
                    view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
                }
                LinkEvent::Message(message) => self.relayed(now_ms, *message),
            }
        }
        self.report_client_start(view);
        self.poll_tree(view);
        if let Some(farm) = &mut self.farm {
            farm.distfiles.poll();
        }
        self.settle_leases();
        self.dispatch.tick(now_ms);
        self.record_leases();
        for effect in self.dispatch.take_effects() {
            self.apply_effect(effect, view);
        }
        self.take_accepted();
        self.take_compared(view);
        self.answer_clients(now_ms);
        self.send_gauges(now_ms);
    }

    /// Forgets the file of a package that is built again.
    pub(super) fn withdraw_blob(&mut self, package: PackageId) {
        if let Some(farm) = &mut self.farm {
            farm.packages.remove(&self.plan.package(package).name);
        }
    }

    /// Starts clients for the packages that have to wait.
    pub(super) fn want_clients(&mut self, schedule: &Schedule) {
        let Some(farm) = &mut self.farm else { return };
        let Some(starter) = &mut farm.starter else { return };
        let is_for_all = |job: &JobId| !farm.tree.is_changed(job.0) && farm.trust.clients(job.0).is_none();
        let packages = schedule.ready_jobs().filter(is_for_all).count();
        let clients = self.dispatch.clients().iter().filter(|client| client.is_live()).count();
        starter.want(self.clock.now_ms(), packages, clients);
    }

    fn report_client_start(&mut self, view: &mut dyn View) {
        let Some(why) = self.farm.as_mut().and_then(|farm| farm.starter.as_mut()?.poll()) else { return };
        let text = format!("client_start failed: {why}");
        view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
    }

    /// When something happens by itself.
    pub(super) fn next_client_deadline(&self) -> Option<i64> {
        let farm = self.farm.as_ref()?;
        let starter = farm.starter.as_ref().and_then(|starter| starter.deadline_ms(self.clock.now_ms()));
        let settlement = farm.settlements.deadline_ms();
        let deadlines = [self.dispatch.next_deadline(), starter, settlement, self.next_verification_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn apply_effect(&mut self, effect: DispatchEffect, view: &mut dyn View) {
        if effect.lease().is_some_and(|lease| self.dispatch.is_verification(lease)) {
            return self.verification_effect(effect);
        }
        match effect {
            DispatchEffect::Confirmed { .. } => {}
            DispatchEffect::Progress { package, progress, .. } => self.progressed(package, progress),
            DispatchEffect::Reported { lease, package, .. } => self.reported(lease, package),
            DispatchEffect::Silent { client, packages, reopen_ms } => {
                let name = self.dispatch.name(client);
                let text = match packages {
                    0 => format!("{name} is silent"),
                    _ => format!(
                        "{name} is silent; {packages} packages restart in {} unless it returns",
                        span(reopen_ms)
                    ),
                };
                view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
            }
            DispatchEffect::Back { client } => {
                let text = format!("{} is back", self.dispatch.name(client));
                view.event(Event::Notice { level: Level::Info, text: text.as_bytes() });
            }
            DispatchEffect::Ended { package, client, cause, next, .. } => self.lost(package, client, cause, next),
        }
    }

    /// Records the stages of a heartbeat.
    fn progressed(&mut self, package: PackageId, progress: LeaseProgress) {
        self.keep_output(package, &progress);
        let Some(running) = self.running.get(&package) else { return };
        let job = JobId(package);
        let at_ms = self.clock.now_ms().saturating_sub_unsigned(progress.stage_ms).max(running.began_ms);
        let stage = Stage::ALL.into_iter().find(|it| it.name() == progress.stage).filter(|&it| it != running.stage);
        let sample = JobSample { memory_kib: progress.memory_kib, ..JobSample::default() };
        let Some(farm) = &mut self.farm else { return };
        farm.wakeups.push_back(Wakeup::Sampled(job, sample));
        farm.distfiles.progressed(at_ms, package, &progress);
        let blobs = &farm.blobs;
        let blob = |digest: Digest| blobs.blob_path(&tanto_cas::Digest(digest.0));
        farm.distfiles.take(&self.plan.package(package).location, &progress.distfiles, blob);
        if let Some(stage) = stage {
            farm.wakeups.push_back(Wakeup::Progress(job, AttemptEvent::Stage { stage, at_ms, ended: None }));
        }
        if progress.ended.is_empty() {
            return;
        }
        for ended in progress.ended {
            self.record_stage(package, ended);
        }
        // The client forgets them when it gets the answer.
        if let Some(farm) = &mut self.farm {
            farm.answers.wait_for(self.journal.recorded());
        }
    }
}

fn completion(job: JobId, exit: i32, output: Vec<u8>) -> Completion {
    Completion::new(job, Exit::Code(exit), output)
}
