//! What a bulk build is told: one TOML file, with pbulk's names where they mean the same. Does not know where the file
//! is, nor who obeys.

mod keys;
pub mod pbulk;
mod read;
mod stage;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tanto_exec::job::ResourceLimits;

pub use self::keys::{KEYS, Key};
pub use self::read::{ConfigError, ConfigProblem};
pub use self::stage::Stage;

/// What `sandbox` says if there is to be none.
pub const NO_SANDBOX: &str = "none";

/// The variable that names a file with settings of the tree.
const MAKECONF: &str = "MAKECONF";

/// All settings. Paths are absolute once the file was read from a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The package tree.
    pub pkgsrc: String,
    /// The program that reads its makefiles: bmake.
    pub make: String,
    /// Where packages are installed.
    pub prefix: String,
    /// The database of what is installed.
    pub pkgdb: String,
    /// Binary packages are in `All` below it.
    pub packages: String,
    /// Logs of packages.
    pub bulklog: String,
    /// Where Tanto keeps its own state.
    pub state: String,
    /// What an empty prefix is made from; empty: nothing.
    pub bootstrapkit: String,
    /// Installs packages.
    pub pkg_add: String,
    /// Removes packages.
    pub pkg_delete: String,
    /// Ends the names of binary packages.
    pub pkg_sufx: String,
    /// A file that names the directories that are wanted; empty: the whole tree.
    pub limited_list: String,
    /// What was scanned is not scanned again while nothing has changed that it depends on.
    pub reuse_scan_results: bool,
    /// Who configures and builds when Tanto is root.
    pub unprivileged_user: String,
    /// Files are fetched and checked as that user too.
    pub use_unprivileged_checksum: bool,
    /// Scans at a time; 0: as many as there are processors.
    pub scan_clients: usize,
    /// Job tokens for all packages together; 0: as many as there are processors.
    pub jobs: usize,
    /// MAKE_JOBS for each package; 0: as many as there are tokens.
    pub make_jobs: usize,
    /// In what packages are built.
    pub sandbox: String,
    /// Packages that need what is not there do not stop the others.
    pub ignore_missing_dependencies: bool,
    /// A package is up to date though another that it was built with is newer.
    pub skip_age_check: bool,
    /// A package is out of date if it was built with other options or settings of `mk.conf`.
    pub rebuild_on_options: bool,
    /// Run at the beginning of a bulk build; empty: nothing.
    pub script_phase_pre_build: String,
    /// The system that packages see.
    pub sandbox_root: String,
    /// How much a package may write in memory.
    pub scratch_size: Scratch,
    /// What a package needs comes as layers.
    pub layers: bool,
    /// How many bytes of layers are kept; none: any number.
    pub layers_size: Option<u64>,
    /// Where work directories are in a sandbox.
    pub wrkobjdir: String,
    /// Where fetched files are.
    pub distdir: String,
    /// Where files are fetched from before all other places; empty: nowhere.
    pub master_site_override: String,
    /// What a user would have to fetch is fetched all the same.
    pub ignore_interactive_fetch: bool,
    /// Run for each file that was fetched; empty: nothing.
    pub post_fetch_hook: String,
    /// What a failed package's work directory had is kept.
    pub keep_wrkdir: bool,
    /// What was in the prefix when a package failed is kept.
    pub keep_prefix: bool,
    /// Packages at a time; 0: as many as there are processors.
    pub build_clients: usize,
    /// Run when a sandbox is mounted, outside; empty: nothing.
    pub client_prepare_chroot: String,
    /// Run when a sandbox is mounted, inside; empty: nothing.
    pub client_prepare_action: String,
    /// Run for each package that was built, before it gets its place; empty: nothing.
    pub sync_package: String,
    /// Run for each package that has failed; empty: nothing.
    pub sync_buildlog: String,
    /// Run before the scan; empty: nothing.
    pub script_phase_scan: String,
    /// Run before packages are built; empty: nothing.
    pub script_phase_build: String,
    /// Run when the build is over; empty: nothing.
    pub script_phase_report: String,
    /// Run after that; empty: nothing.
    pub script_phase_upload: String,
    /// Where reports can be read, once they are published.
    pub base_url: String,
    /// Copies packages and reports to a server.
    pub rsync: String,
    /// Its arguments for packages.
    pub pkg_rsync_args: String,
    /// Where packages go; empty: nowhere.
    pub pkg_rsync_target: String,
    /// Its arguments for reports.
    pub report_rsync_args: String,
    /// Where reports go; empty: nowhere.
    pub report_rsync_target: String,
    /// Sends letters.
    pub mail: String,
    /// Begins the subjects of reports.
    pub report_subject_prefix: String,
    /// Who gets reports; empty: nobody.
    pub report_recipients: String,
    /// Makes a signature; empty: packages are not signed.
    pub sign_command: String,
    /// Who runs that where Tanto is root.
    pub sign_user: String,
    /// The directory with the key.
    pub sign_keys: String,
    /// A file with the public keys or certificates that signatures are verified with; empty: those of `sign_keys`.
    pub sign_public_key: String,
    /// Signed packages are in `All` below it.
    pub signed: String,
    /// For stages that have none of their own.
    pub limits: Limits,
    /// All those of single stages, of which something is said.
    pub stages: BTreeMap<String, Limits>,
    /// Environment variables of scans and builds, besides those that they have anyway.
    pub environment: BTreeMap<String, String>,
}

