//! One running attempt: runs its stages in order until the outcome is decided, then cleans up.

use std::borrow::Cow;
use std::rc::Rc;

use tanto_exec::job::report::{JobSample, MonitorReport, Termination, TerminationReason};
use tanto_exec::job::{Command, Completion, Exit, JobLimits, Usage};
use tanto_exec::sandbox::Report;
use tanto_protocol::{AttemptOutcome, AttemptResult, AttemptSpec, BuiltPackage, StageResult, StageWaits};
use tanto_record::views::process_list;
use tanto_sys::fs::page_cache;

use super::build_settings::BuildSettings;
use super::directory::AttemptDir;
use super::failure;
use super::runner::AttemptPlace;
use super::stages::StageCommands;
use crate::config::Stage;

/// A running attempt.
#[derive(Debug)]
pub struct Attempt<'a> {
    settings: &'a BuildSettings,
    spec: Rc<AttemptSpec>,
    dir: AttemptDir,
    /// The number of the client that runs it.
    client: usize,
    began_ms: i64,
    stage: Stage,
    stage_began_ms: i64,
    cpu_ms: u64,
    /// Peak memory of its processes, without files in memory if all that it writes is there.
    peak_kib: u64,
    disk_kib: u64,
    left: Vec<String>,
    /// Set when a stage has failed; only clean-up stages follow.
    failure: Option<Failure>,
}

/// The end of an attempt that did not make a package.
#[derive(Debug)]
struct Failure {
    outcome: AttemptOutcome,
    exit: Exit,
    /// The last lines of the stage's output, and the name of its log.
    output: Vec<u8>,
    log: String,
    termination: Option<Termination>,
}

/// The result of `Attempt::stage_ended`.
#[derive(Debug)]
pub enum Next {
    /// The attempt's next command.
    Stage(StageResult, Command),
    /// The attempt has ended.
    End(Box<AttemptResult>),
}

/// One of so many parts of the scratch memory does not matter.
const NEGLIGIBLE: u64 = 16;
const EXCEEDED_TMPFS: &str = "its files exceed the space in memory: building it again on disk";

impl<'a> Attempt<'a> {
    /// Prepares the sandbox and returns the first command.
    pub fn begin(
        settings: &'a BuildSettings,
        spec: Rc<AttemptSpec>,
        place: &AttemptPlace,
        now_ms: i64,
    ) -> (Attempt<'a>, Command) {
        let client = place.client;
        let stage = Stage::after(None, &spec, settings).expect("each package has stages");
        let dir = AttemptDir::of(settings, &spec);
        dir.clear();
        if let Some(sandbox) = &settings.sandbox {
            // Without its plan, the first command cannot enter the sandbox and reports that.
            let _ = sandbox.begin(client, dir.path(), spec.scratch_memory, place.tree.as_deref());
        }
        let disk_kib = spec.expected_disk_kib;
        let attempt = Attempt {
            settings,
            spec,
            dir,
            client,
            began_ms: now_ms,
            stage,
            stage_began_ms: now_ms,
            cpu_ms: 0,
            peak_kib: 0,
            disk_kib,
            left: Vec::new(),
            failure: None,
        };
        let command = attempt.command();
        (attempt, command)
    }

    /// The running stage, and when it began.
    pub fn stage(&self) -> (Stage, i64) {
        (self.stage, self.stage_began_ms)
    }

    fn command(&self) -> Command {
        let commands = StageCommands { settings: self.settings, spec: &self.spec, client: self.client };
        let line = commands.of(self.stage, self.failure.is_none()).into_bytes();
        Command { line, limits: self.limits(), ..Command::default() }
    }

    /// Returns the limits of the running stage; `None`: those of the runner.
    fn limits(&self) -> Option<Box<JobLimits>> {
        let mut resources = self.settings.limits.get(&self.stage)?.watched();
        resources.disk_kib = resources.disk_kib.filter(|_| self.stage.writes());
        let scratch = resources.disk_kib.and_then(|_| match &self.settings.sandbox {
            Some(sandbox) => Some(sandbox.place(self.client).scratch()),
            None => self.dir.workdir_note().get(),
        });
        Some(Box::new(JobLimits { resources, scratch }))
    }

