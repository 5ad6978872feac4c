//! Settings from the command line, environment variables and config files.
//!
//! In order of precedence: the command line, `TANTO_FLAGS`, the variable of a single setting, `.tanto/config` of the
//! build directory, the user's config file.

pub mod config;
pub mod declaration;
mod error;
pub mod flags;
pub mod modes;
mod ninja_help;
mod options;
pub mod parser;
pub mod values;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_ninja::getopt;
use tanto_sys::fs::state_dir::{StateDirs, StateLocation};

use self::declaration::{Layer, SPAWN_VARIABLE, VARIABLES};
pub use self::error::CommandLineError;
pub use self::options::Options;
use self::parser::{LowArgs, OptionParser};
use crate::invocation::Invocation;

/// The variable that holds options.
pub const FLAGS_VARIABLE: &str = "TANTO_FLAGS";

/// Larger config files are refused.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// The source of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    Default,
    CommandLine,
    Variable(&'static str),
    /// A line, counted from 1, of a config file.
    File(ConfigFile, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigFile {
    /// `.tanto/config` of the build directory.
    Build,
    User,
}

/// A value and its source.
#[derive(Clone, PartialEq, Debug)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Returns whether the value is not the default.
    pub fn is_set(&self) -> bool {
        self.origin != Origin::Default
    }

    pub fn is_on_command_line(&self) -> bool {
        self.origin == Origin::CommandLine
    }
}

/// The environment variables that settings depend on.
#[derive(Clone, Default, Debug)]
pub struct EnvVars(Vec<(&'static str, OsString)>);

impl EnvVars {
    pub fn of_process() -> Self {
        let names = VARIABLES.iter().map(|&(name, _)| name);
        let names = names.chain([FLAGS_VARIABLE, "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"]);
        EnvVars(names.filter_map(|name| Some((name, std::env::var_os(name)?))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        // 0 and the empty text count as unset.
        if name == SPAWN_VARIABLE && (value.is_empty() || value == "0") { None } else { Some(value) }
    }

    /// Returns the user's config file; `None` without a home. A relative `XDG_CONFIG_HOME` is ignored, as its
    /// specification demands.
    pub fn user_file(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config").map(|base| base.join("tanto/config"))
    }

    /// Returns the user's cache directory; `None` without a home.
    pub fn cache(&self) -> Option<PathBuf> {
        self.base("XDG_CACHE_HOME", ".cache")
    }

    fn base(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let absolute = |name: &str| self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(in_home)))
    }

    /// Returns the state directories of a build directory (`None`: the current one), as tanto.
    pub fn state(&self, dir: Option<&[u8]>) -> StateDirs {
        StateDirs::of(
            Path::new(OsStr::from_bytes(dir.unwrap_or_default())),
            self.cache().as_deref(),
            StateLocation::Tree,
        )
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&'static str, &str); N]> for EnvVars {
    fn from(variables: [(&'static str, &str); N]) -> EnvVars {
        EnvVars(variables.map(|(name, value)| (name, value.into())).into())
    }
}

/// Returns the config file of a build directory, relative to the initial working directory.
pub fn build_file(dir: Option<&[u8]>) -> PathBuf {
    Path::new(OsStr::from_bytes(dir.unwrap_or_default())).join(".tanto/config")
}

/// Reads the command line after `argv[0]` and all other sources. `warn` gets early warnings.
pub fn options(
    invocation: Invocation,
    args: &[Vec<u8>],
    around: &EnvVars,
    warn: &mut dyn FnMut(&[u8]),
) -> Result<Options, CommandLineError> {
    let posix = !args.is_empty() && getopt::is_posix();
    let typed = OptionParser { invocation, origin: Origin::CommandLine, posix, warn }.read(args)?;
    Ok(Options::of(invocation, under(typed, around, warn)?, around.cache()))
}

/// Adds the settings of all other sources to the typed options.
fn under(typed: LowArgs, around: &EnvVars, warn: &mut dyn FnMut(&[u8])) -> Result<LowArgs, CommandLineError> {
    let mut low = typed;
    if let Some(text) = around.get(FLAGS_VARIABLE) {
        low = low.over(variable_flags(text, warn).map_err(in_flags_variable)?);
    }
    let build = read(&build_file(low.dir.as_deref()), ConfigFile::Build)?;
    let user = match around.user_file() {
        Some(path) => read(&path, ConfigFile::User)?,
        None => Layer::default(),
    };
    low.layer = low.layer.over(Layer::of_variables(around)?).over(build).over(user);
    Ok(low)
}

fn variable_flags(text: &OsStr, warn: &mut dyn FnMut(&[u8])) -> Result<LowArgs, CommandLineError> {
    let words = words::split(text.as_bytes()).ok_or(CommandLineError::UnclosedQuote)?;
    let mut reader =
        OptionParser { invocation: Invocation::Tanto, origin: Origin::Variable(FLAGS_VARIABLE), posix: false, warn };
    let low = reader.read(&words)?;
    match low.targets.first() {
        Some(target) => Err(CommandLineError::NotAnOption(target.clone())),
        None => Ok(low),
    }
}

fn in_flags_variable(error: CommandLineError) -> CommandLineError {
    match error {
        CommandLineError::List { .. } => error,
        error => CommandLineError::InFlagsVariable(Box::new(error)),
    }
}

fn read(path: &Path, file: ConfigFile) -> Result<Layer, CommandLineError> {
    match contents(path) {
        Ok(text) => {
            config::parse(&text, file).map_err(|error| CommandLineError::Config { path: path.to_path_buf(), error })
        }
        Err(error) if is_ignored(error.kind(), file) => Ok(Layer::default()),
        Err(cause) => Err(CommandLineError::ReadConfig { path: path.to_path_buf(), cause }),
    }
}

/// Missing files are ignored. So is a user's file without permission: daemons often run with another user's `HOME`.
fn is_ignored(kind: ErrorKind, file: ConfigFile) -> bool {
    match kind {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        ErrorKind::PermissionDenied => file == ConfigFile::User,
        _ => false,
    }
}

fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(std::io::Error::other(format!("larger than {} KiB", MAX_CONFIG_BYTES / 1024)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
