//! Settings of a build: paths, programs and limits.

use std::collections::BTreeMap;

use super::environment::make_jobs;
use super::make_wrappers::MakeWrappers;
use super::sandbox::Sandbox;
use crate::config::{Config, Limits, Stage};
use crate::shell::quoted;

/// Paths, programs and settings of all attempts of a build.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct BuildSettings {
    /// The package tree.
    pub pkgsrc: String,
    /// The tree's make program.
    pub make: String,
    /// The prefix where packages are installed.
    pub prefix: String,
    /// The database of installed packages.
    pub pkgdb: String,
    /// Contains the binary packages in `All`.
    pub packages: String,
    /// Contains a directory for each package, with one for each attempt.
    pub logs: String,
    /// The archive or directory that fills an empty prefix.
    pub bootstrapkit: String,
    pub pkg_add: String,
    pub pkg_delete: String,
    /// MAKE_JOBS.
    pub make_jobs: usize,
    /// Make wrappers, if packages share job tokens.
    pub make_wrappers: Option<MakeWrappers>,
    /// The suffix of binary packages.
    pub suffix: String,
    /// The user that configures and builds, if it can be another one.
    pub user: Option<String>,
    /// Environment variables from the configuration.
    pub environment: BTreeMap<String, String>,
    /// Values of make variables that each make would determine.
    pub platform_vars: Vec<String>,
    /// Only one user exists, which appears as root.
    pub one_user: bool,
    /// The unprivileged user also fetches and verifies distfiles.
    pub unprivileged_checksum: bool,
    /// `None`: packages are built on the host.
    pub sandbox: Option<Sandbox>,
    /// Bytes of scratch memory for each package; `None`: packages write on the disk.
    pub memory: Option<u64>,
    /// The number of packages built at a time; 0: as many as the runner allows.
    pub clients: usize,
    /// The directory of work directories in a sandbox.
    pub wrkobjdir: String,
    pub distdir: String,
    pub fetching: Fetching,
    /// The path of Tanto itself.
    pub program: String,
    pub keep_wrkdir: bool,
    pub keep_prefix: bool,
    /// A shell line that runs in the sandbox first.
    pub prepare_action: String,
    /// A hook that runs before a package gets its place; empty: none.
    pub sync_package: String,
    /// A hook that runs after a package has failed; empty: none.
    pub sync_buildlog: String,
    /// Limits of stages.
    pub limits: BTreeMap<Stage, Limits>,
}

impl BuildSettings {
    /// Returns the settings that follow from the configuration alone: packages are built on the host, as its current user.
    pub fn new(config: &Config) -> BuildSettings {
        BuildSettings {
            pkgsrc: config.pkgsrc.clone(),
            make: config.make.clone(),
            prefix: config.prefix.clone(),
            pkgdb: config.pkgdb.clone(),
            packages: config.packages.clone(),
            logs: config.bulklog.clone(),
            bootstrapkit: config.bootstrapkit.clone(),
            pkg_add: config.pkg_add.clone(),
            pkg_delete: config.pkg_delete.clone(),
            make_jobs: make_jobs(config),
            suffix: config.pkg_sufx.clone(),
            unprivileged_checksum: config.use_unprivileged_checksum,
            environment: config.environment.clone(),
            wrkobjdir: config.wrkobjdir.clone(),
            distdir: config.distdir.clone(),
            fetching: Fetching {
                lock: format!("{}/fetching", config.state),
                master_site_override: config.master_site_override.clone(),
                ignore_interactive_fetch: config.ignore_interactive_fetch,
                post_fetch_hook: config.post_fetch_hook.clone(),
            },
            keep_wrkdir: config.keep_wrkdir,
            keep_prefix: config.keep_prefix,
            prepare_action: config.client_prepare_action.clone(),
            sync_package: config.sync_package.clone(),
            sync_buildlog: config.sync_buildlog.clone(),
            limits: Stage::ALL.into_iter().map(|stage| (stage, config.limits(stage.name()))).collect(),
            ..BuildSettings::default()
        }
    }

    /// Returns the scratch memory of a package, if there is any.
    pub fn scratch_memory(&self) -> Option<ScratchMemory> {
        // The build stage needs the most memory.
        let limit = self.limits.get(&Stage::Build).and_then(|limits| limits.memory);
        self.memory.map(|size| ScratchMemory { size, limit })
    }

    /// Returns the name of a package's file.
    pub fn package_file(&self, package: &str) -> String {
        format!("{package}{}", self.suffix)
    }

    /// Clears `one_user` if the tree builds unprivileged: packages need no other users then. `location`: any package.
    pub fn check_unprivileged(&mut self, location: &str) {
        let Some(sandbox) = self.sandbox.as_ref().filter(|_| self.one_user) else { return };
        let (dir, make) = (quoted(format!("{}/{location}", self.pkgsrc)), quoted(&self.make));
        let output = sandbox.output_of(&format!("cd {dir} && {make} show-var VARNAME=UNPRIVILEGED"));
        self.one_user = !output.is_ok_and(|output| output.trim().eq_ignore_ascii_case("yes"));
    }
}

/// Memory for files written by a package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScratchMemory {
    /// Bytes of files.
    pub size: u64,
    /// Bytes of files and of its processes together.
    pub limit: Option<u64>,
}

/// Settings of fetching.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetching {
    /// The lock file of distfiles.
    pub lock: String,
    /// MASTER_SITE_OVERRIDE; empty: none.
    pub master_site_override: String,
    /// IGNORE_INTERACTIVE_FETCH.
    pub ignore_interactive_fetch: bool,
    /// A hook that runs for each new file; empty: none.
    pub post_fetch_hook: String,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    pub(crate) fn nowhere() -> BuildSettings {
        let text = "pkgsrc = 'src'\nprefix = 'pkg'\npkgdb = 'pkg/db'\nbulklog = 'logs'\nbootstrapkit = 'kit.tgz'\nmake_jobs = 1\n";
        let config = Config::read(text, Path::new("/")).unwrap();
        BuildSettings { program: "tanto".into(), ..BuildSettings::new(&config) }
    }
}
