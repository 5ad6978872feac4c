//! The rows of the database. Does not know how they are written.

use tanto_sys::cgroup::StallTimes;

/// What changes in a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The run has a package, or has another one in the place of that with this number.
    Package(PackageRow),
    /// A package needs another.
    Edge {
        /// Which.
        package: u32,
        /// The other.
        needs: u32,
    },
    /// A package needs none of those any more that it needed.
    Edgeless {
        /// Which.
        package: u32,
    },
    /// A package's state is another.
    State {
        /// Which.
        package: u32,
        /// The state.
        state: &'static str,
        /// Why, in words; empty where that is clear.
        why: String,
    },
    /// A package has to be built.
    Due {
        /// Which.
        package: u32,
        /// Why, in words.
        why: String,
    },
    /// An attempt began, or ended if it has an end.
    Attempt(AttemptRow),
    /// A stage of an attempt ended.
    Stage(StageRow),
    /// A package has this file.
    File(FileRow),
    /// A package was built again, and is what it was before.
    Content {
        /// PKGNAME.
        name: String,
        /// When its file was written, in nanoseconds since 1970.
        written_ns: i64,
        /// Since when it has been what it is.
        since_ns: i64,
    },
    /// The settings of a package that is done.
    Options {
        /// PKGNAME.
        name: String,
        /// All of them.
        options: String,
        /// It was built with them now; otherwise what is known already stands.
        is_new: bool,
    },
    /// A package was built, and took so much.
    Cost(CostRow),
    /// A package is to be built, and will take so much.
    Expected(EstimateRow),
    /// A directory was scanned.
    Scanned(ScanRow),
    /// A file was read.
    Digested(DigestRow),
    /// The run is over. Milliseconds since 1970.
    Ended {
        /// When.
        at_ms: i64,
    },
}

/// A bulk build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// Its number.
    pub run: i64,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// None if it was killed, or goes on.
    pub ended_ms: Option<i64>,
}

/// A package of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageRow {
    /// Its number in the run.
    pub package: u32,
    /// The job that makes it.
    pub job: u32,
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    /// Where it stands.
    pub state: String,
    /// Why, in words.
    pub why: String,
}

/// An attempt to make a job's packages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptRow {
    /// Which job.
    pub job: u32,
    /// 1 for the first.
    pub attempt: u32,
    /// Who made it.
    pub client: String,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// None while it lasts.
    pub ended_ms: Option<i64>,
    /// How it ended; empty while it lasts.
    pub outcome: String,
    /// Why, in words.
    pub why: String,
}

/// A stage of an attempt, which has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageRow {
    /// Which job.
    pub job: u32,
    /// Which attempt.
    pub attempt: u32,
    /// The stage's name.
    pub stage: String,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
    /// Processor time of all its processes, in milliseconds.
    pub cpu_ms: u64,
    /// Peak of memory, in KiB.
    pub peak_kib: u64,
    /// Read from disks, in bytes.
    pub read_bytes: u64,
    /// Written to files, in bytes.
    pub written_bytes: u64,
    /// How long its processes waited, if that is known.
    pub waits: Option<StallTimes>,
    /// The exit code; 128 and more for signals.
    pub exit: i32,
    /// The file with what it printed; empty if that is gone.
    pub log: String,
}

/// A file of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRow {
    /// PKGNAME.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// What stands for its content.
    pub digest: Vec<u8>,
}

/// What a package took when it was last built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostRow {
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
    /// Processor time, in milliseconds.
    pub cpu_ms: u64,
    /// Peak of memory, in KiB.
    pub peak_kib: u64,
    /// Disk space while it was built, in KiB.
    pub disk_kib: u64,
}

/// What a package was expected to take, before it was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EstimateRow {
    /// Which.
    pub package: u32,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
    /// On what that rests, in a word.
    pub basis: String,
}

/// What a directory's scan said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanRow {
    /// PKGPATH.
    pub location: String,
    /// What stands for all that it depends on.
    pub key: Vec<u8>,
    /// Its records.
    pub records: Vec<u8>,
    /// What it printed, if it failed.
    pub failed: Option<String>,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
}

/// What a file held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestRow {
    /// Where it is.
    pub path: Vec<u8>,
    /// How it was then.
    pub stamp: Stamp,
    /// What stands for its content.
    pub digest: Vec<u8>,
    /// It asks for another package's options.
    pub asks: bool,
}

/// What tells a file that was changed from one that was not, without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The file system's number.
    pub device: u64,
    /// Its own number there.
    pub inode: u64,
    /// How long it is.
    pub bytes: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When anything of it changed, in nanoseconds since 1970.
    pub ctime_ns: i64,
}