/// Whoever still holds the output of a command that has ended may say so much longer what there is to say.
const LINGER_MS: i64 = 2_000;

/// How much a package may write in memory; one that writes more does so on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scratch {
    /// As much as there is room for when a build begins.
    Auto,
    /// Nothing.
    Disk,
    /// So many bytes.
    Most(u64),
}

/// How a sandbox shows the template's directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SandboxKind {
    /// Read-only bind mounts, with private directories for what is written.
    Bind,
    /// An overlay above each directory takes what is written.
    Overlay,
    /// Like `Bind`, with the template copied into memory.
    Tmpfs,
}

impl SandboxKind {
    pub const ALL: [SandboxKind; 3] = [SandboxKind::Bind, SandboxKind::Overlay, SandboxKind::Tmpfs];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            SandboxKind::Bind => "bind",
            SandboxKind::Overlay => "overlay",
            SandboxKind::Tmpfs => "tmpfs",
        }
    }

    pub fn named(name: &str) -> Option<SandboxKind> {
        SandboxKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// When a command is ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Limits {
    /// After so many milliseconds without a new process, processor time or output.
    pub hang_ms: Option<i64>,
    /// After so many milliseconds.
    pub total_ms: Option<i64>,
    /// After so many milliseconds of processor time, of all its processes.
    pub cpu_ms: Option<i64>,
    /// When these hold more memory, in bytes.
    pub memory: Option<u64>,
    /// When it has printed more bytes.
    pub log: Option<u64>,
    /// When its package has written more bytes, as far as they are still there.
    pub disk: Option<u64>,
}

