//! Decides what follows the end of an attempt or of a step of the coordinator: another attempt, another step, or the
//! package's state. Installs packages that were built, and passes the logs of failed ones to the hook `sync_buildlog`.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::{Command, Completion, Exit, JobId, JobLimits};
use tanto_exec::schedule::Schedule;
use tanto_protocol::{AttemptOutcome, AttemptResult, AttemptSpec};

use super::dispatch::{ClientIndex, NextState};
use super::frontend::{Coordinator, Running, Step};
use super::install_artifact::{BlobDigest, PackageInstall};
use super::needs::ResourceNeeds;
use super::state::{Current, INTERRUPTED, MACHINE, PackageState, Pending, State, StateRecord, Success};
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::directory::{AttemptDir, package_dir};
use crate::attempt::distfiles::atomic_move::temp_name;
use crate::attempt::runner::{AttemptEvent, AttemptPlace, Task};
use crate::attempt::sandbox::Sandbox;
use crate::attempt::{execution, failure};
use crate::config::Stage;
use crate::package::ALL;
use crate::resolve::PackageId;
use crate::shell::quoted;

/// The number of attempts at a package whose failures are the machine's fault.
const MAX_ATTEMPTS: u32 = 3;

impl Coordinator<'_> {
    /// Grants an attempt to a client, preferably not to the excluded one. `failures`: attempts before it that failed
    /// through no fault of the package, in a row.
    pub(super) fn grant(&mut self, package: PackageId, failures: u32, excluded: Option<usize>) -> Task {
        let slot = self.dispatch.local.take(excluded);
        self.dispatch.forget_waiting(package);
        let spec = self.begin_attempt(package, failures, ClientIndex::Local(slot));
        Task::Attempt(Rc::new(spec), AttemptPlace { client: slot, tree: None })
    }

    /// Begins an attempt in a client.
    pub(super) fn begin_attempt(&mut self, package: PackageId, failures: u32, client: ClientIndex) -> AttemptSpec {
        let now_ms = self.clock.now_ms();
        let attempt = self.plan.next_attempt(package);
        self.withdraw_blob(package);
        if attempt == 1 {
            // These are of an earlier run.
            self.remove_logs(package);
        }
        let rebuild = self.rebuild(package);
        let current = Current { attempt, client, failures, rebuild };
        let record = self.plan.set(package, PackageState::Running(current));
        self.record_states(record.as_slice());
        let (stage, step) = (Stage::ClientClean, Step::Attempt(None));
        let built_with = self.built_with(package);
        let running = Running { began_ms: now_ms, stage, stage_began_ms: now_ms, step, built_with, stages_ms: None };
        self.running.insert(package, running);
        self.record_attempt(package, None, "", "");
        self.plan.attempt_spec(package, self.settings, failures + 1 >= MAX_ATTEMPTS)
    }

    pub(super) fn attempt_event(&mut self, package: PackageId, event: AttemptEvent, view: &mut dyn View) {
        match event {
            AttemptEvent::Stage { stage, at_ms, ended } => {
                if let Some(ended) = ended {
                    if ended.stage == Stage::PreClean.name() {
                        self.update_workdir(package);
                    }
                    self.record_stage(package, ended);
                }
                self.stage_begins(package, stage, at_ms, view);
            }
            AttemptEvent::Result(result) => {
                self.running.get_mut(&package).expect("it runs").step = Step::Attempt(Some(result));
            }
        }
    }

    fn stage_begins(&mut self, package: PackageId, stage: Stage, at_ms: i64, view: &mut dyn View) {
        let running = self.running.get_mut(&package).expect("it runs");
        (running.stage, running.stage_began_ms) = (stage, at_ms);
        view.event(Event::Stage { job: JobId(package), stage: stage.name(), at_ms });
    }

    /// Returns the next task of a package after one has ended. At the end of its job, `completion` becomes the job's.
    pub(super) fn task_ended(
        &mut self,
        completion: &mut Completion,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Option<Task> {
        let JobId(package) = completion.job;
        let running = self.running.get_mut(&package).expect("it runs");
        match std::mem::replace(&mut running.step, Step::Attempt(None)) {
            Step::Attempt(Some(mut result)) => {
                self.update_workdir(package);
                require_package(&mut result, &self.plan.package(package).name, completion);
                for ended in result.stages.drain(..) {
                    self.record_stage(package, ended);
                }
                result.left.iter().for_each(|left| self.notice(package, left, view));
                if result.outcome != AttemptOutcome::Built {
                    let log = self.log_path(package, &result.log);
                    completion.output = failure::message(&completion.output, result.outcome.why(), &log);
                }
                self.attempt_ended(package, result, completion, schedule, view)
            }
            // It could not be started.
            Step::Attempt(None) => {
                let result = self.failed_result(
                    package,
                    Stage::ClientClean,
                    AttemptResult::of(AttemptOutcome::Built),
                    completion,
                    String::new(),
                );
                self.attempt_ended(package, Box::new(result), completion, schedule, view)
            }
            Step::Installing(mut result, made) => {
                let log = self.step_ended(package, &mut result, completion, view);
                if completion.exit.success() {
                    self.accept(package, &result);
                    completion.output.clear();
                    return None;
                }
                // Without a sandbox, it would stay among the logs.
                let _ = fs::remove_file(made);
                if let ClientIndex::Local(slot) = self.current(package).client {
                    let dir = self.attempt_dir(package);
                    execution::keep_output(self.settings, &dir, &self.plan.package(package).name, slot);
                }
                let result = self.failed_result(package, Stage::SyncPackage, *result, completion, log);
                self.attempt_ended(package, Box::new(result), completion, schedule, view)
            }
            Step::Reporting(mut result, failed) => {
                let log = self.step_ended(package, &mut result, completion, view);
                if !completion.exit.success() {
                    let text = format!(
                        "{}; {}",
                        failure::reason(Stage::SyncBuildlog, completion),
                        self.log_path(package, &log)
                    );
                    self.notice(package, &text, view);
                }
                *completion = *failed;
                self.fail(package, &result, completion, view);
                None
            }
            Step::Lost(why, next) => {
                self.client_lost(package, why, next, completion, view);
                None
            }
        }
    }

    /// Decides what becomes of a package whose client was lost.
    fn client_lost(
        &mut self,
        package: PackageId,
        why: String,
        next: NextState,
        completion: &mut Completion,
        view: &mut dyn View,
    ) {
        match next {
            NextState::Open => {
                self.record_attempt(package, Some(self.clock.now_ms()), MACHINE, &why);
                self.end(package, PackageState::NEW);
            }
            NextState::Failed => {
                let result = AttemptResult::of(AttemptOutcome::MachineFailed { why });
                self.fail(package, &result, completion, view);
            }
            NextState::Killed => {
                self.fail(package, &AttemptResult::of(AttemptOutcome::Failed { why }), completion, view);
            }
        }
    }

    /// Ends a job whose next attempt may have another client. That is no failure.
    fn try_again(&mut self, package: PackageId, failures: u32, client: ClientIndex, completion: &mut Completion) {
        (completion.exit, completion.output, completion.report) = (Exit::Code(0), Vec::new(), None);
        let pending = Pending::OutOfMemory { failures, client };
        self.end(package, PackageState::Open(pending));
    }

    fn attempt_ended(
        &mut self,
        package: PackageId,
        result: Box<AttemptResult>,
        completion: &mut Completion,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Option<Task> {
        let Current { client, failures, .. } = *self.current(package);
        match &result.outcome {
            AttemptOutcome::Built if self.is_installed(package) => {
                let Running { began_ms, stage_began_ms, .. } = self.running[&package];
                let times = (began_ms, stage_began_ms, self.clock.now_ms());
                let ended = execution::stage_result(Stage::SyncPackage, completion, String::new(), times);
                self.record_stage(package, ended);
                self.accept(package, &result);
                completion.output.clear();
                None
            }
            AttemptOutcome::Built => {
                let made = self.made_file(package, &result);
                let command = self.begin_step(package, Stage::SyncPackage, self.install_line(package, &made), view);
                self.set_step(package, Step::Installing(result, made));
                Some(Task::Command(command))
            }
            AttemptOutcome::ExceededTmpfs { why } => {
                self.leave_memory(package, &result, why, schedule);
                self.release(package, client);
                if let ClientIndex::Local(_) = client {
                    return Some(self.grant(package, failures, None));
                }
                self.try_again(package, failures, client, completion);
                None
            }
            AttemptOutcome::OutOfMemory { why } => {
                self.leave_memory(package, &result, why, schedule);
                self.record_machine_failure(package, client, view);
                self.try_again(package, failures + 1, client, completion);
                None
            }
            AttemptOutcome::TreeChanged { why } if failures + 1 < MAX_ATTEMPTS => {
                self.record_attempt(package, Some(self.clock.now_ms()), MACHINE, why);
                self.release(package, client);
                self.tree_changed(&[package]);
                self.try_again(package, failures + 1, client, completion);
                None
            }
            AttemptOutcome::MachineFailed { why } if failures + 1 < MAX_ATTEMPTS => {
                self.leave_memory(package, &result, why, schedule);
                self.record_machine_failure(package, client, view);
                if let ClientIndex::Local(slot) = client {
                    return Some(self.grant(package, failures + 1, Some(slot)));
                }
                self.try_again(package, failures + 1, client, completion);
                None
            }
            _ if !self.settings.sync_buildlog.is_empty() => {
                let command = self.begin_step(package, Stage::SyncBuildlog, self.report_line(package), view);
                self.set_step(package, Step::Reporting(result, Box::new(completion.clone())));
                Some(Task::Command(command))
            }
            _ => {
                self.fail(package, &result, completion, view);
                None
            }
        }
    }

    /// Records an attempt that failed through no fault of the package. From now on the package writes on the disk: files
    /// in memory may have contributed.
    fn leave_memory(&mut self, package: PackageId, result: &AttemptResult, why: &str, schedule: &mut Schedule) {
        self.record_attempt(package, Some(self.clock.now_ms()), MACHINE, why);
        let used = ResourceNeeds { memory_kib: result.peak_kib, disk_kib: result.disk_kib };
        self.plan.write_on_disk(package, used);
        self.tell_needs(package, schedule);
    }

    /// Records the success of a package that was installed.
    fn accept(&mut self, package: PackageId, result: &AttemptResult) {
        self.record_file(package);
        let client = self.current(package).client;
        self.release(package, client);
        let took_ms = self.running[&package].took_ms(self.clock.now_ms());
        let expected_ms = self.estimator.expected(JobId(package)).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        self.dispatch.record_success(client, expected_ms, u64::try_from(took_ms).unwrap_or(0));
        let left = result.left.join("; ");
        self.record_provenance(package);
        self.record_attempt(package, Some(self.clock.now_ms()), "done", &left);
        self.record_cost(package, result);
        self.record_content(package);
        self.record_options(package, true);
        self.remove_logs(package);
        self.end(package, PackageState::Done(Success::Built(left)));
    }

    /// Removes the logs of all attempts at a package, and those that an earlier version of Tanto left beside them.
    fn remove_logs(&self, package: PackageId) {
        let _ = fs::remove_dir_all(package_dir(&self.settings.logs, &self.plan.package(package).name));
    }

    /// Records the failure of a package that is not tried again in this run.
    fn fail(&mut self, package: PackageId, result: &AttemptResult, completion: &mut Completion, view: &mut dyn View) {
        let client = self.current(package).client;
        let state = match &result.outcome {
            AttemptOutcome::NeedsRoot { .. } => State::NeedsRoot,
            AttemptOutcome::MachineFailed { .. } | AttemptOutcome::TreeChanged { .. } => State::MachineFailed,
            _ => State::Failed,
        };
        let why = std::iter::once(result.outcome.why()).chain(result.left.iter().map(String::as_str));
        let why = why.collect::<Vec<_>>().join("; ");
        match state {
            State::MachineFailed => self.record_machine_failure(package, client, view),
            _ => self.release(package, client),
        }
        if state == State::NeedsRoot {
            // It is no failure, so none is shown.
            (completion.exit, completion.output) = (Exit::Code(0), Vec::new());
        }
        let outcome = if state == State::MachineFailed { MACHINE } else { state.name() };
        self.record_attempt(package, Some(self.clock.now_ms()), outcome, &why);
        self.end(package, PackageState::of(state, why));
    }

    /// The attempt of a package needs its client no more.
    fn release(&mut self, package: PackageId, client: ClientIndex) {
        match (client, self.dispatch.current(package)) {
            (ClientIndex::Local(slot), _) => self.dispatch.local.release(slot),
            (ClientIndex::Remote(_), Some(lease)) => self.settle_later(lease),
            (ClientIndex::Remote(_), None) => {}
        }
    }

    /// Frees a client after a machine failure, and disables it after several.
    fn record_machine_failure(&mut self, package: PackageId, client: ClientIndex, view: &mut dyn View) {
        self.release(package, client);
        if self.dispatch.record_machine_failure(client, package) {
            let name = self.dispatch.name(client);
            let text = format!("{name} is disabled: repeated machine failures");
            view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
        }
    }

    /// Turns a failure of a step, or of starting an attempt, into that of the attempt.
    fn failed_result(
        &self,
        package: PackageId,
        stage: Stage,
        result: AttemptResult,
        completion: &mut Completion,
        log: String,
    ) -> AttemptResult {
        let is_last = self.current(package).failures + 1 >= MAX_ATTEMPTS;
        let outcome = failure::classify(stage, completion, None, self.settings.one_user, is_last);
        let (exit, output) = (completion.exit.code(), failure::last_lines(&completion.output));
        let output = String::from_utf8_lossy(output).into_owned();
        completion.output = failure::message(&completion.output, outcome.why(), &self.log_path(package, &log));
        AttemptResult { outcome, packages: Vec::new(), exit, output, log, ..result }
    }

    /// Returns the command of a step of the coordinator.
    fn begin_step(&mut self, package: PackageId, stage: Stage, line: String, view: &mut dyn View) -> Command {
        self.stage_begins(package, stage, self.clock.now_ms(), view);
        let limits = self.settings.limits.get(&stage).map(|limits| {
            let mut resources = limits.watched();
            resources.disk_kib = None;
            Box::new(JobLimits { resources, scratch: None })
        });
        Command { line: line.into_bytes(), limits, ..Command::default() }
    }

    fn report_line(&self, package: PackageId) -> String {
        let BuildSettings { sync_buildlog, logs, .. } = self.settings;
        let (name, attempt) = (&self.plan.package(package).name, self.current(package).attempt.to_string());
        format!("/bin/sh -c {}", [sync_buildlog, "sync_buildlog", logs, name, &attempt].map(quoted).join(" "))
    }

    fn install_line(&self, package: PackageId, made: &Path) -> String {
        let install = self.installation(package, made);
        format!("{} bulk deliver{}", quoted(&self.settings.program), install.words())
    }

    /// Describes the installation of a package of the running attempt.
    pub(super) fn installation(&self, package: PackageId, made: &Path) -> PackageInstall {
        let (settings, it) = (self.settings, self.plan.package(package));
        let (new, place) = self.package_paths(package);
        PackageInstall {
            from: made.to_owned(),
            new,
            place,
            digest: self.digest_file(package),
            blob: match (&self.farm, self.accepted_digest(package)) {
                (None, _) => BlobDigest::Unneeded,
                (Some(_), None) => BlobDigest::Computed,
                (Some(_), Some(digest)) => BlobDigest::Expected(digest.to_string()),
            },
            hook: settings.sync_package.clone(),
            name: it.name.clone(),
            categories: it.categories.clone(),
            suffix: settings.suffix.clone(),
        }
    }

    /// The temporary and the final path of a package.
    pub(super) fn package_paths(&self, package: PackageId) -> (PathBuf, PathBuf) {
        let (all, name) = (Path::new(&self.settings.packages).join(ALL), &self.plan.package(package).name);
        (all.join(temp_name(name)), all.join(format!("{name}{}", self.settings.suffix)))
    }

    /// The directory of the running attempt.
    pub(super) fn attempt_dir(&self, package: PackageId) -> AttemptDir {
        AttemptDir::new(self.settings, &self.plan.package(package).name, self.current(package).attempt)
    }

    /// Returns the path of a log of the running attempt; empty if there is none.
    pub(super) fn log_path(&self, package: PackageId, log: &str) -> String {
        if log.is_empty() {
            return String::new();
        }
        self.attempt_dir(package).file(log).to_string_lossy().into_owned()
    }

    /// Takes over the note of the running attempt's work directory, if there is no sandbox. A failure is not an error: then
    /// a killed build leaves that directory.
    fn update_workdir(&self, package: PackageId) {
        if self.settings.sandbox.is_none() {
            let note = self.attempt_dir(package).workdir_note();
            let _ = self.workdirs.update(&self.plan.package(package).name, &note);
        }
    }

    /// The binary package where the attempt left it.
    fn made_file(&self, package: PackageId, result: &AttemptResult) -> PathBuf {
        if let ClientIndex::Remote(_) = self.current(package).client {
            return self.attempt_dir(package).file(&self.settings.package_file(&self.plan.package(package).name));
        }
        let built = result.package(&self.plan.package(package).name).expect("an attempt without it has failed");
        let out = self.local_sandbox(package).map(|(sandbox, slot)| sandbox.out(slot));
        out.unwrap_or_else(|| self.attempt_dir(package).path().to_owned()).join(&built.file)
    }

    /// The file for the digest of an installed package. In a sandbox, packages cannot write it.
    pub(super) fn digest_file(&self, package: PackageId) -> PathBuf {
        let dir = self.local_sandbox(package).map(|(sandbox, slot)| sandbox.place(slot).dir().to_owned());
        dir.unwrap_or_else(|| self.attempt_dir(package).path().to_owned()).join(".digest")
    }

    /// The sandbox of the running attempt, if it is on this machine, and its number.
    fn local_sandbox(&self, package: PackageId) -> Option<(&Sandbox, usize)> {
        match self.current(package).client {
            ClientIndex::Local(slot) => self.settings.sandbox.as_ref().map(|sandbox| (sandbox, slot)),
            ClientIndex::Remote(_) => None,
        }
    }

    /// Records a step of the coordinator that has ended. Returns the name of its log.
    fn step_ended(
        &mut self,
        package: PackageId,
        result: &mut AttemptResult,
        completion: &Completion,
        view: &mut dyn View,
    ) -> String {
        let Running { began_ms, stage, stage_began_ms, .. } = self.running[&package];
        let output = execution::log_text(stage, completion);
        let log = self.attempt_dir(package).write_log(stage, &output);
        let times = (began_ms, stage_began_ms, self.clock.now_ms());
        let ended = execution::stage_result(stage, completion, log.clone(), times);
        result.cpu_ms = result.cpu_ms.saturating_add(ended.cpu_ms);
        result.peak_kib = result.peak_kib.max(ended.peak_kib);
        self.record_stage(package, ended);
        if failure::termination(completion).is_none()
            && let Some(left) = failure::leftovers(stage, completion, Vec::new())
        {
            self.notice(package, &left, view);
            result.left.push(left);
        }
        log
    }

    fn notice(&self, package: PackageId, text: &str, view: &mut dyn View) {
        let text = format!("{}: {text}", self.plan.package(package).name);
        view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
    }

    fn set_step(&mut self, package: PackageId, step: Step) {
        self.running.get_mut(&package).expect("it runs").step = step;
    }

    /// The running attempt.
    pub(super) fn current(&self, package: PackageId) -> &Current {
        match self.plan.package(package).package_state() {
            PackageState::Running(current) => current,
            state => unreachable!("package {package} is {}", state.kind().name()),
        }
    }

    /// The request to build a running package once more.
    fn rebuild(&self, package: PackageId) -> Option<Vec<u8>> {
        match self.plan.package(package).package_state() {
            PackageState::Running(current) => current.rebuild.clone(),
            _ => None,
        }
    }

    /// Sets and records the state at the end of a package's job; open instead if another build was requested meanwhile.
    /// The events about the end have to follow.
    pub(super) fn end(&mut self, package: PackageId, state: PackageState) {
        self.dispatch.forget_waiting(package);
        if let Some(running) = self.running.remove(&package) {
            self.estimator.finished(JobId(package), running.took_ms(self.clock.now_ms()));
        }
        let state = self.rebuild(package).map_or(state, |records| PackageState::Open(Pending::Rebuild(records)));
        let kind = state.kind();
        let mut records: Vec<StateRecord> = self.plan.set(package, state).into_iter().collect();
        if kind == State::Open {
            self.reopened.push(package);
        } else if kind.is_lost() {
            records.extend(self.plan.fail_dependents(package));
        }
        self.record_states(&records);
        self.ended = Some((package, records));
    }

    /// Reopens a package whose job was aborted. If a client has built it, the next build gets the result again.
    pub(super) fn abort(&mut self, package: PackageId) {
        let Some(running) = self.running.get(&package) else { return };
        if self.dispatch.current(package).is_some() {
            return;
        }
        let publishing = running.stage == Stage::SyncPackage;
        self.release(package, self.current(package).client);
        self.record_attempt(package, Some(self.clock.now_ms()), INTERRUPTED, "");
        self.running.remove(&package);
        let pending = self.rebuild(package).map_or(Pending::Interrupted { publishing }, Pending::Rebuild);
        let record = self.plan.set(package, PackageState::Open(pending));
        self.record_states(record.as_slice());
    }
}

/// Turns the success of an attempt that does not list the package it was made for into a machine failure.
fn require_package(result: &mut AttemptResult, name: &str, completion: &mut Completion) {
    if result.outcome == AttemptOutcome::Built && result.package(name).is_none() {
        result.outcome = AttemptOutcome::MachineFailed { why: format!("the attempt did not make {name}") };
        completion.exit = Exit::Code(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_exec::runner::refused;
    use tanto_protocol::BuiltPackage;

    #[test]
    fn success_without_the_package_is_a_machine_failure() {
        let ended = |name: &str| {
            let packages = vec![BuiltPackage { name: name.into(), file: format!("{name}.tgz") }];
            let mut result = AttemptResult { packages, ..AttemptResult::of(AttemptOutcome::Built) };
            let mut completion = refused(JobId(0), &std::io::ErrorKind::Other.into());
            completion.exit = Exit::Code(0);
            require_package(&mut result, "a-1", &mut completion);
            (result.outcome, completion.exit)
        };
        assert_eq!(ended("a-1"), (AttemptOutcome::Built, Exit::Code(0)));
        let why = "the attempt did not make a-1".to_owned();
        assert_eq!(ended("a-2"), (AttemptOutcome::MachineFailed { why }, Exit::Code(1)));
    }
}
