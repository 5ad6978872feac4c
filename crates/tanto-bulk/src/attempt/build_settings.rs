//! Where packages are built, and with what. Does not know how.

use std::collections::BTreeMap;

use super::make_wrappers::Makes;
use super::sandbox::Sandbox;
use super::workdirs::Works;
use crate::config::{Limits, Stage};
use crate::shell::quoted;

/// Where packages are built, and with what.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct BuildSettings {
    /// The tree.
    pub pkgsrc: String,
    /// The program that reads its makefiles.
    pub make: String,
    /// Where packages are installed.
    pub prefix: String,
    /// The database of what is installed.
    pub pkgdb: String,
    /// Binary packages are in `All` below it.
    pub packages: String,
    /// Logs are in directories with the names of packages below it.
    pub logs: String,
    /// What an empty prefix is made from: an archive, or a directory.
    pub bootstrapkit: String,
    /// Installs packages.
    pub pkg_add: String,
    /// Removes them.
    pub pkg_delete: String,
    /// MAKE_JOBS: how many jobs a package's own build may run.
    pub make_jobs: usize,
    /// What packages' own builds are run with, if they share job tokens.
    pub makes: Option<Makes>,
    /// Ends the names of binary packages.
    pub suffix: String,
    /// Who configures and builds, where we may become somebody else.
    pub user: Option<String>,
    /// Environment variables that the configuration sets.
    pub environment: BTreeMap<String, String>,
    /// What makefiles need not ask the system (`facts`).
    pub facts: Vec<String>,
    /// There is but one user, whom packages take for root.
    pub one_user: bool,
    /// Files are fetched and checked as that user too.
    pub unprivileged_checksum: bool,
    /// What shuts packages in; none: they are built in the machine itself.
    pub sandbox: Option<Sandbox>,
    /// How many bytes each package may write in memory, in its sandbox; none: all write on the disk.
    pub memory: Option<u64>,
    /// How many packages are built at a time; 0: as many as the runner can.
    pub clients: usize,
    /// Where work directories are in a sandbox.
    pub wrkobjdir: String,
    /// Where fetched files are.
    pub distdir: String,
    /// How files are fetched.
    pub fetching: Fetching,
    /// Our own program.
    pub program: String,
    /// Whether the work directory of a failed package is kept.
    pub keep_wrkdir: bool,
    /// Whether what was in the prefix then is kept.
    pub keep_prefix: bool,
    /// A line for the shell, run in the sandbox before all else.
    pub prepare_action: String,
    /// A line for the shell that sees a package before it gets its place; empty: nothing.
    pub sync_package: String,
    /// A line for the shell that is told which package has failed; empty: nothing.
    pub sync_buildlog: String,
    /// What stages may take that may not take what all may.
    pub limits: BTreeMap<Stage, Limits>,
    /// Where it stands which work directories there are, if there is no sandbox.
    pub works: Works,
}

impl BuildSettings {
    /// What packages may write in memory, if they may.
    pub fn room(&self) -> Option<Room> {
        // Most is held and written while it is built.
        let limit = self.limits.get(&Stage::Build).and_then(|limits| limits.memory);
        self.memory.map(|most| Room { most, limit })
    }

    /// The tree may be told that there is but one user (UNPRIVILEGED): then no package wants another. That is asked in this
    /// directory of a package.
    pub fn ask_for_users(&mut self, location: &str) {
        let Some(sandbox) = self.sandbox.as_ref().filter(|_| self.one_user) else { return };
        let (dir, make) = (quoted(&format!("{}/{location}", self.pkgsrc)), quoted(&self.make));
        let said = sandbox.say(&format!("cd {dir} && {make} show-var VARNAME=UNPRIVILEGED"));
        self.one_user = !said.is_ok_and(|said| said.trim().eq_ignore_ascii_case("yes"));
    }
}

/// Memory for the files that a package writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes of files.
    pub most: u64,
    /// Bytes of files and of its processes together.
    pub limit: Option<u64>,
}

/// How files are fetched.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetching {
    /// A file by whose locks packages agree who fetches what.
    pub lock: String,
    /// Where files are looked for first; empty: nowhere.
    pub master_site_override: String,
    /// What a user would have to fetch is fetched too.
    pub ignore_interactive_fetch: bool,
    /// Run for each new file; empty: nothing.
    pub post_fetch_hook: String,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A place where nothing is.
    pub(crate) fn nowhere() -> BuildSettings {
        BuildSettings {
            pkgsrc: "/src".into(),
            make: "bmake".into(),
            prefix: "/pkg".into(),
            pkgdb: "/pkg/db".into(),
            packages: "/packages".into(),
            logs: "/logs".into(),
            bootstrapkit: "/kit.tgz".into(),
            pkg_add: "pkg_add".into(),
            pkg_delete: "pkg_delete".into(),
            make_jobs: 1,
            makes: None,
            suffix: ".tgz".into(),
            user: None,
            distdir: "/distfiles".into(),
            program: "tanto".into(),
            ..BuildSettings::default()
        }
    }
}
