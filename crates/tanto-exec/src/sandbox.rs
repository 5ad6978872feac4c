//! Sandbox plans: the files that a command sees, and where it may write.
//!
//! A plan is a file. A process of Tanto itself mounts it (`mounting.rs`) and then enters it with the command
//! (`entering.rs`).

mod entering;
mod mounting;
mod pool;
mod text;

use std::path::{Path, PathBuf};

pub use self::entering::{Entry, enter, mount_only, report_fault, report_success, unmount_only};
pub use self::mounting::{close, cover, mount, unmount};
pub use self::pool::{SandboxGuard, SandboxPool, WarmSandbox, keep};

/// One mount of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Path inside the sandbox.
    pub at: PathBuf,
    pub kind: MountKind,
}

/// Kind of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MountKind {
    /// A host file or directory, read-only.
    ReadOnly(PathBuf),
    /// The same for an entry of a directory that is shown in parts; skipped if the entry is gone.
    ReadOnlyEntry(PathBuf),
    /// A host file or directory, writable.
    Writable(PathBuf),
    /// A private empty directory with these permissions.
    Private(u32),
    /// An overlay of these directories, the first uppermost. Changes stay in the sandbox.
    Overlay(Vec<PathBuf>),
    /// A copy of the union of these directories, the first uppermost.
    Copy(Vec<PathBuf>),
    /// A symbolic link to this path.
    Symlink(PathBuf),
    /// An empty mount that hides a path.
    Hidden,
    /// Device files usable by all users.
    Devices,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Plan {
    /// In mount order.
    pub mounts: Vec<Mount>,
    /// Size of a tmpfs for changes, in bytes; `None`: on disk.
    pub memory: Option<u64>,
    /// Mounts as root of a user namespace.
    pub as_user: bool,
    /// Only private and shared mounts are writable.
    pub read_only: bool,
}

impl Plan {
    pub fn add(&mut self, at: impl Into<PathBuf>, kind: MountKind) {
        self.mounts.push(Mount { at: at.into(), kind });
    }
}

/// Directory of one sandbox, which only its owner can access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SandboxDir {
    dir: PathBuf,
}

impl SandboxDir {
    /// The directory need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> SandboxDir {
        SandboxDir { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Root directory of commands.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Directory with changes.
    pub fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// Directory for private data. Removed with the scratch directory.
    pub fn private(&self) -> PathBuf {
        self.scratch().join("own")
    }

    /// Returns the directories of the overlay at a path of the sandbox, the first uppermost.
    pub fn layers(&self, at: &Path) -> std::io::Result<Vec<PathBuf>> {
        let plan = self.read_plan()?;
        let found = plan.mounts.into_iter().find(|mount| mount.at == at);
        Ok(match found.map(|mount| mount.kind) {
            Some(MountKind::Overlay(layers)) => layers,
            _ => Vec::new(),
        })
    }

    fn read_plan(&self) -> std::io::Result<Plan> {
        text::read(&std::fs::read(self.plan())?).ok_or_else(|| std::io::Error::other("its plan is damaged"))
    }

    fn plan(&self) -> PathBuf {
        self.dir.join("plan")
    }

    /// File for results that the exit code cannot tell.
    fn report_path(&self) -> PathBuf {
        self.dir.join("report")
    }

    /// Writes the plan.
    pub fn prepare(&self, plan: &Plan) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        std::fs::write(self.plan(), text::written(plan)?)
    }

    /// Returns the report of the last command.
    pub fn report(&self) -> Report {
        text::report(&std::fs::read(self.report_path()).unwrap_or_default())
    }
}

/// Results of a command besides its exit code and output.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// Why it could not enter the sandbox: a problem of the machine.
    pub fault: Option<String>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Command lines of its leftover processes, which were killed.
    pub left: Vec<String>,
    /// Size of all changes so far, if requested.
    pub written_kib: Option<u64>,
}