    /// Handles the end of a stage. If that is the end of the attempt, `completion` becomes the attempt's.
    pub fn stage_ended(&mut self, completion: &mut Completion, now_ms: i64) -> Next {
        let fault = self.read_report(completion);
        failure::deny_interrupt(completion);
        let log = self.dir.write_log(self.stage, &log_text(self.stage, completion));
        self.cpu_ms += cpu_ms(completion.usage);
        self.peak_kib = self.peak_kib.max(completion.usage.max_rss_kib);
        let ended = stage_result(self.stage, completion, log, (self.began_ms, self.stage_began_ms, now_ms));
        let next = if self.failure.is_some() {
            self.clean_up(Some(self.stage))
        } else if self.exceeds_tmpfs(completion) {
            let why = match completion.exit.success() {
                true => self.stage.name().to_owned(),
                false => failure::reason(self.stage, completion),
            };
            let outcome = AttemptOutcome::ExceededTmpfs { why: format!("{why}: {EXCEEDED_TMPFS}") };
            self.fail(outcome, completion, &ended.log)
        } else if !completion.exit.success() && self.stage != Stage::Clean {
            let Attempt { spec, settings, stage, .. } = &*self;
            let outcome = failure::classify(*stage, completion, fault, settings.one_user, spec.is_last);
            self.fail(outcome, completion, &ended.log)
        } else {
            if self.stage == Stage::Package && self.settings.sandbox.is_none() {
                self.disk_kib = self.dir.measured_kib();
            }
            Stage::after(Some(self.stage), &self.spec, self.settings)
        };
        let Some(stage) = next else {
            return Next::End(Box::new(self.result(vec![ended], completion)));
        };
        (self.stage, self.stage_began_ms) = (stage, now_ms);
        Next::Stage(ended, self.command())
    }

    /// Takes over what the stage left in its sandbox for the coordinator, and its leftover processes. Returns the reason if the
    /// sandbox could not be entered.
    fn read_report(&mut self, completion: &mut Completion) -> Option<String> {
        // Other stages leave the report of the one before.
        let sandbox = self.settings.sandbox.as_ref().filter(|_| self.stage.enters());
        let Report { fault, signal, written_kib, left } =
            sandbox.map(|it| it.place(self.client).report()).unwrap_or_default();
        if failure::termination(completion).is_some() {
            // The rest of the report is a consequence of the termination.
            return fault;
        }
        self.disk_kib = self.disk_kib.max(written_kib.unwrap_or(0));
        if let Some(signal) = signal {
            completion.exit = Exit::Signal(signal);
        }
        self.left.extend(failure::leftovers(self.stage, completion, left));
        fault
    }

    /// Decides the outcome. Returns the first stage of the clean-up.
    fn fail(&mut self, outcome: AttemptOutcome, completion: &Completion, log: &str) -> Option<Stage> {
        let (exit, termination) = (completion.exit, failure::termination(completion).cloned());
        let output = failure::last_lines(&completion.output).to_vec();
        self.failure = Some(Failure { outcome, exit, output, log: log.to_owned(), termination });
        self.clean_up(None)
    }

    /// Returns the clean-up stage after this one.
    fn clean_up(&self, stage: Option<Stage>) -> Option<Stage> {
        let BuildSettings { sandbox, keep_wrkdir, keep_prefix, .. } = self.settings;
        let stages: &[Stage] = match self.is_retried() {
            // The sandbox may be what fills the disk or the memory.
            true if sandbox.is_some() => &[Stage::Clean],
            true => &[],
            false if *keep_wrkdir || *keep_prefix => &[Stage::Keep, Stage::Clean],
            false => &[Stage::Clean],
        };
        stages.iter().copied().find(|&next| stage.is_none_or(|stage| next > stage))
    }

