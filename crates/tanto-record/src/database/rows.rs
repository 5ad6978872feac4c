//! Rows of the database, and changes of a run.

use tanto_sys::cgroup::StallTimes;

/// A change of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Adds or replaces a package.
    Package(PackageRow),
    /// Adds a dependency between packages.
    Edge {
        package: u32,
        /// The dependency.
        needs: u32,
    },
    /// Removes all dependencies of a package.
    Edgeless { package: u32 },
    /// Sets the state of a package.
    State {
        package: u32,
        state: &'static str,
        /// See `PackageRow::detail`.
        detail: &'static str,
        /// For people; empty if obvious.
        why: String,
    },
    /// A package has to be built.
    Due {
        package: u32,
        /// For people.
        why: String,
    },
    /// An attempt began or, with an end, ended.
    Attempt(AttemptRow),
    /// A lease was granted, or its state has changed.
    Lease(LeaseRow),
    /// A package was built.
    Built(ProvenanceRow),
    /// A package will be built again to compare it, or was.
    Verification(VerificationRow),
    /// Distrusts all tokens with which a client had leases.
    Distrusted {
        client: String,
        /// Milliseconds since 1970.
        at_ms: i64,
    },
    /// A stage of an attempt ended.
    Stage(StageRow),
    /// A package contains this file.
    File(FileRow),
    /// A rebuilt package has the same content as before.
    Content {
        /// PKGNAME.
        name: String,
        /// Time at which its file was written, in nanoseconds since 1970.
        written_ns: i64,
        /// Time of the last change of its content, in nanoseconds since 1970.
        since_ns: i64,
    },
    /// The options of a finished package.
    Options {
        /// PKGNAME.
        name: String,
        options: String,
        /// It was built with them now; otherwise a known value is kept.
        is_new: bool,
    },
    /// Resources used by building a package.
    Cost(CostRow),
    /// Estimate for a package that will be built.
    Expected(EstimateRow),
    /// A directory was scanned.
    Scanned(ScanRow),
    /// A file was read.
    Digested(DigestRow),
    /// The end of the run, in milliseconds since 1970.
    Ended { at_ms: i64 },
}

/// A bulk build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunRow {
    pub run: i64,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// `None` if it was killed or continues.
    pub ended_ms: Option<i64>,
}

/// A package of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageRow {
    /// Its number in the run.
    pub package: u32,
    /// The job that builds it.
    pub job: u32,
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    pub state: String,
    /// A code that distinguishes cases of the state; empty if there is only one, or for the usual one.
    pub detail: String,
    /// The reason for the state, for people.
    pub why: String,
}

/// An attempt to build a job's packages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptRow {
    pub job: u32,
    /// Counts from 1.
    pub attempt: u32,
    /// The client that ran it.
    pub client: String,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// `None` while it is running.
    pub ended_ms: Option<i64>,
    /// Empty while it is running.
    pub outcome: String,
    /// The reason for the outcome, for people.
    pub why: String,
}

/// A lease: it gives one client on another machine one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRow {
    /// Its identifier.
    pub lease: String,
    pub job: u32,
    pub attempt: u32,
    /// The client's name.
    pub client: String,
    /// The public identifier of the client's token.
    pub token: String,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    pub state: String,
    /// Why it ended without a result; otherwise empty.
    pub cause: String,
    /// The digest of the manifest of the package tree; empty if there is none.
    pub tree: String,
    /// A digest of the environment of the build.
    pub environment: String,
}

/// A SHA256 digest.
pub type Sha256 = [u8; 32];

/// How a package was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvenanceRow {
    pub job: u32,
    pub attempt: u32,
    /// PKGNAME.
    pub name: String,
    pub client: String,
    /// The public identifier of the client's token; empty for this machine.
    pub token: String,
    /// The digest of the manifest of the package tree; empty if unknown.
    pub tree: String,
    /// A digest of the environment of the build; empty if unknown.
    pub environment: String,
    /// The digest of its file, if known.
    pub digest: Option<Sha256>,
    /// The number of packages that it was built with.
    pub dependencies: u32,
    /// The digests of these packages, as far as they are known.
    pub built_with: Vec<Sha256>,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    /// Milliseconds since 1970.
    pub ended_ms: i64,
}

/// Whether other clients have built the same package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerificationRow {
    pub job: u32,
    /// The attempt whose package was accepted.
    pub attempt: u32,
    /// PKGNAME.
    pub name: String,
    /// The digest of the file that was accepted.
    pub digest: Sha256,
    /// The client that has built it.
    pub first: String,
    /// The client that has built it again; empty if none has.
    pub second: String,
    /// The client whose package has decided; empty if none has.
    pub third: String,
    pub result: String,
    /// The client whose package differs from those of the others, if it is known; else empty.
    pub suspect: String,
    /// The members that differ, or the reason, for people.
    pub detail: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// The work of a client in the last runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientWorkRow {
    /// Its name.
    pub client: String,
    /// Packages that it has built in the last run.
    pub built: u64,
    /// Expected durations of the packages that it has built, if they are known, in milliseconds.
    pub expected_ms: u64,
    /// The durations of these packages.
    pub took_ms: u64,
}

/// A stage of an attempt that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageRow {
    pub job: u32,
    pub attempt: u32,
    pub stage: String,
    /// Milliseconds since 1970.
    pub began_ms: i64,
    pub wall_ms: u64,
    /// Processor time of all its processes.
    pub cpu_ms: u64,
    /// Peak memory.
    pub peak_kib: u64,
    /// Bytes read from disks.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Stall times of its processes, if known.
    pub waits: Option<StallTimes>,
    /// Exit code; 128 plus the number of a signal.
    pub exit: i32,
    /// Its log file; empty if that was removed.
    pub log: String,
}

/// A file of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRow {
    /// PKGNAME.
    pub name: String,
    pub path: String,
    pub bytes: u64,
    /// Digest of its content.
    pub digest: Vec<u8>,
}

/// Resources used by the last build of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostRow {
    /// PKGNAME.
    pub name: String,
    /// PKGPATH.
    pub location: String,
    /// Time of the build, in milliseconds since 1970.
    pub at_ms: i64,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    /// Peak memory.
    pub peak_kib: u64,
    /// Peak disk usage.
    pub disk_kib: u64,
}

/// An estimate for a package, made before it was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EstimateRow {
    pub package: u32,
    pub wall_ms: u64,
    /// The basis of the estimate, in a word.
    pub basis: String,
}

/// The result of scanning a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanRow {
    /// PKGPATH.
    pub location: String,
    /// Digest of everything the result depends on.
    pub key: Vec<u8>,
    pub records: Vec<u8>,
    /// The output, if the scan failed.
    pub failed: Option<String>,
    pub wall_ms: u64,
}

/// The digest of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestRow {
    pub path: Vec<u8>,
    pub stamp: Stamp,
    pub digest: Vec<u8>,
    /// The file queries another package's options.
    pub asks: bool,
}

/// Metadata that changes with the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub device: u64,
    pub inode: u64,
    /// Length.
    pub bytes: u64,
    /// Last modification, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Last change of content or metadata, in nanoseconds since 1970.
    pub ctime_ns: i64,
}
