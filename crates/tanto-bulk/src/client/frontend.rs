//! The client's side of the run loop: each lease is a job.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};

use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::report::{JobSample, TerminationReason};
use tanto_exec::job::{JobId, JobInfo};
use tanto_exec::runner::Runner;
use tanto_exec::schedule::{JobSpec, Kind, PoolId, Schedule};
use tanto_protocol::{
    AttemptOutcome, AttemptResult, HeartbeatAnswer, Lease, LeaseAction, LeaseId, LeaseInstruction, StageResult,
};

use super::distfiles;
use super::output::{self, MAX_OUTPUT};
use super::session::ClientSession;
use super::slots::Incoming;
use super::uploads::{HeldResult, Upload};
use super::workspace::LeaseFiles;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::directory::AttemptDir;
use crate::attempt::runner::{AttemptEvent, AttemptPlace, Task};
use crate::config::Stage;

/// See the module.
pub struct ClientFrontend<'a> {
    pub settings: &'a BuildSettings,
    pub session: Arc<ClientSession>,
    pub incoming: Receiver<Incoming>,
    /// Readable when there may be a message.
    pub woken: UnixStream,
    /// To the thread of each slot.
    pub slots: Vec<SyncSender<()>>,
    pub uploads: Sender<Upload>,
    pub attempts: BTreeMap<JobId, ActiveLease>,
    /// Jobs added so far.
    pub jobs: u32,
    /// Numbers of attempts, which name directories, begin after this one.
    pub first_attempt: u32,
    pub state: ClientState,
    /// The client leaves after this time without an attempt or an upload.
    pub max_idle: Option<Duration>,
    pub idle_since: Instant,
    /// Bytes sent of the results that are being uploaded.
    pub sent_bytes: u64,
}

/// An attempt at the package of a lease.
pub struct ActiveLease {
    pub slot: usize,
    pub lease: Box<Lease>,
    pub files: LeaseFiles,
    pub result: Option<Box<AttemptResult>>,
    /// Its result would be refused.
    pub is_superseded: bool,
}

/// Whether the client takes leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientState {
    Working,
    /// It ends with its last attempt.
    Draining,
    /// It had no package for long. It leaves at once, and keeps results that were not accepted.
    Idle,
    /// The coordinator has another environment, described by this text. It ends with its last attempt, all of which are
    /// superseded.
    Outdated(String),
    /// The coordinator refuses it, for this reason.
    Refused(String),
}

/// Between two looks whether the client was idle for too long.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks whether all results are settled.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

impl ClientFrontend<'_> {
    fn receive(
        &mut self,
        message: Incoming,
        schedule: &mut Schedule,
        runner: &mut dyn Runner<Task, AttemptEvent>,
        view: &mut dyn View,
    ) {
        match message {
            Incoming::Lease(slot, lease, _) if matches!(self.state, ClientState::Outdated(_)) => {
                self.session.settled(lease.lease);
                let _ = self.slots[slot].try_send(());
            }
            Incoming::Lease(slot, lease, files) => {
                let job = self.add(slot, lease, files, schedule);
                view.event(Event::Planned { job, expected_ms: None });
            }
            Incoming::Instructions(answer) => self.follow_instructions(answer, runner),
            Incoming::Warning(text) => {
                view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
            }
            Incoming::Outdated(why) => {
                self.state = ClientState::Outdated(why);
                self.supersede_all(runner);
            }
            Incoming::Refused(why) => self.state = ClientState::Refused(why),
        }
    }

    /// Ends all attempts. Their leases are those of another run.
    fn supersede_all(&mut self, runner: &mut dyn Runner<Task, AttemptEvent>) {
        for (&job, attempt) in &mut self.attempts {
            attempt.is_superseded = true;
            runner.terminate(job, TerminationReason::Requested);
        }
    }

    fn add(&mut self, slot: usize, mut lease: Box<Lease>, files: LeaseFiles, schedule: &mut Schedule) -> JobId {
        self.jobs += 1;
        // Attempts of several runs of the coordinator may have the same number, but not the same directory.
        lease.spec.attempt = self.first_attempt.saturating_add(self.jobs);
        let order = self.jobs;
        let job = schedule.add(JobSpec { pool: PoolId::UNLIMITED, order, kind: Kind::Command, wanted: true });
        self.attempts.insert(job, ActiveLease { slot, lease, files, result: None, is_superseded: false });
        schedule.enqueue_if_ready(job);
        job
    }

    fn follow_instructions(&mut self, answer: HeartbeatAnswer, runner: &mut dyn Runner<Task, AttemptEvent>) {
        for LeaseInstruction { lease, action } in answer.leases {
            let Some((&job, attempt)) = self.attempts.iter_mut().find(|(_, it)| it.lease.lease == lease) else {
                continue;
            };
            match action {
                LeaseAction::Follow => {
                    let size = runner.output_size(job).unwrap_or(0);
                    let tail = runner.output_tail(job, MAX_OUTPUT).unwrap_or_default();
                    self.session.update(lease, |progress| output::add(progress, size, tail));
                }
                LeaseAction::Supersede => {
                    attempt.is_superseded = true;
                    runner.terminate(job, TerminationReason::Requested);
                }
                LeaseAction::Stop => {
                    runner.terminate(job, TerminationReason::Requested);
                }
            }
        }
        if answer.drain && self.state == ClientState::Working {
            self.state = ClientState::Draining;
        }
    }

    /// Moves the files of an attempt from its sandbox to its directory.
    fn take_output(&self, slot: usize, dir: &AttemptDir, result: AttemptResult) -> AttemptResult {
        let Some(sandbox) = &self.settings.sandbox else { return result };
        match sandbox.keep_output_files(slot, dir.path(), "") {
            Ok(()) => result,
            Err(error) => {
                let why = format!("its files cannot be kept: {error}");
                AttemptResult { stages: result.stages, ..AttemptResult::of(AttemptOutcome::MachineFailed { why }) }
            }
        }
    }

    fn leave_if_idle(&mut self) {
        let sent = self.session.sent_bytes();
        if !self.attempts.is_empty() || sent != self.sent_bytes {
            (self.idle_since, self.sent_bytes) = (Instant::now(), sent);
        }
        let is_idle = self.max_idle.is_some_and(|it| self.idle_since.elapsed() >= it);
        if self.state == ClientState::Working && is_idle {
            self.state = ClientState::Idle;
        }
    }

    fn lease(&self, job: JobId) -> LeaseId {
        self.attempts[&job].lease.lease
    }

    /// Other packages may wait for the distfiles of an attempt.
    fn upload_distfiles(&self, job: JobId) {
        let lease = &self.attempts[&job].lease;
        let files = distfiles::fetched(Path::new(&self.settings.distdir), &lease.distfiles);
        if !files.is_empty() {
            let _ = self.uploads.send(Upload::Distfiles(lease.lease, files));
        }
    }

    /// Hands the result to the uploads and the slot to its thread.
    fn finish(&mut self, attempt: ActiveLease, view: &mut dyn View) {
        let ActiveLease { slot, lease, files, result, is_superseded } = attempt;
        drop(files);
        let unreported: Vec<StageResult> = self.session.end(lease.lease);
        let dir = AttemptDir::of(self.settings, &lease.spec);
        let why = "it could not be started".to_owned();
        let result = result.map_or_else(|| AttemptResult::of(AttemptOutcome::MachineFailed { why }), |it| *it);
        let result = self.take_output(slot, &dir, result);
        let stages = unreported.into_iter().chain(result.stages.iter().cloned()).collect();
        let held = HeldResult {
            lease: lease.lease,
            result: AttemptResult { stages, ..result },
            dir: dir.path().to_owned(),
            distfiles: distfiles::fetched(Path::new(&self.settings.distdir), &lease.distfiles),
        };
        if is_superseded {
            dir.clear();
            self.session.settled(lease.lease);
        } else {
            if let Err(error) = held.save() {
                let text = format!("{}: the result cannot be saved: {error}", lease.spec.name);
                view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
            }
            // Without its threads, the client ends.
            let _ = self.uploads.send(Upload::Result(held.into()));
        }
        let _ = self.slots[slot].try_send(());
    }
}

