//! The stages of an attempt at a package: pbulk's, and those that Tanto adds.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Fills an empty prefix from the bootstrap kit.
    ClientClean,
    /// Removes the work directory of an earlier build.
    PreClean,
    /// Installs the packages that it needs.
    Depends,
    /// Fetches and verifies distfiles.
    Checksum,
    Configure,
    Build,
    /// Installs below the work directory.
    Install,
    /// Makes the binary package and installs it as a test.
    Package,
    /// Removes it again.
    Deinstall,
    /// Moves the binary package to its place.
    SyncPackage,
    /// Archives the work directory and the prefix of a failed package.
    Keep,
    /// Removes the work directory.
    Clean,
    /// Runs the hook `sync_buildlog` on the logs of a failed package.
    SyncBuildlog,
}

impl Stage {
    /// In the order in which they run.
    pub const ALL: [Stage; 13] = [
        Stage::ClientClean,
        Stage::PreClean,
        Stage::Depends,
        Stage::Checksum,
        Stage::Configure,
        Stage::Build,
        Stage::Install,
        Stage::Package,
        Stage::Deinstall,
        Stage::SyncPackage,
        Stage::Keep,
        Stage::Clean,
        Stage::SyncBuildlog,
    ];

    /// The name in the database and of log files.
    pub fn name(self) -> &'static str {
        match self {
            Stage::ClientClean => "client-clean",
            Stage::PreClean => "pre-clean",
            Stage::Depends => "depends",
            Stage::Checksum => "checksum",
            Stage::Configure => "configure",
            Stage::Build => "build",
            Stage::Install => "install",
            Stage::Package => "package",
            Stage::Deinstall => "deinstall",
            Stage::SyncPackage => "sync-package",
            Stage::Keep => "keep",
            Stage::Clean => "clean",
            Stage::SyncBuildlog => "sync-buildlog",
        }
    }

    /// Whether it may fill the disk.
    pub fn writes(self) -> bool {
        self < Stage::Keep
    }

    /// Whether its command runs in the sandbox and leaves a report.
    pub fn enters(self) -> bool {
        !matches!(self, Stage::SyncPackage | Stage::Clean | Stage::SyncBuildlog)
    }

    /// Whether a failure is the machine's and not the package's.
    pub fn blames_machine(self) -> bool {
        matches!(self, Stage::ClientClean | Stage::SyncPackage)
    }
}
