//! What `-d`, `-w` and `-t` take: their words, their lists, and what an unknown word meant. Does not know what a
//! mode changes or how a tool answers.

use tanto_ninja::suggest;
use tanto_ninja::tools::{self, Tool};

use crate::flags::stop::Halt;

/// What `-d` switches on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Debug {
    /// Print operation counts and times at the end.
    pub stats: bool,
    /// Print why a command runs.
    pub explain: bool,
    /// Keep depfiles that were read.
    pub keep_depfile: bool,
    /// Keep response files on success.
    pub keep_rsp: bool,
}

const DEBUG_LIST: &str = "debugging modes:
  stats        print operation counts/timing info
  explain      explain what caused a command to execute
  keepdepfile  don't delete depfiles after they're read by ninja
  keeprsp      don't delete @response files on success
multiple modes can be enabled via -d FOO -d BAR
";

const WARNING_LIST: &str = "warning flags:
  phonycycle={err,warn}  phony build statement references itself
";

impl Debug {
    /// Switches on the mode `-d` names.
    pub fn enable(&mut self, mode: &[u8]) -> Result<(), Halt> {
        match mode {
            b"stats" => self.stats = true,
            b"explain" => self.explain = true,
            b"keepdepfile" => self.keep_depfile = true,
            b"keeprsp" => self.keep_rsp = true,
            // Windows has a cache that this turns off; here there is none.
            b"nostatcache" => {}
            b"list" => return Err(Halt::Text { text: DEBUG_LIST.into(), code: 1 }),
            _ => {
                let known = ["stats", "explain", "keepdepfile", "keeprsp", "nostatcache"];
                return Err(Halt::Error(unknown("debug setting", mode, known)));
            }
        }
        Ok(())
    }

    /// What is on here or there.
    pub fn or(self, other: Debug) -> Debug {
        Debug {
            stats: self.stats || other.stats,
            explain: self.explain || other.explain,
            keep_depfile: self.keep_depfile || other.keep_depfile,
            keep_rsp: self.keep_rsp || other.keep_rsp,
        }
    }
}

/// What a word after `-w` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warning {
    /// Is a phony edge that names itself an error?
    PhonyCycle { is_error: bool },
    /// Nothing any more; this is the warning's name.
    Deprecated(&'static str),
}

/// Reads a word after `-w`.
pub fn warning(word: &[u8]) -> Result<Warning, Halt> {
    match word {
        b"phonycycle=err" => Ok(Warning::PhonyCycle { is_error: true }),
        b"phonycycle=warn" => Ok(Warning::PhonyCycle { is_error: false }),
        b"dupbuild=err" | b"dupbuild=warn" => Ok(Warning::Deprecated("dupbuild")),
        b"depfilemulti=err" | b"depfilemulti=warn" => Ok(Warning::Deprecated("depfilemulti")),
        b"list" => Err(Halt::Text { text: WARNING_LIST.into(), code: 1 }),
        _ => Err(Halt::Error(unknown("warning flag", word, ["phonycycle=err", "phonycycle=warn"]))),
    }
}

/// The tool `-t` names.
pub fn tool(name: &[u8]) -> Result<&'static Tool, Halt> {
    if name == b"list" {
        return Err(Halt::Text { text: tools::list(), code: 0 });
    }
    tools::find(name).map_err(|error| Halt::Fatal(error.text().into_owned()))
}

/// `unknown KIND 'WORD', did you mean 'OTHER'?`
pub fn unknown(kind: &str, word: &[u8], known: impl IntoIterator<Item = &'static str>) -> Vec<u8> {
    let meant = suggest::did_you_mean(word, known.into_iter().map(str::as_bytes));
    [b"unknown ", kind.as_bytes(), b" '", word, b"'", &meant].concat()
}
