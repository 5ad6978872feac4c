//! The coordinator as a frontend of the run loop: jobs are packages.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::{Completion, JobId, JobInfo};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_exec::schedule::Schedule;
use tanto_protocol::AttemptResult;
use tanto_record::database::Change;
use tanto_record::database::journal::Journal;
use tanto_record::estimates::TimeLeftEstimator;

use super::control_socket::{ControlServer, Response};
use super::dispatch::{ClientIndex, Dispatch, NextState};
use super::durable_view::LastResult;
use super::farm::Farm;
use super::followed::Followed;
use super::plan::Plan;
use super::provenance::BuiltWith;
use super::sources::Sources;
use super::state::{PackageState, Pending, State, StateRecord, Success};
use super::workdirs::Workdirs;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::runner::{AttemptEvent, Task};
use crate::config::Stage;
use crate::resolve::PackageId;

/// The state of a bulk build.
pub struct Coordinator<'a> {
    pub plan: Plan,
    pub settings: &'a BuildSettings,
    pub clock: &'a dyn Clock,
    /// The time at which the clock was 0, in milliseconds since 1970.
    pub epoch_ms: i64,
    pub journal: Journal,
    pub control: &'a mut dyn ControlServer,
    /// Scan records of the packages; empty if unknown.
    pub sources: Sources,
    pub dispatch: Dispatch,
    /// Builds packages on other machines, if the configuration permits that.
    pub farm: Option<Farm>,
    pub keeps_provenance: bool,
    pub workdirs: Workdirs,
    pub estimator: TimeLeftEstimator,
    /// When the build began.
    pub begun_ms: i64,
    pub running: BTreeMap<PackageId, Running>,
    /// The output of running packages that users follow.
    pub followed: Followed,
    /// The package whose job ends now, and the changes of states by its end.
    pub ended: Option<(PackageId, Vec<StateRecord>)>,
    pub last_result: Rc<LastResult>,
    /// The number of commits at the last look.
    pub seen_commits: u64,
    /// Answers with the number of the record that they wait for, and their connection.
    pub answers: VecDeque<(u64, u64, Response)>,
    /// Packages that are open again although their job has just ended in the schedule.
    pub reopened: Vec<PackageId>,
    /// State counts changed since the view got them; the time of that, in milliseconds.
    pub counts_changed: bool,
    pub counts_sent_ms: i64,
    /// The view knows that the disk is full.
    pub disk_full_reported: bool,
}

/// Progress of a running package.
#[derive(Debug)]
pub struct Running {
    /// When the attempt began.
    pub began_ms: i64,
    pub stage: Stage,
    pub stage_began_ms: i64,
    pub step: Step,
    pub built_with: BuiltWith,
    /// The end of the last stage since the attempt began, if it began before this coordinator.
    pub stages_ms: Option<i64>,
}

impl Running {
    /// Returns how long the attempt has taken, without the time that its result has waited for a coordinator.
    pub fn took_ms(&self, now_ms: i64) -> i64 {
        self.stages_ms.filter(|&ms| ms > 0).unwrap_or(now_ms - self.began_ms)
    }
}

/// The running task of a package.
#[derive(Debug)]
pub enum Step {
    /// An attempt; its result precedes its completion.
    Attempt(Option<Box<AttemptResult>>),
    /// `sync-package`, after this result, of this file.
    Installing(Box<AttemptResult>, PathBuf),
    /// `sync-buildlog`, after this result and this completion of the attempt.
    Reporting(Box<AttemptResult>, Box<Completion>),
    /// None: the client was lost, for this reason.
    Lost(String, NextState),
}

