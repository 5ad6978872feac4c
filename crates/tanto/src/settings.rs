//! The settings: who may say what, whose word counts, and what holds if nobody says anything. Does not know what a
//! setting changes.
//!
//! The command line goes first, then `TANTO_FLAGS`, then a setting's own variable (`NINJA_STATUS`,
//! `TANTO_LOG_VERSION`, `TANTO_THREADS`, `TANTO_SNAPSHOT`, `TANTO_SPAWN_CC1`), then `.tanto/config` of the build directory, then the user's config file.

pub mod config;
pub mod layer;
pub mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_exec::monitor::watcher::Leftovers;
use tanto_ninja::getopt::Bad;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::fs::state_dir::{StateDirs, StateLocation};
use tanto_sys::threads::ThreadLimit;

use crate::flags::door::Door;
use crate::flags::low::{LowArgs, Reader};
use crate::flags::stop::Halt;
use crate::flags::table::{self, Id};
use crate::settings::layer::{
    ClangWorker, ConfigFile, Jobs, JobserverMode, Kept, Layer, Memory, Origin, Said, Shown, StatusFormat,
};

/// The variable that holds flags.
pub const FLAGS_VARIABLE: &str = "TANTO_FLAGS";
/// The variable that holds ninja's status format.
pub const STATUS_VARIABLE: &str = "NINJA_STATUS";
/// The variable that holds the version of a new log.
pub const LOG_VARIABLE: &str = "TANTO_LOG_VERSION";

/// The variable that limits our own threads.
pub const THREADS_VARIABLE: &str = "TANTO_THREADS";
/// The variable that says when snapshots are used.
pub const SNAPSHOT_VARIABLE: &str = "TANTO_SNAPSHOT";

/// The variable that, set to 1, has every compiler run as a process of its own.
pub const SPAWN_VARIABLE: &str = "TANTO_SPAWN_CC1";

/// What holds for the compile worker if nobody says anything. Whoever builds Tanto can set it: in this variable of the
/// build's environment, to a value of `--clang-worker`.
const WORKER_DEFAULT: Option<&str> = option_env!("TANTO_CLANG_WORKER_DEFAULT");

/// A config file that is larger is refused.
const LARGEST_FILE: u64 = 64 * 1024;

/// Each setting's value, and who said it.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// How many commands run at a time.
    pub jobs: Said<Jobs>,
    /// Failures until the build stops; `u32::MAX` for no limit.
    pub keep_going: Said<u32>,
    /// Above this load average no command is started; not above 0 for no limit.
    pub max_load: Said<f64>,
    /// How much is told.
    pub verbosity: Said<Verbosity>,
    /// What stands before each description.
    pub status: Said<StatusFormat>,
    /// The version of a new `.ninja_log`; `None` for that of the other ninja in `PATH`.
    pub log_version: Said<Option<u32>>,
    /// What a build shows.
    pub format: Said<Shown>,
    /// After how many milliseconds without a sign of life a command is ended, if at all.
    pub hang_timeout: Said<Option<i64>>,
    /// After how many milliseconds a command is ended, if at all.
    pub timeout: Said<Option<i64>>,
    /// What becomes of processes that outlive their command.
    pub leftovers: Said<Leftovers>,
    /// How commands share memory.
    pub memory: Said<Memory>,
    /// Whether the right to run commands is shared.
    pub jobserver: Said<JobserverMode>,
    /// Whether compilers run in the compile worker.
    pub clang_worker: Said<ClangWorker>,
    /// How many compiles are kept for the next build.
    pub checkpoints: Said<Kept>,
    /// Of so many that go on from there one is run twice; 0: none.
    pub verify_checkpoints: Said<u32>,
    /// How many threads of our own there may be.
    pub threads: Said<ThreadLimit>,
    /// When snapshots are used.
    pub snapshots: Said<SnapshotPolicy>,
    /// Records of builds are kept.
    pub record: Said<bool>,
}

