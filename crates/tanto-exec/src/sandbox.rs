//! The sandbox's plan: what a command sees of the machine, and where it may write. Does not know what the command is for.
//!
//! A plan is data, and goes to whoever enters the sandbox as a file: a process of our own for each command, which
//! mounts what the plan says (`mounting.rs`) and then shuts itself in (`entering.rs`).

mod entering;
mod mounting;
mod pool;
mod text;

use std::path::{Path, PathBuf};

pub use self::entering::{Entry, begin, enter, fault, leave, pass};
pub use self::mounting::{close, cover, mount, unmount};
pub use self::pool::{SandboxGuard, SandboxPool, WarmSandbox, keep};

/// Something that is seen at a place of the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Where, as it is called inside.
    pub at: PathBuf,
    /// What.
    pub what: What,
}

/// What is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A file or directory of the machine, to be read.
    Look(PathBuf),
    /// The same, of an entry of a directory that is shown in parts: nothing if it has been removed.
    Part(PathBuf),
    /// One that may be written too.
    Share(PathBuf),
    /// An empty directory of the sandbox's own, with these permissions.
    Own(u32),
    /// Directories as one, the first uppermost; what is written stays in the sandbox.
    Over(Vec<PathBuf>),
    /// The same, copied: what is in the first counts.
    Copy(Vec<PathBuf>),
    /// A symbolic link to this.
    Link(PathBuf),
    /// Nothing, where there would be something.
    Nothing,
    /// The devices that everybody may use.
    Devices,
}

/// All that is seen, in the order in which it is mounted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What is seen.
    pub mounts: Vec<Mount>,
    /// What is written stays in memory, and may be so many bytes; none: it stays on the disk.
    pub memory: Option<u64>,
    /// Whoever mounts is root only in a namespace of users.
    pub as_user: bool,
    /// Nothing can be written but what is the sandbox's own or shared with it.
    pub read_only: bool,
}

impl Plan {
    /// Adds something.
    pub fn add(&mut self, at: impl Into<PathBuf>, what: What) {
        self.mounts.push(Mount { at: at.into(), what });
    }
}

/// The place of one sandbox on the machine: a directory that nobody else can look into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    dir: PathBuf,
}

impl Place {
    /// This directory, which may not be there yet.
    pub fn new(dir: impl Into<PathBuf>) -> Place {
        Place { dir: dir.into() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What commands see as `/`.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// What they have written.
    pub fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }

    /// For what only this sandbox has. It goes with what commands have written.
    pub fn own(&self) -> PathBuf {
        self.scratch().join("own")
    }

    /// The directories that are seen as one at a place of the sandbox, the first uppermost, as the plan says.
    pub fn layers(&self, at: &Path) -> std::io::Result<Vec<PathBuf>> {
        let plan = self.read_plan()?;
        let found = plan.mounts.into_iter().find(|mount| mount.at == at);
        Ok(match found.map(|mount| mount.what) {
            Some(What::Over(layers)) => layers,
            _ => Vec::new(),
        })
    }

    fn read_plan(&self) -> std::io::Result<Plan> {
        text::read(&std::fs::read(self.plan())?).ok_or_else(|| std::io::Error::other("its plan is damaged"))
    }

    /// The file with the plan.
    fn plan(&self) -> PathBuf {
        self.dir.join("plan")
    }

    /// The file in which whoever entered says what the command's exit code does not.
    fn report_path(&self) -> PathBuf {
        self.dir.join("report")
    }

    /// Writes the plan down, for those who enter.
    pub fn prepare(&self, plan: &Plan) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        std::fs::write(self.plan(), text::written(plan)?)
    }

    /// What the last command to enter has left to say; nothing if it got on as it should.
    pub fn report(&self) -> Report {
        text::report(&std::fs::read(self.report_path()).unwrap_or_default())
    }
}

/// What there is to tell of a command besides how it exited and what it printed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// Why it could not enter the sandbox: that is the machine's fault.
    pub fault: Option<String>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The command lines of processes that outlived it, and were ended.
    pub left: Vec<String>,
    /// How much all commands have written by now, in KiB, if it was to be measured.
    pub written_kib: Option<u64>,
}
