//! Settings of a bulk build, from one TOML file with pbulk's names where they mean the same.

mod client;
pub mod file;
mod keys;
mod lease_times;
pub mod pbulk;
mod read;
mod stage;
mod write;

use std::path::{Path, PathBuf};

use tanto_exec::job::ResourceLimits;

pub use self::client::ClientFiles;
pub use self::keys::{Config, KEYS, Key};
pub use self::read::{ConfigError, ConfigProblem};
pub use self::stage::Stage;

/// The value of `sandbox` that turns sandboxes off.
pub const NO_SANDBOX: &str = "none";

/// The variable that names the file with settings of the tree.
const MAKECONF: &str = "MAKECONF";

/// How long the output of an ended command may stay open, in milliseconds.
const LINGER_MS: i64 = 2_000;

/// The limit of files in memory. Packages that exceed it are moved to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scratch {
    /// From the free memory at the start.
    Auto,
    Disk,
    /// Bytes.
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

/// Limits of a command, which is killed beyond them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Milliseconds without a new process, CPU time or output.
    pub hang_ms: Option<i64>,
    /// Milliseconds.
    pub total_ms: Option<i64>,
    /// Milliseconds of CPU time of all its processes.
    pub cpu_ms: Option<i64>,
    /// Bytes of memory of all its processes.
    pub memory: Option<u64>,
    /// Bytes of output.
    pub log: Option<u64>,
    /// Bytes of files that its package has written and not removed.
    pub disk: Option<u64>,
}

impl Limits {
    /// Converts the limits for the process monitor.
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

impl Config {
    /// Parses a configuration. Relative paths are resolved in `dir`, which is absolute.
    pub fn read(text: &str, dir: &Path) -> Result<Config, ConfigError> {
        let mut config = read::read(text)?;
        config.settle(dir);
        Ok(config)
    }

    /// Formats the configuration, with a comment for each key.
    pub fn text(&self) -> String {
        write::text(self)
    }

    /// Formats the keys that packages can see, for clients on other machines.
    pub fn shared(&self) -> String {
        write::shared(self)
    }

    /// Reads the text of `shared` as the configuration of a client.
    pub fn for_client(shared: &str, files: &ClientFiles<'_>) -> Result<Config, ConfigError> {
        client::read(shared, files)
    }

    /// The directory of the server for clients on other machines.
    pub fn server_dir(&self) -> PathBuf {
        match self.server_dir.as_str() {
            "" => Path::new(&self.state).join("serve"),
            dir => PathBuf::from(dir),
        }
    }

    /// The directory with the package tree.
    pub fn tree_dir(&self) -> &str {
        self.tree_source.as_deref().unwrap_or(&self.pkgsrc)
    }

    /// Returns the limits of a stage, or of `scan`.
    pub fn limits(&self, stage: &str) -> Limits {
        self.stages.get(stage).copied().unwrap_or(self.limits)
    }

    /// The directory `meta` beside the logs.
    pub fn meta_dir(&self) -> PathBuf {
        Path::new(&self.bulklog).join("meta")
    }

    /// The file that MAKECONF names.
    pub fn makeconf(&self) -> Option<PathBuf> {
        let inherited = || std::env::var_os(MAKECONF).map(PathBuf::from);
        self.environment.get(MAKECONF).map(PathBuf::from).or_else(inherited)
    }