impl Settings {
    /// What the sources say, over this door's defaults. This is the place where defaults are.
    pub fn of(layer: Layer, door: Door) -> Self {
        let (jobs, leftovers, memory, kept) = match door {
            Door::Ninja => (Jobs::ProcessorsAndMore, Leftovers::Ignore, Memory::Off, Kept::AtMost(0)),
            Door::Tanto => (Jobs::Processors, Leftovers::Report, Memory::Free, Kept::Auto),
        };
        Settings {
            jobs: or(layer.jobs, jobs),
            keep_going: or(layer.keep_going, 1),
            max_load: or(layer.max_load, 0.0),
            verbosity: or(layer.verbosity, Verbosity::Normal),
            status: layer.status.unwrap_or_else(|| Said {
                value: StatusFormat::Percent(b"[%f/%t] ".to_vec()),
                origin: Origin::Default,
            }),
            log_version: or(layer.log_version.map(|said| Said { value: Some(said.value), origin: said.origin }), None),
            format: or(layer.format, Shown::Auto),
            hang_timeout: or(layer.hang_timeout, None),
            timeout: or(layer.timeout, None),
            leftovers: or(layer.leftovers, leftovers),
            memory: or(layer.memory, memory),
            jobserver: or(layer.jobserver, JobserverMode::Auto),
            clang_worker: or(layer.clang_worker, worker_default()),
            checkpoints: or(layer.checkpoints, kept),
            verify_checkpoints: or(layer.verify_checkpoints, 0),
            threads: or(layer.threads, ThreadLimit::Auto),
            snapshots: or(layer.snapshots, SnapshotPolicy::Auto),
            record: or(layer.record, true),
        }
    }
}

fn worker_default() -> ClangWorker {
    WORKER_DEFAULT.and_then(|value| layer::clang_worker(value.as_bytes())).unwrap_or(ClangWorker::Auto)
}

fn or<T>(said: Option<Said<T>>, default: T) -> Said<T> {
    said.unwrap_or(Said { value: default, origin: Origin::Default })
}

/// What of the environment has a say.
#[derive(Clone, Default, Debug)]
pub struct Surroundings {
    /// `TANTO_FLAGS`
    pub flags: Option<OsString>,
    /// `NINJA_STATUS`
    pub ninja_status: Option<OsString>,
    /// `TANTO_LOG_VERSION`
    pub log_version: Option<OsString>,
    /// `TANTO_THREADS`
    pub threads: Option<OsString>,
    /// `TANTO_SNAPSHOT`
    pub snapshots: Option<OsString>,
    /// `TANTO_SPAWN_CC1`
    pub spawn_cc1: Option<OsString>,
    /// `XDG_CONFIG_HOME`
    pub config_home: Option<OsString>,
    /// `XDG_CACHE_HOME`
    pub cache_home: Option<OsString>,
    /// `HOME`
    pub home: Option<OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        Surroundings {
            flags: std::env::var_os(FLAGS_VARIABLE),
            ninja_status: std::env::var_os(STATUS_VARIABLE),
            log_version: std::env::var_os(LOG_VARIABLE),
            threads: std::env::var_os(THREADS_VARIABLE),
            snapshots: std::env::var_os(SNAPSHOT_VARIABLE),
            spawn_cc1: std::env::var_os(SPAWN_VARIABLE),
            config_home: std::env::var_os("XDG_CONFIG_HOME"),
            cache_home: std::env::var_os("XDG_CACHE_HOME"),
            home: std::env::var_os("HOME"),
        }
    }

    /// The user's config file; `None` if there is no home. A relative `XDG_CONFIG_HOME` counts as none, as its
    /// specification asks.
    pub fn user_file(&self) -> Option<PathBuf> {
        self.base(&self.config_home, ".config").map(|base| base.join("tanto/config"))
    }

    /// The user's cache directory, of all programs; `None` if there is no home.
    pub fn cache(&self) -> Option<PathBuf> {
        self.base(&self.cache_home, ".cache")
    }

    fn base(&self, named: &Option<OsString>, in_home: &str) -> Option<PathBuf> {
        let absolute = |path: &Option<OsString>| path.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(named).or_else(|| absolute(&self.home).map(|home| home.join(in_home)))
    }

    /// The state of a directory (none: the current one), for the commands of `tanto`.
    pub fn state(&self, dir: Option<&[u8]>) -> StateDirs {
        StateDirs::of(
            Path::new(OsStr::from_bytes(dir.unwrap_or_default())),
            self.cache().as_deref(),
            StateLocation::Tree,
        )
    }
}

/// The build directory's config file, as seen from the directory we were started in.
pub fn build_file(dir: Option<&[u8]>) -> PathBuf {
    Path::new(OsStr::from_bytes(dir.unwrap_or_default())).join(".tanto/config")
}