impl Frontend<Task, AttemptEvent> for ClientFrontend<'_> {
    fn start(&mut self, job: JobId) -> Result<Start<Task>, Fatal> {
        let ActiveLease { slot, lease, files, .. } = &self.attempts[&job];
        let name = lease.spec.name.clone().into_bytes();
        let command = lease.spec.location.clone().into_bytes();
        let info = JobInfo { command, description: name.clone(), outputs: vec![name], ..JobInfo::default() };
        let place = AttemptPlace { client: *slot, tree: Some(files.tree().into()) };
        Ok(Start::Run(Task::Attempt(Rc::new(lease.spec.clone()), place), info))
    }

    fn on_progress(&mut self, job: JobId, event: AttemptEvent, view: &mut dyn View) {
        match event {
            AttemptEvent::Stage { stage, at_ms, ended } => {
                if ended.as_ref().is_some_and(|ended| ended.stage == Stage::Checksum.name() && ended.exit == 0) {
                    self.upload_distfiles(job);
                }
                self.session.stage_begins(self.lease(job), stage.name(), ended);
                view.event(Event::Stage { job, stage: stage.name(), at_ms });
            }
            AttemptEvent::Result(result) => {
                if let Some(attempt) = self.attempts.get_mut(&job) {
                    attempt.result = Some(result);
                }
            }
        }
    }

    fn on_sample(&mut self, job: JobId, sample: &JobSample) {
        self.session.update(self.lease(job), |progress| {
            (progress.cpu_ms, progress.memory_kib) = (sample.cpu_ms, sample.memory_kib);
        });
    }

    fn finish_job(
        &mut self,
        job: JobId,
        _: JobOutcome<'_>,
        _: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        if let Some(attempt) = self.attempts.remove(&job) {
            self.finish(attempt, view);
        }
        Ok(())
    }

    fn expects_jobs(&self) -> bool {
        match self.state {
            ClientState::Working => true,
            ClientState::Draining => !self.attempts.is_empty() || self.session.holds_results(),
            ClientState::Idle => false,
            ClientState::Outdated(_) | ClientState::Refused(_) => !self.attempts.is_empty(),
        }
    }

    fn control_interval(&self) -> Option<Duration> {
        // Nothing wakes the loop when a result is settled.
        let drains = (self.state == ClientState::Draining).then_some(DRAIN_INTERVAL);
        drains.or(self.max_idle.filter(|_| self.attempts.is_empty()).map(|it| it.min(IDLE_INTERVAL)))
    }

    fn poll_control(
        &mut self,
        schedule: &mut Schedule,
        runner: &mut dyn Runner<Task, AttemptEvent>,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        let mut wakeups = [0; 256];
        while (&self.woken).read(&mut wakeups).is_ok_and(|length| length > 0) {}
        while let Ok(message) = self.incoming.try_recv() {
            self.receive(message, schedule, runner, view);
        }
        self.leave_if_idle();
        Ok(())
    }

    fn flush(&mut self, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn outputs(&self, job: JobId) -> Vec<Vec<u8>> {
        self.attempts.get(&job).map(|it| it.lease.spec.name.clone().into_bytes()).into_iter().collect()
    }

    fn on_abort(&mut self, job: JobId, _: &mut dyn View) {
        self.attempts.remove(&job);
    }
}