impl Limits {
    /// As the monitor wants them.
    pub fn watched(self) -> ResourceLimits {
        ResourceLimits {
            hang_ms: self.hang_ms,
            total_ms: self.total_ms,
            cpu_ms: self.cpu_ms,
            memory_kib: self.memory.map(|bytes| bytes / 1024),
            output_bytes: self.log,
            disk_kib: self.disk.map(|bytes| bytes / 1024),
            linger_ms: Some(LINGER_MS),
            sample: true,
            ..ResourceLimits::NONE
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            pkgsrc: "/usr/pkgsrc".into(),
            make: "bmake".into(),
            prefix: "/usr/pkg".into(),
            pkgdb: "/var/db/pkg".into(),
            packages: "packages".into(),
            bulklog: "bulklog".into(),
            state: "state".into(),
            bootstrapkit: String::new(),
            pkg_add: "pkg_add".into(),
            pkg_delete: "pkg_delete".into(),
            pkg_sufx: ".tgz".into(),
            limited_list: String::new(),
            reuse_scan_results: true,
            unprivileged_user: "pbulk".into(),
            use_unprivileged_checksum: false,
            scan_clients: 0,
            jobs: 0,
            make_jobs: 0,
            sandbox: "bind".into(),
            ignore_missing_dependencies: false,
            skip_age_check: false,
            rebuild_on_options: false,
            script_phase_pre_build: String::new(),
            sandbox_root: "/".into(),
            scratch_size: Scratch::Auto,
            layers: true,
            layers_size: Some(20 << 30),
            wrkobjdir: "/scratch".into(),
            distdir: "distfiles".into(),
            master_site_override: String::new(),
            ignore_interactive_fetch: false,
            post_fetch_hook: String::new(),
            keep_wrkdir: false,
            keep_prefix: false,
            build_clients: 0,
            client_prepare_chroot: String::new(),
            client_prepare_action: String::new(),
            sync_package: String::new(),
            sync_buildlog: String::new(),
            script_phase_scan: String::new(),
            script_phase_build: String::new(),
            script_phase_report: String::new(),
            script_phase_upload: String::new(),
            base_url: String::new(),
            rsync: "rsync".into(),
            pkg_rsync_args: "-av --delete-excluded --delay-updates -e ssh".into(),
            pkg_rsync_target: String::new(),
            report_rsync_args: "-avz --delete-excluded -e ssh".into(),
            report_rsync_target: String::new(),
            mail: "mail".into(),
            report_subject_prefix: "pkgsrc".into(),
            report_recipients: String::new(),
            sign_command: String::new(),
            sign_user: String::new(),
            sign_keys: String::new(),
            sign_public_key: String::new(),
            signed: "signed".into(),
            limits: Limits { hang_ms: Some(30 * 60_000), log: Some(1 << 30), ..Limits::default() },
            stages: BTreeMap::new(),
            environment: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads a file's text. Relative paths are taken from `dir`, which is absolute.
    pub fn read(text: &str, dir: &Path) -> Result<Config, ConfigError> {
        let mut config = read::read(text)?;
        config.settle(dir);
        Ok(config)
    }

    /// The file that says all of this, with a line on each key.
    pub fn text(&self) -> String {
        write::text(self)
    }

    /// When a command of this stage (or of `scan`) is ended.
    pub fn limits(&self, stage: &str) -> Limits {
        self.stages.get(stage).copied().unwrap_or(self.limits)
    }

    /// The directory `meta` beside the logs.
    pub fn meta_dir(&self) -> PathBuf {
        Path::new(&self.bulklog).join("meta")
    }

    /// The file with the settings of the tree that MAKECONF names.
    pub fn makeconf(&self) -> Option<PathBuf> {
        let inherited = || std::env::var_os(MAKECONF).map(PathBuf::from);
        self.environment.get(MAKECONF).map(PathBuf::from).or_else(inherited)
    }

    fn settle(&mut self, dir: &Path) {
        let absolute = |value: &mut String| *value = dir.join(&*value).to_string_lossy().into_owned();
        for key in KEYS {
            match key.field {
                keys::Field::Path(field) if !field(self).is_empty() => absolute(field(self)),
                // A name alone is looked for in PATH.
                keys::Field::Program(field) if field(self).contains('/') => absolute(field(self)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, (usize, String)> {
        Config::read(text, Path::new("/here")).map_err(|wrong| (wrong.at, wrong.problem.to_string()))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let defaults = Config::default();
        let mut settled = defaults.clone();
        settled.settle(Path::new("/here"));
        assert_eq!(read(&defaults.text()), Ok(settled.clone()));
        assert_eq!(read(""), Ok(settled));
        let text = defaults.text();
        assert!(KEYS.iter().all(|key| text.contains(&format!("\n{} = ", key.name))));
        let odd = Config {
            make: "a \"b\" \\ c".into(),
            limits: Limits { total_ms: Some(5_430_000), memory: Some(3 << 30), ..Limits::default() },
            scratch_size: Scratch::Most(1536 << 20),
            ..defaults
        };
        let again = read(&odd.text()).unwrap();
        assert_eq!((again.make, again.limits, again.scratch_size), (odd.make, odd.limits, odd.scratch_size));
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let config = read("pkgsrc = \"tree\"\nmake = \"bin/bmake\"\nprefix = \"/pkg\"").unwrap();
        assert_eq!((&*config.pkgsrc, &*config.make), ("/here/tree", "/here/bin/bmake"));
        assert_eq!((&*config.prefix, &*config.pkg_add, &*config.limited_list), ("/pkg", "pkg_add", ""));
    }

    #[test]
    fn stages_have_limits_of_their_own() {
        // Tables come after all keys, as TOML has it, but may say what a key has said.
        let stages = "[stage.scan]\ntimeout = \"1h30m\"\n[stage.build]\nmemory_limit = \"8G\"\nlog_limit = \"0\"\n";
        let config =
            read(&format!("hang_timeout = \"10m\"\nlog_limit = \"64M\"\ndisk_limit = \"1T\"\n{stages}")).unwrap();
        let all = Limits { hang_ms: Some(600_000), log: Some(64 << 20), disk: Some(1 << 40), ..Limits::default() };
        assert_eq!(config.limits("scan"), Limits { total_ms: Some(5_400_000), ..all });
        assert_eq!(config.limits("build"), Limits { memory: Some(8 << 30), log: None, ..all });
        assert_eq!(config.limits("configure"), all);
    }

    #[test]
    fn variables_are_read_and_written() {
        let config = read("[environment]\nhttp_proxy = \"http://p:1/\"\n_A1 = \"x \\\"y\\\"\"\n").unwrap();
        let all: Vec<(&str, &str)> = config.environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(all, [("_A1", "x \"y\""), ("http_proxy", "http://p:1/")]);
        assert_eq!(read(&config.text()).unwrap().environment, config.environment);
    }

    #[test]
    fn what_a_stage_may_take_is_told_to_the_monitor() {
        let limits =
            read("cpu_limit = \"1h\"\nmemory_limit = \"2G\"\nlog_limit = \"1M\"\ndisk_limit = \"3G\"").unwrap().limits;
        let watched = limits.watched();
        assert_eq!((watched.cpu_ms, watched.memory_kib), (Some(3_600_000), Some(2 << 20)));
        assert_eq!((watched.output_bytes, watched.disk_kib, watched.sample), (Some(1 << 20), Some(3 << 20), true));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at, why) in [
            ("pkgsrc = \"x\"\npkgscr = \"y\"", 13, "unknown key 'pkgscr'"),
            ("reuse_scan_results = \"yes\"", 21, "expected true or false"),
            ("scan_clients = -1", 15, "expected a number from 0 to 4096"),
            ("scan_clients = 5000", 15, "expected a number from 0 to 4096"),
            ("make = 1", 7, "expected a text in quotes"),
            ("make = \"\"", 7, "this cannot be empty"),
            ("timeout = \"soon\"", 10, "expected a time such as \"90s\" or \"1h30m\", \"0\" for none"),
            ("scratch_size = \"big\"", 15, "expected a size such as \"512M\" or \"8G\", \"0\" for none, or \"auto\""),
            (
                "sandbox = \"chroot\"",
                10,
                "there is no such sandbox; there are \"bind\", \"overlay\", \"tmpfs\" and \"none\"",
            ),
            ("[stage.scna]\ntimeout = \"1s\"", 7, "unknown stage 'scna'"),
            ("[stage.scan]\ntimeuot = \"1s\"", 13, "unknown key 'timeuot'"),
            ("[stage.build]\nmake = \"1s\"", 14, "unknown key 'make'"),
            ("[stage.clean]\ndisk_limit = \"1G\"", 14, "unknown key 'disk_limit'"),
            ("[stage.scan]\ndisk_limit = \"1G\"", 13, "unknown key 'disk_limit'"),
            ("stage = 1", 8, "expected a table [stage.NAME]"),
            ("environment = 1", 14, "expected a table [environment]"),
            ("[environment]\nA = 1", 18, "expected a text in quotes"),
            ("[environment]\n\"A-B\" = \"1\"", 14, "a variable's name has letters, digits and '_' only"),
        ] {
            assert_eq!(read(text), Err((at, why.to_owned())), "{text}");
        }
        assert_eq!(read("pkgsrc = ").unwrap_err().0, 9);
        assert_eq!(read("pkgsrc = \"a\"\npkgsrc = \"b\"").unwrap_err().0, 13);
    }
}
