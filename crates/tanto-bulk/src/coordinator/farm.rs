//! Builds packages on other machines: answers the requests of clients that the server relays, offers leases, and turns the
//! messages of clients into wakeups of the run loop.

pub mod prepare;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use tanto_cas::Store;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::Fatal;
use tanto_exec::job::report::JobSample;
use tanto_exec::job::{Capture, Completion, ExecutedBy, Exit, JobId, JobInfo, Usage};
use tanto_exec::runner::Wakeup;
use tanto_exec::schedule::Schedule;
use tanto_exec::text::table::Table;
use tanto_exec::text::units;
use tanto_protocol::{
    AttemptOutcome, AttemptResult, BuildDescription, ClientAnswer, ClientRequest, Digest, Lease, LeaseId,
    LeaseProgress, PackageBlob, ProvidedFile, Refusal, RefusalCode, ResultAnswer, ResultReport, ToCoordinator,
    ToServer, TokenIdentity,
};

use tanto_sys::random;

use super::control_socket::LinkEvent;
use super::dispatch::lease::{Cause, LeaseTerms};
use super::dispatch::{ClientIndex, DispatchEffect, NextState, PackageNeeds, RemoteClient};
use super::frontend::{Coordinator, Step};
use super::state::{PackageState, Pending};
use super::status::span;
use crate::attempt::failure;
use crate::attempt::runner::AttemptEvent;
use crate::config::Stage;
use crate::package::ALL;
use crate::resolve::PackageId;

/// The part of a coordinator that other machines need.
pub struct Farm {
    pub description: BuildDescription,
    /// Where clients upload results.
    pub blobs: Store,
    /// The package tree that the manifest describes.
    pub tree: PathBuf,
    /// Package files as blobs, by PKGNAME.
    pub packages: HashMap<String, PackageBlob>,
    /// Packages whose directories have changed since the manifest was made: clients have the old ones.
    changed: HashSet<PackageId>,
    /// Results that are being accepted.
    reports: HashMap<LeaseId, Box<ResultReport>>,
    /// Digests of packages that clients have built and that are being installed.
    reported: HashMap<PackageId, Digest>,
    /// Leases whose results are recorded but perhaps not durable, with the number of the last record.
    settling: Vec<(LeaseId, Option<u64>)>,
    wakeups: VecDeque<Wakeup<AttemptEvent>>,
}

/// Ready jobs that are searched for one that a client can start.
const MAX_CANDIDATES: usize = 64;
/// Missing blobs that are named to a client in one answer.
const MAX_MISSING: usize = 3_000;
/// Files that are named to the server in one message.
const MAX_PROVIDED: usize = 10_000;
/// The longest time without progress if stages have no limit, in milliseconds.
const UNLIMITED_MS: i64 = i64::MAX / 4;

impl Farm {
    pub fn new(
        description: BuildDescription,
        blobs: Store,
        tree: PathBuf,
        packages: HashMap<String, PackageBlob>,
    ) -> Farm {
        Farm {
            description,
            blobs,
            tree,
            packages,
            changed: HashSet::new(),
            reports: HashMap::new(),
            reported: HashMap::new(),
            settling: Vec::new(),
            wakeups: VecDeque::new(),
        }
    }

