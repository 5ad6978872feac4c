//! The values of `-d`, `-w` and `-t`, and their lists.

use tanto_ninja::tools::{self, Tool};

use crate::settings::CommandLineError;
use crate::settings::flags::WARNINGS;

/// Debugging modes (`-d`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Debug {
    pub stats: bool,
    pub explain: bool,
    pub keep_depfile: bool,
    pub keep_rsp: bool,
}

const DEBUG_LIST: &str = "debugging modes:
  stats        print operation counts/timing info
  explain      explain what caused a command to execute
  keepdepfile  don't delete depfiles after they're read by ninja
  keeprsp      don't delete @response files on success
multiple modes can be enabled via -d FOO -d BAR
";

const DEBUG_SETTINGS: &[&str] = &["stats", "explain", "keepdepfile", "keeprsp", "nostatcache"];

const WARNING_LIST: &str = "warning flags:
  phonycycle={err,warn}  phony build statement references itself
";

impl Debug {
    pub fn enable(&mut self, mode: &[u8]) -> Result<(), CommandLineError> {
        match mode {
            b"stats" => self.stats = true,
            b"explain" => self.explain = true,
            b"keepdepfile" => self.keep_depfile = true,
            b"keeprsp" => self.keep_rsp = true,
            // Turns off a cache that exists on Windows only.
            b"nostatcache" => {}
            b"list" => return Err(CommandLineError::List { text: DEBUG_LIST.into(), code: 1 }),
            _ => return Err(unknown("debug setting", mode, DEBUG_SETTINGS)),
        }
        Ok(())
    }

    /// The union of both.
    pub fn or(self, other: Debug) -> Debug {
        Debug {
            stats: self.stats || other.stats,
            explain: self.explain || other.explain,
            keep_depfile: self.keep_depfile || other.keep_depfile,
            keep_rsp: self.keep_rsp || other.keep_rsp,
        }
    }
}

/// A value of `-w`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warning {
    /// Whether a phony edge that names itself is an error.
    PhonyCycle { is_error: bool },
    /// Has no effect.
    Deprecated(&'static str),
}

pub fn warning(word: &[u8]) -> Result<Warning, CommandLineError> {
    match word {
        b"phonycycle=err" => Ok(Warning::PhonyCycle { is_error: true }),
        b"phonycycle=warn" => Ok(Warning::PhonyCycle { is_error: false }),
        b"dupbuild=err" | b"dupbuild=warn" => Ok(Warning::Deprecated("dupbuild")),
        b"depfilemulti=err" | b"depfilemulti=warn" => Ok(Warning::Deprecated("depfilemulti")),
        b"list" => Err(CommandLineError::List { text: WARNING_LIST.into(), code: 1 }),
        _ => Err(unknown("warning flag", word, WARNINGS)),
    }
}

pub fn tool(name: &[u8]) -> Result<&'static Tool, CommandLineError> {
    if name == b"list" {
        return Err(CommandLineError::List { text: tools::list(), code: 0 });
    }
    tools::find(name).map_err(CommandLineError::UnknownTool)
}

fn unknown(kind: &'static str, word: &[u8], known: &'static [&'static str]) -> CommandLineError {
    CommandLineError::UnknownMode { kind, word: word.to_vec(), known }
}