/// Minimum interval of `Event::StateCounts`, in milliseconds.
const COUNTS_EVERY_MS: i64 = 500;
/// How long to wait for space on a full disk while no command runs that could free some.
const DISK_FULL_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Coordinator<'_> {
    /// Ends the run if no package is open or running. Returns the plan and the journal, which has to be finished.
    pub fn close(mut self) -> (Plan, Journal) {
        if !self.plan.has_unfinished() {
            self.end_verifications();
            self.journal.record(Change::Ended { at_ms: self.date(self.clock.now_ms()) });
        }
        (self.plan, self.journal)
    }

    /// Waits until all results are durable, and sends the last answers.
    pub fn settle(&mut self) {
        self.settle_last_leases();
        if self.journal.settle() {
            self.send_answers();
            self.leave_server();
        }
    }

    /// Notes commits since the last look, each of which wakes the loop once.
    fn see_commits(&mut self) {
        let commits = self.journal.commits();
        if commits.committed() != self.seen_commits {
            commits.clear_wakeup();
            self.seen_commits = commits.committed();
        }
    }

    /// Returns whether the package would need other users, of which there are none.
    fn needs_other_users(&self, package: PackageId) -> bool {
        self.settings.one_user && !self.plan.package(package).usergroup_phase.is_empty()
    }

    /// Sets the state of a package that is not built: it is up to date, or cannot be built here.
    fn end_without_attempt(&mut self, package: PackageId) {
        if self.plan.package(package).state() != State::Open {
            return;
        }
        let state = match self.plan.build_reason(package) {
            Some(_) => PackageState::NeedsRoot(State::OTHER_USERS.into()),
            None => {
                self.record_options(package, false);
                PackageState::Done(Success::UpToDate)
            }
        };
        self.end(package, state);
    }

    /// Sends the view changes of the set of planned packages. Returns the packages that left it because of a dependency.
    pub fn publish(&mut self, records: &[StateRecord], schedule: &Schedule, view: &mut dyn View) -> Vec<PackageId> {
        let mut lost = Vec::new();
        for StateRecord { package, from, state } in records {
            let job = JobId(*package);
            let expected_ms = Some(i64::from(schedule.cost(job).wall_ms));
            match (from, state) {
                (State::Open, PackageState::Open(_) | PackageState::Running(_)) => {}
                (_, PackageState::Open(_)) => {
                    self.estimator.planned(job, expected_ms);
                    view.event(Event::Planned { job, expected_ms });
                }
                (State::Open, _) => {
                    self.estimator.unplanned(job);
                    view.event(Event::Unplanned { job, expected_ms });
                }
                _ => {}
            }
            if matches!(state, PackageState::IndirectFailed(_) | PackageState::IndirectPrefailed(_)) {
                lost.push(*package);
            }
        }
        lost
    }

    /// Tells the schedule the resources that a package is expected to need.
    pub fn tell_needs(&self, package: PackageId, schedule: &mut Schedule) {
        let job = JobId(package);
        self.plan.package(package).expected().apply(schedule, job, schedule.cost(job).wall_ms);
    }

    /// Describes the job of a package for views.
    pub(super) fn job_info(&self, package: PackageId) -> JobInfo {
        let it = self.plan.package(package);
        let name = it.name.clone().into_bytes();
        let command = it.location.clone().into_bytes();
        JobInfo { command, description: name.clone(), outputs: vec![name], ..JobInfo::default() }
    }

    /// Journals why a package is built; empty if unknown.
    pub(super) fn record_reason(&mut self, package: PackageId, why: String) {
        if !why.is_empty() {
            self.journal.record(Change::Due { package, why });
        }
    }

    fn wait_for_disk_space(&self) -> Result<(), Fatal> {
        let begun = Instant::now();
        while self.journal.disk_is_full() {
            if begun.elapsed() > DISK_FULL_TIMEOUT {
                return Err(fatal("the disk is full: the database cannot be written"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

fn fatal(message: &str) -> Fatal {
    Fatal { message: message.into(), invalid_input: false }
}

impl Frontend<Task, AttemptEvent> for Coordinator<'_> {
    fn may_start(&self) -> bool {
        !self.journal.disk_is_full() && self.dispatch.local.has_free()
    }

    fn start(&mut self, JobId(package): JobId) -> Result<Start<Task>, Fatal> {
        self.wait_for_disk_space()?;
        if self.dispatch.local.is_empty() {
            return Err(fatal("all clients are disabled after repeated machine failures"));
        }
        let info = self.job_info(package);
        let it = self.plan.package(package);
        let Some(why) = self.plan.build_reason(package).filter(|_| !self.needs_other_users(package)) else {
            self.end_without_attempt(package);
            return Ok(Start::NoOp(info));
        };
        let (failures, excluded) = match *it.package_state() {
            PackageState::Open(Pending::OutOfMemory { failures, client: ClientIndex::Local(slot) }) => {
                (failures, Some(slot))
            }
            PackageState::Open(Pending::OutOfMemory { failures, .. }) => (failures, None),
            _ => (0, None),
        };
        self.record_reason(package, why);
        self.estimator.started(JobId(package));
        Ok(Start::Run(self.grant(package, failures, excluded), info))
    }

    fn on_progress(&mut self, JobId(package): JobId, event: AttemptEvent, view: &mut dyn View) {
        self.attempt_event(package, event, view);
    }

    fn next_task(&mut self, completion: &mut Completion, schedule: &mut Schedule, view: &mut dyn View) -> Option<Task> {
        self.task_ended(completion, schedule, view)
    }

    fn finish_job(
        &mut self,
        JobId(package): JobId,
        outcome: JobOutcome<'_>,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        if self.journal.disk_is_full() && !std::mem::replace(&mut self.disk_full_reported, true) {
            let text = b"the disk is full: no package starts until there is space";
            view.event(Event::Notice { level: Level::Warning, text });
        }
        // Packages that were not open have no records.
        let Some((_, records)) = self.ended.take_if(|(ended, _)| *ended == package) else { return Ok(()) };
        let lost = self.publish(&records, schedule, view);
        // The schedule itself holds back the dependents of a job that has failed.
        if outcome != JobOutcome::Failed {
            lost.into_iter().for_each(|package| schedule.withdraw(JobId(package)));
        }
        Ok(())
    }

    fn poll_control(
        &mut self,
        schedule: &mut Schedule,
        runner: &mut dyn Runner<Task, AttemptEvent>,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        self.see_commits();
        self.handle_requests(schedule, runner, view);
        self.send_answers();
        self.serve_clients(view);
        for (pid, runs) in self.farm.as_mut().map(Farm::take_processes).unwrap_or_default() {
            runner.set_unrelated(pid, runs);
        }
        Ok(())
    }

    fn start_elsewhere(
        &mut self,
        may_start_here: bool,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<Vec<(JobId, JobInfo)>, Fatal> {
        let mut started = self.take_continued();
        if !self.journal.disk_is_full() {
            started.extend(self.start_on_clients(may_start_here, schedule)?);
            if !may_start_here {
                self.want_clients(schedule);
                self.start_verifications(schedule, view);
            }
        }
        Ok(started)
    }

    fn take_wakeup(&mut self) -> Option<Wakeup<AttemptEvent>> {
        self.take_remote_wakeup()
    }

    fn waits_for_machines(&self) -> bool {
        self.farm.is_some()
    }

    fn expects_jobs(&self) -> bool {
        self.waits_for_verifications()
    }

    fn control_interval(&self) -> Option<Duration> {
        let until =
            |deadline_ms: i64| Duration::from_millis(u64::try_from(deadline_ms - self.clock.now_ms()).unwrap_or(0));
        let scan = self.farm.as_ref().and_then(Farm::poll_interval);
        self.next_client_deadline().map(until).into_iter().chain(scan).min()
    }

    fn flush(&mut self, view: &mut dyn View) -> Result<(), Fatal> {
        let now_ms = self.clock.now_ms();
        if self.counts_changed && now_ms - COUNTS_EVERY_MS >= self.counts_sent_ms {
            (self.counts_changed, self.counts_sent_ms) = (false, now_ms);
            view.event(Event::StateCounts { counts: &self.counts(), at_ms: now_ms });
        }
        if self.journal.flush() { Ok(()) } else { Err(fatal("the database cannot be written")) }
    }

    fn outputs(&self, JobId(package): JobId) -> Vec<Vec<u8>> {
        vec![self.plan.package(package).name.clone().into_bytes()]
    }

    fn on_abort(&mut self, JobId(package): JobId, _: &mut dyn View) {
        self.abort(package);
    }
}