    /// Returns whether the package is tried again, so that nothing of this attempt is of interest.
    fn is_retried(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| match failure.outcome {
            AttemptOutcome::MachineFailed { .. } | AttemptOutcome::TreeChanged { .. } => !self.spec.is_last,
            AttemptOutcome::OutOfMemory { .. } | AttemptOutcome::ExceededTmpfs { .. } => true,
            AttemptOutcome::Built | AttemptOutcome::Failed { .. } | AttemptOutcome::NeedsRoot { .. } => false,
        })
    }

    fn result(&mut self, stages: Vec<StageResult>, completion: &mut Completion) -> AttemptResult {
        let is_retried = self.is_retried();
        let (outcome, exit, output, log) = match self.failure.take() {
            None => (AttemptOutcome::Built, Exit::Code(0), Vec::new(), String::new()),
            Some(Failure { outcome, exit, output, log, termination }) => {
                if !is_retried {
                    keep_output(self.settings, &self.dir, &self.spec.name, self.client);
                }
                // Not that of the clean-up.
                completion.report = termination.map(|termination| {
                    Box::new(MonitorReport { termination: Some(termination), ..MonitorReport::default() })
                });
                (outcome, exit, output, log)
            }
        };
        let packages = if outcome == AttemptOutcome::Built { vec![self.built_package()] } else { Vec::new() };
        let result = AttemptResult {
            outcome,
            packages,
            stages,
            cpu_ms: self.cpu_ms,
            peak_kib: self.peak_kib,
            disk_kib: self.disk_kib,
            left: std::mem::take(&mut self.left),
            exit: exit.code(),
            output: String::from_utf8_lossy(&output).into_owned(),
            log,
        };
        (completion.exit, completion.output) = (exit, output);
        result
    }

    fn built_package(&self) -> BuiltPackage {
        let name = self.spec.name.clone();
        BuiltPackage { file: self.settings.package_file(&name), name }
    }

    /// Updates the peaks. Returns the sample with all files that the attempt has in memory.
    pub fn on_sample(&mut self, sample: JobSample) -> JobSample {
        let files_kib = self.files_in_memory();
        // The control group counts files that this command wrote, but not those of earlier commands.
        let written_kib = files_kib.and(sample.files_kib).unwrap_or(0);
        let own_kib = sample.memory_kib.saturating_sub(written_kib);
        self.peak_kib = self.peak_kib.max(own_kib);
        self.disk_kib = self.disk_kib.max(files_kib.unwrap_or(0));
        JobSample { memory_kib: own_kib + files_kib.unwrap_or(0), ..sample }
    }

    /// Returns the size of the files in its scratch memory, in KiB.
    fn files_in_memory(&self) -> Option<u64> {
        self.spec.scratch_memory?;
        page_cache::tmpfs_used_kib(&self.settings.sandbox.as_ref()?.place(self.client).scratch())
    }

    /// Returns whether the scratch memory was too small for what the stage wrote. That makes even a success doubtful: a
    /// check of `configure` may have failed because of it.
    fn exceeds_tmpfs(&mut self, completion: &Completion) -> bool {
        let Some(room) = self.spec.scratch_memory else { return false };
        let room_kib = room / 1024;
        self.disk_kib = self.disk_kib.max(self.files_in_memory().unwrap_or(0));
        let has_filled_it = self.disk_kib >= room_kib - room_kib / NEGLIGIBLE;
        let wanted_kib = match failure::termination(completion).map(|it| it.reason) {
            Some(TerminationReason::Requested | TerminationReason::Disk { .. }) => None,
            // On the disk, its files are no part of its memory.
            Some(TerminationReason::Memory { limit_kib }) if self.disk_kib > limit_kib / NEGLIGIBLE => {
                Some(limit_kib.saturating_sub(self.peak_kib))
            }
            // `checksum` writes elsewhere too.
            None if self.stage != Stage::Checksum
                && !completion.exit.success()
                && failure::is_disk_full(completion) =>
            {
                Some(room_kib)
            }
            // A stage that failed or took too long may have waited for room.
            _ => has_filled_it.then_some(room_kib),
        };
        let wanted_kib = wanted_kib.filter(|_| self.stage.writes());
        self.disk_kib = self.disk_kib.max(wanted_kib.unwrap_or(0));
        wanted_kib.is_some()
    }
}

/// Moves files that a package left in its sandbox to the attempt's directory, except the package file. Errors do not
/// matter.
pub fn keep_output(settings: &BuildSettings, dir: &AttemptDir, package: &str, client: usize) {
    if let Some(sandbox) = &settings.sandbox {
        let _ = sandbox.keep_output_files(client, dir.path(), &settings.package_file(package));
    }
}

/// Returns the output of a stage; if it was terminated, with the reason and the processes at that time.
pub fn log_text(stage: Stage, completion: &Completion) -> Cow<'_, [u8]> {
    let output = completion.output.as_slice();
    let Some(termination) = failure::termination(completion) else { return Cow::Borrowed(output) };
    let end: &[u8] = if output.last().is_some_and(|&last| last != b'\n') { b"\n" } else { b"" };
    let name = format!("tanto: {}", stage.name());
    Cow::Owned([output, end, &process_list::termination(name.as_bytes(), termination)].concat())
}

/// Returns the result of a stage. Times: when the attempt and the stage began, and now.
pub fn stage_result(
    stage: Stage,
    completion: &Completion,
    log: String,
    (attempt_ms, began_ms, now_ms): (i64, i64, i64),
) -> StageResult {
    let Usage { max_rss_kib, read_bytes, written_bytes, waits, .. } = completion.usage;
    let ms = |from: i64, to: i64| u64::try_from(to - from).unwrap_or(0);
    StageResult {
        stage: stage.name().to_owned(),
        after_ms: ms(attempt_ms, began_ms),
        wall_ms: ms(began_ms, now_ms),
        cpu_ms: cpu_ms(completion.usage),
        peak_kib: max_rss_kib,
        read_bytes,
        written_bytes,
        waits: waits.map(|waits| StageWaits { io_us: waits.io_us, cpu_us: waits.cpu_us }),
        exit: completion.exit.code(),
        log,
    }
}

pub fn cpu_ms(usage: Usage) -> u64 {
    (usage.user_us + usage.system_us) / 1000
}
