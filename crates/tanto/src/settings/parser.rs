//! The parser of `ninja`'s and `tanto build`'s options, also in `TANTO_FLAGS`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tanto_ninja::getopt::Getopt;
use tanto_ninja::tools::Tool;

use super::flags::{self, Flag, Id, Reach};
use crate::invocation::Invocation;
use crate::settings::CommandLineError;
use crate::settings::Origin;
use crate::settings::declaration::Layer;
use crate::settings::modes::{self, Debug, Warning};

/// A `-t` tool and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    pub tool: &'static Tool,
    /// The argument that named it (`clean`, or `-tclean`), for its messages.
    pub argv0: Vec<u8>,
    pub args: Vec<Vec<u8>>,
}

/// The command whose output is shown while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowTarget {
    /// The longest-running one.
    Longest,
    /// The one that makes this target.
    Target(Vec<u8>),
}

/// Options as typed, without defaults.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct LowArgs {
    /// `-C`
    pub dir: Option<Vec<u8>>,
    /// `-f`
    pub manifest: Option<Vec<u8>>,
    /// `-n`
    pub dry_run: bool,
    /// `-d`
    pub debug: Debug,
    /// `-w phonycycle=`
    pub phony_cycle_is_error: Option<bool>,
    /// `-t`
    pub tool: Option<ToolCall>,
    /// `--watch`
    pub watch: bool,
    /// `--follow`
    pub follow: Option<FollowTarget>,
    /// `--again`
    pub again: bool,
    /// `--trace`
    pub trace: Option<PathBuf>,
    /// Those that are settings.
    pub layer: Layer,
    pub targets: Vec<Vec<u8>>,
}

impl LowArgs {
    /// Adds options of lower precedence. Takes no directory, tool or target from them.
    pub fn over(self, below: LowArgs) -> LowArgs {
        LowArgs {
            dry_run: self.dry_run || below.dry_run,
            debug: self.debug.or(below.debug),
            phony_cycle_is_error: self.phony_cycle_is_error.or(below.phony_cycle_is_error),
            layer: self.layer.over(below.layer),
            ..self
        }
    }
}

pub struct OptionParser<'w> {
    pub invocation: Invocation,
    /// The command line, or the variable with the options.
    pub origin: Origin,
    /// The first target ends the options.
    pub posix: bool,
    pub warn: &'w mut dyn FnMut(&[u8]),
}

impl OptionParser<'_> {
    /// Parses all of `args`, without the program's name.
    pub fn read(&mut self, args: &[Vec<u8>]) -> Result<LowArgs, CommandLineError> {
        let mut low = LowArgs::default();
        let mut getopt = Getopt::new(flags::of_invocation(self.invocation), args, self.posix);
        while let Some((flag, value)) = getopt.flag().map_err(CommandLineError::Usage)? {
            if flag.id == Id::Tool && self.origin == Origin::CommandLine {
                if low.watch {
                    return Err(CommandLineError::WatchWithTool);
                }
                low.tool = Some(tool_call(value, &getopt)?);
                // Targets before the tool are dropped, as in ninja.
                return Ok(low);
            }
            self.take(&mut low, flag, value)?;
        }
        low.targets = getopt.into_operands();
        Ok(low)
    }

    fn take(&mut self, low: &mut LowArgs, flag: &'static Flag, value: &[u8]) -> Result<(), CommandLineError> {
        if flag.reach == Reach::Command && self.origin != Origin::CommandLine {
            return Err(CommandLineError::CommandLineOnly(flag));
        }
        match flag.id {
            Id::Help => return Err(CommandLineError::Help),
            Id::Version => return Err(CommandLineError::Version),
            Id::Directory => low.dir = Some(value.to_vec()),
            Id::Manifest => low.manifest = Some(value.to_vec()),
            Id::DryRun => low.dry_run = true,
            Id::Debug => low.debug.enable(value)?,
            Id::Warning => self.warning(low, value)?,
            Id::Tool => {}
            Id::Watch => low.watch = true,
            Id::Follow if value.is_empty() => low.follow = Some(FollowTarget::Longest),
            Id::Follow => low.follow = Some(FollowTarget::Target(value.to_vec())),
            Id::Again => low.again = true,
            Id::Trace => low.trace = Some(OsStr::from_bytes(value).into()),
            Id::Verbose | Id::Quiet => self.set(low, flag, b"yes")?,
            _ => self.set(low, flag, value)?,
        }
        Ok(())
    }

    fn set(&self, low: &mut LowArgs, flag: &'static Flag, value: &[u8]) -> Result<(), CommandLineError> {
        let is_valid = low.layer.set(flag.id, value, self.origin);
        is_valid.then_some(()).ok_or(CommandLineError::InvalidValue(flag))
    }

    fn warning(&mut self, low: &mut LowArgs, word: &[u8]) -> Result<(), CommandLineError> {
        match modes::warning(word)? {
            Warning::PhonyCycle { is_error } => low.phony_cycle_is_error = Some(is_error),
            Warning::Deprecated(name) => (self.warn)(format!("deprecated warning '{name}'").as_bytes()),
        }
        Ok(())
    }
}

fn tool_call(name: &[u8], getopt: &Getopt<'_, Flag>) -> Result<ToolCall, CommandLineError> {
    Ok(ToolCall { tool: modes::tool(name)?, argv0: getopt.last().to_vec(), args: getopt.rest().to_vec() })
}
