//! One attempt at one package: all that it needs, and all that it yields.

use serde_json::{Value, json};

use crate::json::{Json, field, record};
use crate::{MAX_LIST, MAX_TEXT, Message, MessageError, limit, name, texts};

/// All that one attempt needs to know of its package.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// The binary package was made, and waits to be accepted.
    Built,
    /// The package failed.
    Failed { why: String },
    /// It needs several users, and there is only one.
    NeedsRoot { why: String },
    /// It failed through no fault of the package.
    MachineFailed { why: String },
    /// It was killed, perhaps because memory ran out.
    OutOfMemory { why: String },
    /// It wrote more than `scratch_memory`.
    ExceededTmpfs { why: String },
}

impl AttemptOutcome {
    /// The name in messages.
    fn kind(&self) -> &'static str {
        match self {
            AttemptOutcome::Built => "built",
            AttemptOutcome::Failed { .. } => "failed",
            AttemptOutcome::NeedsRoot { .. } => "needs-root",
            AttemptOutcome::MachineFailed { .. } => "machine-failed",
            AttemptOutcome::OutOfMemory { .. } => "out-of-memory",
            AttemptOutcome::ExceededTmpfs { .. } => "exceeded-tmpfs",
        }
    }

    /// Why it failed; empty if it was built.
    pub fn why(&self) -> &str {
        match self {
            AttemptOutcome::Built => "",
            AttemptOutcome::Failed { why }
            | AttemptOutcome::NeedsRoot { why }
            | AttemptOutcome::MachineFailed { why }
            | AttemptOutcome::OutOfMemory { why }
            | AttemptOutcome::ExceededTmpfs { why } => why,
        }
    }
}

/// All that one attempt yields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptResult {
    pub outcome: AttemptOutcome,
    /// The stages that ended, in order.
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
    /// For the user: the end of that stage's output, why it failed, and the file with all of it.
    pub message: String,
}

impl Message for AttemptResult {
    const MAX_BYTES: usize = 8 << 20;

    fn check(&self) -> Result<(), MessageError> {
        limit("why", self.outcome.why().len(), MAX_TEXT)?;
        limit("stages", self.stages.len(), MAX_LIST)?;
        for stage in &self.stages {
            name("stage", &stage.stage, false)?;
            limit("log", stage.log.len(), MAX_TEXT)?;
        }
        texts("left", &self.left)?;
        limit("message", self.message.len(), MAX_TEXT)
    }
}

/// A stage that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// The file with its output; empty if it printed nothing.
    pub log: String,
}

/// How long the processes of a stage waited, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageWaits {
    pub io_us: u64,
    pub cpu_us: u64,
}

impl Json for AttemptOutcome {
    fn to_json(&self) -> Value {
        json!({ "kind": self.kind(), "why": self.why() })
    }

    fn from_json(mut value: Value) -> Result<Self, String> {
        let (kind, why): (String, String) = (field(&mut value, "kind")?, field(&mut value, "why")?);
        Ok(match &*kind {
            "built" => AttemptOutcome::Built,
            "failed" => AttemptOutcome::Failed { why },
            "needs-root" => AttemptOutcome::NeedsRoot { why },
            "machine-failed" => AttemptOutcome::MachineFailed { why },
            "out-of-memory" => AttemptOutcome::OutOfMemory { why },
            "exceeded-tmpfs" => AttemptOutcome::ExceededTmpfs { why },
            _ => return Err(format!("unknown outcome '{kind}'")),
        })
    }
}

record!(AttemptSpec {
    attempt,
    name,
    location,
    arguments,
    bootstrap,
    user_destdir,
    usergroup_phase,
    depends,
    indirect,
    scratch_memory,
    expected_disk_kib,
    is_last,
});
record!(AttemptResult { outcome, stages, cpu_ms, peak_kib, disk_kib, left, exit, message });
record!(StageResult { stage, after_ms, wall_ms, cpu_ms, peak_kib, read_bytes, written_bytes, waits, exit, log });
record!(StageWaits { io_us, cpu_us });