    fn settle(&mut self, dir: &Path) {
        let absolute = |value: &mut String| *value = dir.join(&*value).to_string_lossy().into_owned();
        for key in KEYS {
            match key.field {
                keys::Field::Path(field) if !field(self).is_empty() => absolute(field(self)),
                // A bare name is found in PATH.
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
    fn configuration_round_trips() {
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
        // TOML tables come after all keys, but may set keys that they follow.
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
    fn urls_are_read_and_written() {
        for url in ["", "http://cache:8080/cas/", "https://[::1]/cas"] {
            let config = read(&format!("blobs = \"{url}\"\n")).unwrap();
            assert_eq!((&*config.blobs, &*read(&config.text()).unwrap().blobs), (url, url));
        }
    }

    #[test]
    fn labels_are_read_and_written() {
        let config = read("labels = [\"big\", \"x86\"]\n[place]\n\"lang/ghc*\" = \"big\"\nrust = \"fast\"\n").unwrap();
        let place: Vec<(&str, &str)> = config.place.iter().map(|(pattern, label)| (&**pattern, &**label)).collect();
        assert_eq!(
            (&config.labels[..], place),
            (&["big".into(), "x86".into()][..], vec![("lang/ghc*", "big"), ("rust", "fast")])
        );
        let again = read(&config.text()).unwrap();
        assert_eq!((again.labels, again.place), (config.labels.clone(), config.place.clone()));
        assert!(!config.shared().contains("place"), "clients need no patterns");
    }

    #[test]
    fn trusted_clients_are_read_and_written() {
        let config = read("trusted = [\"builder-1\", \"b2\"]\ntrust_reach = 100\n").unwrap();
        assert_eq!((&config.trusted[..], config.trust_reach), (&["builder-1".to_owned(), "b2".to_owned()][..], 100));
        let again = read(&config.text()).unwrap();
        assert_eq!((again.trusted, again.trust_reach), (config.trusted.clone(), 100));
        assert!(!config.shared().contains("trust"), "clients need not know");
    }

    #[test]
    fn shares_are_read_and_written() {
        let verify = |text: &str| read(&format!("verify = {text}\n")).map(|config| config.verify).ok();
        let good = ["\"2%\"", "\"0.25%\"", "\"12.5%\"", "\"100%\"", "\"0%\"", "\"100.00%\""].map(verify);
        assert_eq!(good, [Some(200), Some(25), Some(1250), Some(10_000), Some(0), Some(10_000)]);
        let bad = ["2", "\"2\"", "\"101%\"", "\"100.01%\"", "\"-1%\"", "\"1.%\"", "\".5%\"", "\"0.125%\"", "\"%\""];
        assert_eq!(bad.map(verify), [None; 9]);
        for verify in [0, 25, 1250, 10_000] {
            let config = Config { verify, ..Config::default() };
            assert_eq!(read(&config.text()).map(|it| it.verify), Ok(verify));
            assert!(!config.shared().contains("verify"), "clients need not know");
        }
    }

    #[test]
    fn limits_are_passed_to_the_monitor() {
        let limits =
            read("cpu_limit = \"1h\"\nmemory_limit = \"2G\"\nlog_limit = \"1M\"\ndisk_limit = \"3G\"").unwrap().limits;
        let watched = limits.watched();
        assert_eq!((watched.cpu_ms, watched.memory_kib), (Some(3_600_000), Some(2 << 20)));
        assert_eq!((watched.output_bytes, watched.disk_kib, watched.sample), (Some(1 << 20), Some(3 << 20), true));
    }

    #[test]
    fn errors_have_an_offset() {
        for (text, at, why) in [
            ("pkgsrc = \"x\"\npkgscr = \"y\"", 13, "unknown key 'pkgscr'"),
            ("reuse_scan_results = \"yes\"", 21, "expected true or false"),
            ("scan_clients = -1", 15, "expected a number from 0 to 4096"),
            ("scan_clients = 5000", 15, "expected a number from 0 to 4096"),
            ("make = 1", 7, "expected a string in quotes"),
            ("make = \"\"", 7, "expected a non-empty value"),
            ("timeout = \"soon\"", 10, "expected a time such as \"90s\" or \"1h30m\", \"0\" for none"),
            ("scratch_size = \"big\"", 15, "expected a size such as \"512M\" or \"8G\", \"0\" for none, or \"auto\""),
            ("sandbox = \"chroot\"", 10, "expected \"bind\", \"overlay\", \"tmpfs\" or \"none\""),
            ("[stage.scna]\ntimeout = \"1s\"", 7, "unknown stage 'scna'"),
            ("[stage.scan]\ntimeuot = \"1s\"", 13, "unknown key 'timeuot'"),
            ("[stage.build]\nmake = \"1s\"", 14, "unknown key 'make'"),
            ("[stage.clean]\ndisk_limit = \"1G\"", 14, "unknown key 'disk_limit'"),
            ("[stage.scan]\ndisk_limit = \"1G\"", 13, "unknown key 'disk_limit'"),
            ("stage = 1", 8, "expected a table [stage.NAME]"),
            ("client_heartbeat = \"0\"", 19, "expected a time from 1s to 10m"),
            ("client_heartbeat = \"11m\"", 19, "expected a time from 1s to 10m"),
            ("client_heartbeat = \"1m\"", 19, "client_lost_after, 1m, is less than three heartbeats"),
            ("client_lost_after = \"29s\"", 20, "client_lost_after, 29s, is less than three heartbeats"),
            ("client_lost_after = \"0\"", 20, "expected a time from 3s to 24h"),
            ("client_restart_max = \"8d\"", 21, "expected a time from 1s to 168h"),
            ("client_restart_min = \"1h\"", 21, "client_restart_min is more than client_restart_max, 30m"),
            ("blobs = \"ftp://a/\"", 8, "expected a URL such as \"http://cache.example.org/cas\""),
            ("blobs = \"https:///cas\"", 8, "expected a URL such as \"http://cache.example.org/cas\""),
            ("blobs = \"http://user@a/cas\"", 8, "expected a URL such as \"http://cache.example.org/cas\""),
            ("labels = \"big\"", 9, "expected a list such as [\"big\"]"),
            ("labels = [\"Big\"]", 10, "expected a name of 1 to 63 of a-z, 0-9, '.', '_' and '-'"),
            ("place = 1", 8, "expected a table [place]"),
            ("[place]\na = 1", 12, "expected a string in quotes"),
            ("environment = 1", 14, "expected a table [environment]"),
            ("[environment]\nA = 1", 18, "expected a string in quotes"),
            ("[environment]\n\"A-B\" = \"1\"", 14, "expected a variable name of letters, digits and '_'"),
        ] {
            assert_eq!(read(text), Err((at, why.to_owned())), "{text}");
        }
        assert_eq!(read("pkgsrc = ").unwrap_err().0, 9);
        assert_eq!(read("pkgsrc = \"a\"\npkgsrc = \"b\"").unwrap_err().0, 13);
    }
}