    /// Returns the digests of a report's blobs that are not in the store.
    fn missing(&self, report: &ResultReport) -> Vec<Digest> {
        let packages = report.packages.iter().map(|it| it.digest);
        let all = packages.chain(report.logs.iter().map(|it| it.digest));
        // Without an answer of the store, they are uploaded again.
        let missing = all.filter(|digest| !self.blobs.contains(&tanto_cas::Digest(digest.0)).unwrap_or(false));
        missing.take(MAX_MISSING).collect()
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
                    self.dispatch.link_down(now_ms);
                    let text = format!("the server of clients is gone: {why}");
                    view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
                }
                LinkEvent::Message(message) => self.relayed(now_ms, *message),
            }
        }
        self.settle_leases();
        self.dispatch.tick(now_ms);
        for effect in self.dispatch.take_effects() {
            self.apply_effect(effect, view);
        }
        // A coordinator that begins anew knows no leases, so that none is kept.
        drop(self.dispatch.take_records());
        self.send_leases(now_ms);
    }

    /// Builds packages on this machine only, because their directories may have changed.
    pub(super) fn build_here(&mut self, packages: &[PackageId]) {
        if let Some(farm) = &mut self.farm {
            farm.changed.extend(packages);
        }
    }

    /// Forgets the file of a package that is built again.
    pub(super) fn withdraw_blob(&mut self, package: PackageId) {
        if let Some(farm) = &mut self.farm {
            farm.packages.remove(&self.plan.package(package).name);
        }
    }

    /// Settles a lease when its result is durable.
    pub(super) fn settle_later(&mut self, lease: LeaseId) {
        if let Some(farm) = &mut self.farm {
            farm.settling.push((lease, None));
        }
    }

    fn settle_leases(&mut self) {
        let (recorded, committed) = (self.last_result.recorded(), self.last_result.committed());
        let Some(farm) = &mut self.farm else { return };
        for (lease, result) in std::mem::take(&mut farm.settling) {
            match result.is_some_and(|result| result <= committed) {
                true => self.dispatch.accepted(lease),
                false => farm.settling.push((lease, result.or(Some(recorded)))),
            }
        }
    }

    fn send_leases(&mut self, now_ms: i64) {
        for (number, answer) in self.dispatch.take_answers(now_ms, "no package can start now") {
            let answer = answer.map_or_else(ClientAnswer::Refused, ClientAnswer::Work);
            self.control.send_to_server(&ToServer::Answer { number, answer });
        }
    }

    fn link_up(&mut self, now_ms: i64) {
        let Some(farm) = &self.farm else { return };
        self.dispatch.link_up(now_ms);
        self.control.send_to_server(&ToServer::Build { name: farm.description.build.clone() });
        if let Some(manifest) = farm.description.tree {
            self.control.send_to_server(&ToServer::ProvideTree { manifest, root: farm.tree.clone() });
        }
        let files: Vec<ProvidedFile> = farm.packages.values().map(|blob| self.provided(blob)).collect();
        for files in files.chunks(MAX_PROVIDED) {
            self.control.send_to_server(&ToServer::Provide { files: files.to_vec() });
        }
    }

    fn provided(&self, blob: &PackageBlob) -> ProvidedFile {
        let path = PathBuf::from(format!("{}/{ALL}/{}{}", self.settings.packages, blob.name, self.settings.suffix));
        ProvidedFile { digest: blob.digest, size: blob.size, path }
    }

    /// The digest that a client has reported for the package of a running attempt.
    pub(super) fn reported_digest(&self, package: PackageId) -> Option<Digest> {
        match self.current(package).client {
            ClientIndex::Remote(_) => self.farm.as_ref()?.reported.get(&package).copied(),
            ClientIndex::Local(_) => None,
        }
    }

    /// Clients may read a package that was installed.
    pub(super) fn provide_package(&mut self, name: &str, digest: Digest, size: u64) {
        let blob = PackageBlob { name: name.to_owned(), digest, size };
        let files = vec![self.provided(&blob)];
        if let Some(farm) = &mut self.farm {
            farm.packages.insert(name.to_owned(), blob);
            self.control.send_to_server(&ToServer::Provide { files });
        }
    }

    fn relayed(&mut self, now_ms: i64, message: ToCoordinator) {
        match message {
            ToCoordinator::Gone { number } => self.dispatch.gone(number),
            ToCoordinator::Request { number, token, request } => {
                if let Some(answer) = self.answer(now_ms, number, &token, *request) {
                    self.control.send_to_server(&ToServer::Answer { number, answer });
                }
            }
        }
    }

    /// Answers a request; `None`: later.
    fn answer(
        &mut self,
        now_ms: i64,
        number: u64,
        token: &TokenIdentity,
        request: ClientRequest,
    ) -> Option<ClientAnswer> {
        let farm = self.farm.as_mut()?;
        let answer = match request {
            ClientRequest::Describe => Ok(ClientAnswer::Describe(farm.description.clone())),
            ClientRequest::Hello(hello) => match random::bytes() {
                Ok(id) => {
                    let (own, id) = (&farm.description.environment, tanto_protocol::ConnectionId(id));
                    self.dispatch.hello(now_ms, token, &hello, own, id).map(ClientAnswer::Hello)
                }
                Err(_) => Err(unavailable()),
            },
            ClientRequest::Work(work) => match self.dispatch.work(now_ms, token, &work, number) {
                Ok(()) => return None,
                Err(refusal) => Err(refusal),
            },
            ClientRequest::Heartbeat(heartbeat) => {
                self.dispatch.heartbeat(now_ms, token, &heartbeat).map(ClientAnswer::Heartbeat)
            }
            ClientRequest::Result(report) => {
                let (connection, lease) = (report.connection, report.lease);
                let is_awaited = self.dispatch.lease(lease).is_some_and(|it| it.state().is_active());
                let answer = self.dispatch.result(now_ms, token, connection, lease, || farm.missing(&report));
                if is_awaited && answer == Ok(ResultAnswer::Pending) {
                    farm.reports.insert(lease, report);
                }
                answer.map(ClientAnswer::Result)
            }
            ClientRequest::Bye(bye) => self.dispatch.bye(now_ms, token, &bye).map(|()| ClientAnswer::Bye),
        };
        Some(answer.unwrap_or_else(ClientAnswer::Refused))
    }

    fn apply_effect(&mut self, effect: DispatchEffect, view: &mut dyn View) {
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
        let Some(running) = self.running.get(&package) else { return };
        let job = JobId(package);
        let at_ms = self.clock.now_ms().saturating_sub_unsigned(progress.stage_ms).max(running.began_ms);
        let stage = Stage::ALL.into_iter().find(|it| it.name() == progress.stage).filter(|&it| it != running.stage);
        let sample = JobSample { memory_kib: progress.memory_kib, ..JobSample::default() };
        let Some(farm) = &mut self.farm else { return };
        farm.wakeups.push_back(Wakeup::Sampled(job, sample));
        if let Some(stage) = stage {
            farm.wakeups.push_back(Wakeup::Progress(job, AttemptEvent::Stage { stage, at_ms, ended: None }));
        }
        for ended in progress.ended {
            self.record_stage(package, ended);
        }
    }

    /// Takes over the files of a result, which then continues like that of a local attempt.
    fn reported(&mut self, lease: LeaseId, package: PackageId) {
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
    fn take_files(&self, package: PackageId, report: &ResultReport) -> io::Result<()> {
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

    /// The lease of a package has ended without a result.
    fn lost(&mut self, package: PackageId, client: ClientIndex, cause: Cause, next: NextState) {
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

    /// Starts ready packages on clients. `here`: packages that start as well here are left.
    pub(super) fn start_on_clients(
        &mut self,
        here: bool,
        schedule: &mut Schedule,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        let mut started = Vec::new();
        if self.farm.is_none() || !self.dispatch.has_free_client() {
            return Ok(started);
        }
        let candidates: Vec<JobId> = schedule.ready_jobs().take(MAX_CANDIDATES).collect();
        for job in candidates {
            if let Some(info) = self.start_on_client(job, here, schedule) {
                started.push((job, info));
            }
        }
        if !started.is_empty() {
            self.send_leases(self.clock.now_ms());
        }
        Ok(started)
    }

    fn start_on_client(&mut self, job: JobId, here: bool, schedule: &mut Schedule) -> Option<JobInfo> {
        let JobId(package) = job;
        let now_ms = self.clock.now_ms();
        let is_changed = self.farm.as_ref().is_some_and(|farm| farm.changed.contains(&package));
        if is_changed || self.dispatch.current(package).is_some() {
            return None;
        }
        let why = self.plan.build_reason(package)?;
        let packages = self.dependency_blobs(package)?;
        let it = self.plan.package(package);
        let (failures, excluded) = match *it.package_state() {
            PackageState::Open(Pending::OutOfMemory { failures, client }) => (failures, Some(client)),
            _ => (0, None),
        };
        let needs = PackageNeeds {
            package,
            usage: it.expected(),
            root: !it.usergroup_phase.is_empty(),
            labels: &[],
            excluded: excluded.as_slice(),
            long_lived: false,
            elsewhere: !here,
        };
        let Some(ClientIndex::Remote(client)) = self.dispatch.choose(now_ms, &needs) else { return None };
        let lease = LeaseId(random::bytes().ok()?);
        let info = self.job_info(package);
        self.record_reason(package, why);
        schedule.take_elsewhere(job);
        self.estimator.started(job);
        let spec = self.begin_attempt(package, failures, ClientIndex::Remote(client));
        let tree = self.farm.as_ref().and_then(|farm| farm.description.tree);
        let lease = Lease { lease, spec, tree, packages, features: Vec::new() };
        let terms = self.lease_terms(package);
        self.dispatch.offer(now_ms, client, package, lease, terms);
        Some(info)
    }

    /// Returns the packages of all dependencies; `None` if one has no digest yet.
    fn dependency_blobs(&self, package: PackageId) -> Option<Vec<PackageBlob>> {
        let farm = self.farm.as_ref()?;
        let all = self.plan.all_dependencies(package).into_iter();
        all.map(|needed| farm.packages.get(&self.plan.package(needed).name).cloned()).collect()
    }

    fn lease_terms(&self, package: PackageId) -> LeaseTerms {
        let limits = || Stage::ALL.into_iter().filter_map(|stage| self.settings.limits.get(&stage));
        let hang_ms = limits().map(|limits| limits.hang_ms.unwrap_or(UNLIMITED_MS)).max().unwrap_or(UNLIMITED_MS);
        let total = limits().map(|limits| limits.total_ms.unwrap_or(UNLIMITED_MS));
        LeaseTerms {
            needs: self.plan.package(package).expected(),
            idle_ms: hang_ms.saturating_mul(2),
            total_ms: total.fold(0, i64::saturating_add),
        }
    }

    /// Gives a client no more leases.
    pub(super) fn drain(&mut self, name: &str) -> Result<String, String> {
        let named = |live: bool| {
            let is_it = move |client: &RemoteClient| client.name == name && client.is_live() == live;
            self.dispatch.clients().iter().position(is_it)
        };
        let found = named(true).or_else(|| named(false));
        let client = found.ok_or_else(|| format!("there is no client '{name}'"))?;
        self.dispatch.drain(client, true);
        Ok(format!("{name} gets no more packages\n"))
    }

    /// The clients and their state, for the user.
    pub(super) fn clients_table(&self) -> String {
        let mut table = Table::new(&[1, 2, 3, 4]);
        table.row([b"NAME", b"SLOTS", b"MEMORY FREE", b"PACKAGES", b"SPEED", b"STATUS"]);
        for client in self.dispatch.clients() {
            let status = match () {
                () if !client.is_live() => "lost",
                () if client.is_disabled() => "disabled after repeated machine failures",
                () if client.draining => "draining",
                () => "",
            };
            let numbers = [
                format!("{}/{}", self.dispatch.active_leases(client), client.slots),
                units::memory(client.free.memory_kib),
                client.built.to_string(),
                format!("{:.2}", client.speed() as f64 / 1000.0),
            ];
            let [slots, memory, built, speed] = numbers.each_ref().map(String::as_bytes);
            table.row([client.name.as_bytes(), slots, memory, built, speed, status.as_bytes()]);
        }
        String::from_utf8_lossy(&table.text()).into_owned()
    }
}

fn unavailable() -> Refusal {
    Refusal { code: RefusalCode::Unavailable, message: "no random numbers are available".into() }
}

/// Whether a client may name a log so: not like the package, nor like a file of the coordinator.
fn is_foreign_log(name: &str, package_file: &str) -> bool {
    let own = [Stage::SyncPackage, Stage::SyncBuildlog].map(|stage| format!("{}.log", stage.name()));
    !name.starts_with('.') && name != package_file && !own.contains(&name.to_owned())
}

fn completion(job: JobId, exit: i32, output: Vec<u8>) -> Completion {
    Completion {
        job,
        exit: Exit::Code(exit),
        output,
        capture: Capture::Complete,
        usage: Usage::default(),
        executed_by: ExecutedBy::Process,
        report: None,
    }
}
