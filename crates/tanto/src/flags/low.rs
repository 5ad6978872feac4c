//! Flags as typed: read from words into fields, with nothing decided. Does not know defaults, nor config files.

use tanto_ninja::getopt::Getopt;
use tanto_ninja::tools::Tool;

use crate::flags::door::Door;
use crate::flags::modes::{self, Debug, Warning};
use crate::flags::stop::Halt;
use crate::flags::table::{self, Flag, Id, Reach};
use crate::settings::layer::{Layer, Origin};

/// A `-t` tool, and what it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// Which.
    pub tool: &'static Tool,
    /// What its messages call it: the argument that named it (`clean`, or `-tclean`).
    pub argv0: Vec<u8>,
    /// What follows.
    pub args: Vec<Vec<u8>>,
}

/// The command whose output is shown while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Followed {
    /// The one that has run longest.
    Longest,
    /// The one that makes this target.
    Target(Vec<u8>),
}

/// What was typed.
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
    pub follow: Option<Followed>,
    /// What config files could have said too.
    pub layer: Layer,
    /// What is no flag.
    pub targets: Vec<Vec<u8>>,
}

impl LowArgs {
    /// These words over others, which can hold no place, no tool and no target.
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

/// Reads words into `LowArgs`.
pub struct Reader<'w> {
    /// Which flags there are.
    pub door: Door,
    /// `Origin::Flag`, or the variable that the words come from.
    pub origin: Origin,
    /// The first target ends the flags.
    pub posix: bool,
    /// Takes a warning that need not end the program.
    pub warn: &'w mut dyn FnMut(&[u8]),
}

impl Reader<'_> {
    /// Reads all of `args`, which do not begin with the program's name.
    pub fn read(&mut self, args: &[Vec<u8>]) -> Result<LowArgs, Halt> {
        let mut low = LowArgs::default();
        let mut getopt = Getopt::new(table::known(self.door), args, self.posix);
        while let Some((flag, value)) = getopt.flag().map_err(Halt::Usage)? {
            if flag.id == Id::Tool && self.origin == Origin::Flag {
                if low.watch {
                    return Err(Halt::Fatal(b"--watch is for builds, not for a tool (-t)".to_vec()));
                }
                low.tool = Some(tool_call(value, &getopt)?);
                // What stood before the tool is dropped, as ninja drops it.
                return Ok(low);
            }
            self.take(&mut low, flag, value)?;
        }
        low.targets = getopt.into_operands();
        Ok(low)
    }

    fn take(&mut self, low: &mut LowArgs, flag: &'static Flag, value: &[u8]) -> Result<(), Halt> {
        if flag.reach == Reach::Command && self.origin != Origin::Flag {
            return Err(Halt::Fatal(format!("{} goes on the command line only", flag.names()).into_bytes()));
        }
        match flag.id {
            Id::Help => return Err(Halt::Help),
            Id::Version => return Err(Halt::Version),
            Id::Directory => low.dir = Some(value.to_vec()),
            Id::Manifest => low.manifest = Some(value.to_vec()),
            Id::DryRun => low.dry_run = true,
            Id::Debug => low.debug.enable(value)?,
            Id::Warning => self.warning(low, value)?,
            Id::Tool => {}
            Id::Watch => low.watch = true,
            Id::Follow if value.is_empty() => low.follow = Some(Followed::Longest),
            Id::Follow => low.follow = Some(Followed::Target(value.to_vec())),
            Id::Verbose | Id::Quiet => self.say(low, flag, b"yes")?,
            Id::Status
            | Id::Jobs
            | Id::KeepGoing
            | Id::MaxLoad
            | Id::LogVersion
            | Id::Format
            | Id::Memory
            | Id::Record => {
                self.say(low, flag, value)?;
            }
            Id::HangTimeout | Id::Timeout | Id::Leftovers | Id::Jobserver => self.say(low, flag, value)?,
            Id::ClangWorker | Id::Checkpoints | Id::VerifyCheckpoints => self.say(low, flag, value)?,
        }
        Ok(())
    }

    fn say(&self, low: &mut LowArgs, flag: &'static Flag, value: &[u8]) -> Result<(), Halt> {
        if low.layer.say(flag.id, value, self.origin) {
            return Ok(());
        }
        Err(Halt::Fatal(wrong_value(flag)))
    }

    fn warning(&mut self, low: &mut LowArgs, word: &[u8]) -> Result<(), Halt> {
        match modes::warning(word)? {
            Warning::PhonyCycle { is_error } => low.phony_cycle_is_error = Some(is_error),
            Warning::Deprecated(name) => (self.warn)(format!("deprecated warning '{name}'").as_bytes()),
        }
        Ok(())
    }
}

fn tool_call(name: &[u8], getopt: &Getopt<'_, Flag>) -> Result<ToolCall, Halt> {
    Ok(ToolCall { tool: modes::tool(name)?, argv0: getopt.last().to_vec(), args: getopt.rest().to_vec() })
}

/// What ninja says of a wrong value; our own flags say what they expect.
pub fn wrong_value(flag: &Flag) -> Vec<u8> {
    match flag.id {
        Id::Jobs => "invalid -j parameter".into(),
        Id::KeepGoing => "-k parameter not numeric; did you mean -k 0?".into(),
        Id::MaxLoad => "-l parameter not numeric: did you mean -l 0.0?".into(),
        _ => {
            let expected = flag.value.map_or("nothing", |value| value.expected);
            format!("invalid {} parameter: expected {expected}", flag.names()).into_bytes()
        }
    }
}
