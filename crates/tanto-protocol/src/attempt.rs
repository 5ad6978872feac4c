//! The specification and the result of one attempt at one package.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{MAX_LIST, MAX_TEXT, Message, MessageError, limit, name, texts};

/// Everything that an attempt needs to know about its package.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// The attempt's number within the run, from 1.
    pub attempt: u32,
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    /// MULTI_VERSION: arguments for make.
    pub arguments: Vec<String>,
    /// BOOTSTRAP_PKG: it may be installed already, and is not installed as a test.
    pub bootstrap: bool,
    /// USE_DESTDIR is `user-destdir`: it is installed as the unprivileged user.
    pub user_destdir: bool,
    /// USERGROUP_PHASE.
    pub usergroup_phase: String,
    /// Names of the packages that it depends on.
    pub depends: Vec<String>,
    /// Names of all packages that those depend on.
    pub indirect: Vec<String>,
    /// Bytes that it may write in memory; `None`: it writes on the disk.
    pub scratch_memory: Option<u64>,
    /// KiB that it is expected to write on the disk; 0 if unknown.
    pub expected_disk_kib: u64,
    /// A failure through no fault of the package is final: files and logs are kept as after any failure.
    pub is_last: bool,
}

impl Message for AttemptSpec {
    const MAX_BYTES: usize = 8 << 20;

    fn check(&self) -> Result<(), MessageError> {
        name("name", &self.name, false)?;
        name("location", &self.location, true)?;
        texts("arguments", &self.arguments)?;
        limit("usergroup_phase", self.usergroup_phase.len(), MAX_TEXT)?;
        for (field, names) in [("depends", &self.depends), ("indirect", &self.indirect)] {
            limit(field, names.len(), MAX_LIST)?;
            names.iter().try_for_each(|text| name(field, text, false))?;
        }
        Ok(())
    }
}

/// How an attempt ended. `why` is for the user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// The binary packages of `AttemptResult::packages` were made.
    Built,
    /// The package failed.
    Failed { why: String },
    /// It needs several users, and there is only one.
    NeedsRoot { why: String },
    /// It failed through no fault of the package.
    MachineFailed { why: String },
    /// It did not begin: the server no longer has the package tree of its lease.
    TreeChanged { why: String },
    /// It was killed, perhaps because memory ran out. Never if the attempt was the last permitted one: then it failed.
    OutOfMemory { why: String },
    /// It wrote more than `scratch_memory`.
    ExceededTmpfs { why: String },
}

impl AttemptOutcome {
    /// Why it failed; empty if it was built.
    pub fn why(&self) -> &str {
        match self {
            AttemptOutcome::Built => "",
            AttemptOutcome::Failed { why }
            | AttemptOutcome::NeedsRoot { why }
            | AttemptOutcome::MachineFailed { why }
            | AttemptOutcome::TreeChanged { why }
            | AttemptOutcome::OutOfMemory { why }
            | AttemptOutcome::ExceededTmpfs { why } => why,
        }
    }
}

/// A package file that an attempt made. It is in the attempt's directory until the coordinator accepts it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BuiltPackage {
    /// PKGNAME.
    pub name: String,
    /// The name of the file.
    pub file: String,
}

/// Most packages of one attempt.
pub const MAX_PACKAGES: usize = 1_000;

/// Everything that an attempt yields besides the files in its directory: package files, logs and kept archives. Names of
/// files are relative to that directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttemptResult {
    pub outcome: AttemptOutcome,
    /// The packages that it made, each listed once; none unless it was built.
    pub packages: Vec<BuiltPackage>,
    /// The stages that have ended and were not reported as progress, in order.
    pub stages: Vec<StageResult>,
    pub cpu_ms: u64,
    /// Peak memory of its processes, without files in memory if all that it writes is there.
    pub peak_kib: u64,
    /// Peak of what it wrote.
    pub disk_kib: u64,
    /// Processes that outlived their stage, in words.
    pub left: Vec<String>,
    /// The exit code of the stage that failed.
    pub exit: i32,
    /// The last lines of that stage's output.
    pub output: String,
    /// The log of that stage; empty if it printed nothing.
    pub log: String,
}

impl AttemptResult {
    /// The result of an attempt that ran nothing.
    pub fn of(outcome: AttemptOutcome) -> AttemptResult {
        AttemptResult {
            outcome,
            packages: Vec::new(),
            stages: Vec::new(),
            cpu_ms: 0,
            peak_kib: 0,
            disk_kib: 0,
            left: Vec::new(),
            exit: 0,
            output: String::new(),
            log: String::new(),
        }
    }

    /// Returns the package with this PKGNAME, if the attempt made it.
    pub fn package(&self, name: &str) -> Option<&BuiltPackage> {
        self.packages.iter().find(|it| it.name == name)
    }

    fn check_packages(&self) -> Result<(), MessageError> {
        limit("packages", self.packages.len(), MAX_PACKAGES)?;
        if (self.outcome == AttemptOutcome::Built) == self.packages.is_empty() {
            return Err(MessageError::Packages);
        }
        let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
        for package in &self.packages {
            name("packages.name", &package.name, false)?;
            name("packages.file", &package.file, false)?;
            if !names.insert(&package.name) || !files.insert(&package.file) {
                return Err(MessageError::Packages);
            }
        }
        Ok(())
    }
}

impl Message for AttemptResult {
    const MAX_BYTES: usize = 8 << 20;

    fn check(&self) -> Result<(), MessageError> {
        limit("why", self.outcome.why().len(), MAX_TEXT)?;
        self.check_packages()?;
        limit("stages", self.stages.len(), MAX_LIST)?;
        self.stages.iter().try_for_each(StageResult::check)?;
        texts("left", &self.left)?;
        limit("output", self.output.len(), MAX_TEXT)?;
        log_name(&self.log)
    }
}

/// Checks the name of a log, which may be empty.
fn log_name(log: &str) -> Result<(), MessageError> {
    if log.is_empty() { Ok(()) } else { name("log", log, false) }
}

/// A stage that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageResult {
    pub stage: String,
    /// When it began, in milliseconds since the attempt began.
    pub after_ms: u64,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    /// Peak memory of one process.
    pub peak_kib: u64,
    /// Bytes read from disks.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// `None` where the system does not count it.
    pub waits: Option<StageWaits>,
    /// The exit code; 128 and more for signals.
    pub exit: i32,
    /// The name of the file with its output, in the attempt's directory; empty if it printed nothing.
    pub log: String,
}

impl StageResult {
    pub(crate) fn check(&self) -> Result<(), MessageError> {
        name("stage", &self.stage, false)?;
        log_name(&self.log)
    }
}

/// How long the processes of a stage waited, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageWaits {
    pub io_us: u64,
    pub cpu_us: u64,
}