/// Puts what the other sources say under what was typed.
pub fn under(typed: LowArgs, around: &Surroundings, warn: &mut dyn FnMut(&[u8])) -> Result<LowArgs, Halt> {
    let mut low = typed;
    if let Some(text) = &around.flags {
        low = low.over(variable_flags(text, warn).map_err(blame_flags)?);
    }
    let build = read(&build_file(low.dir.as_deref()), ConfigFile::Build)?;
    let user = match around.user_file() {
        Some(path) => read(&path, ConfigFile::User)?,
        None => Layer::default(),
    };
    low.layer = low.layer.over(own_variables(around)?).over(build).over(user);
    Ok(low)
}

fn variable_flags(text: &OsStr, warn: &mut dyn FnMut(&[u8])) -> Result<LowArgs, Halt> {
    let words = words::split(text.as_bytes()).ok_or_else(|| Halt::Fatal("a quote is not closed".into()))?;
    let mut reader = Reader { door: Door::Tanto, origin: Origin::Variable(FLAGS_VARIABLE), posix: false, warn };
    let low = reader.read(&words)?;
    match low.targets.first() {
        Some(target) => Err(Halt::Fatal([b"'", &target[..], b"' is no flag"].concat())),
        None => Ok(low),
    }
}

fn blame_flags(halt: Halt) -> Halt {
    let blame = |message: Vec<u8>| [FLAGS_VARIABLE.as_bytes(), b": ", &message].concat();
    match halt {
        Halt::Usage(Bad { message, .. }) | Halt::Fatal(message) => Halt::Fatal(blame(message)),
        Halt::Error(message) => Halt::Error(blame(message)),
        Halt::Help | Halt::Version | Halt::Text { .. } => halt,
    }
}

/// The settings that have variables of their own.
fn own_variables(around: &Surroundings) -> Result<Layer, Halt> {
    let mut layer = Layer::default();
    if let Some(format) = &around.ninja_status {
        let value = StatusFormat::Percent(format.as_bytes().to_vec());
        layer.status = Some(Said { value, origin: Origin::Variable(STATUS_VARIABLE) });
    }
    if let Some(version) = &around.log_version
        && !layer.say(Id::LogVersion, version.as_bytes(), Origin::Variable(LOG_VARIABLE))
    {
        let expected = config::expected(table::flag(Id::LogVersion));
        return Err(Halt::Fatal(format!("{LOG_VARIABLE}: expected {expected}").into_bytes()));
    }
    if let Some(threads) = &around.threads
        && !layer.say_threads(threads.as_bytes(), Origin::Variable(THREADS_VARIABLE))
    {
        return Err(Halt::Fatal(format!("{THREADS_VARIABLE}: expected a number above 0").into_bytes()));
    }
    if let Some(policy) = &around.snapshots
        && !layer.say_snapshots(policy.as_bytes(), Origin::Variable(SNAPSHOT_VARIABLE))
    {
        return Err(Halt::Fatal(format!("{SNAPSHOT_VARIABLE}: expected 'auto', 'always' or 'off'").into_bytes()));
    }
    if around.spawn_cc1.as_ref().is_some_and(|value| !value.is_empty() && value != "0") {
        layer.clang_worker = Some(Said { value: ClangWorker::Off, origin: Origin::Variable(SPAWN_VARIABLE) });
    }
    Ok(layer)
}

fn read(path: &Path, file: ConfigFile) -> Result<Layer, Halt> {
    let shown = path.as_os_str().as_bytes();
    match contents(path) {
        Ok(text) => config::parse(shown, &text, file).map_err(Halt::Error),
        Err(error) if absent(error.kind(), file) => Ok(Layer::default()),
        Err(error) => Err(Halt::Error([b"reading ", shown, b": ", &tanto_sys::error::text(&error)].concat())),
    }
}

/// A file that is not there says nothing. Nor does a user's file that this process may not see: a daemon often runs
/// with somebody else's `HOME`.
fn absent(kind: ErrorKind, file: ConfigFile) -> bool {
    match kind {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => file == ConfigFile::User,
        _ => false,
    }
}

fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(std::io::Error::other(format!("larger than {} KiB", LARGEST_FILE / 1024)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
