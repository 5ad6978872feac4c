//! What a tool's flags are, and what becomes of a wrong one. Does not know what the flags mean.

use super::{Context, Stop};
use crate::getopt::{self, Bad, Getopt};

/// A flag of a tool.
pub(super) struct Flag {
    letter: Option<u8>,
    name: Option<&'static str>,
    takes_value: bool,
}

/// A flag with a letter alone.
pub(super) const fn letter(letter: u8) -> Flag {
    Flag { letter: Some(letter), name: None, takes_value: false }
}

/// A flag with a long name alone.
pub(super) const fn name(name: &'static str) -> Flag {
    Flag { letter: None, name: Some(name), takes_value: false }
}

/// A flag with both.
pub(super) const fn both(letter: u8, name: &'static str) -> Flag {
    Flag { letter: Some(letter), name: Some(name), takes_value: false }
}

impl Flag {
    pub(super) const fn with_value(self) -> Flag {
        Flag { takes_value: true, ..self }
    }

    /// `key` is the name or the letter.
    fn is(&self, key: &str) -> bool {
        self.name == Some(key) || matches!(key.as_bytes(), [letter] if self.letter == Some(*letter))
    }
}

impl getopt::Flag for Flag {
    fn letter(&self) -> Option<u8> {
        self.letter
    }

    fn name(&self) -> Option<&'static str> {
        self.name
    }

    fn takes_value(&self) -> bool {
        self.takes_value
    }
}

/// A tool's flags. `-h` asks for the usage in every tool.
pub(super) struct Flags {
    pub(super) known: &'static [Flag],
    /// Printed for `-h` and after a mistake.
    pub(super) usage: &'static str,
}

/// What was read.
pub(super) struct Parsed {
    /// Each flag with its value, in the order of the command line.
    flags: Vec<(&'static Flag, Vec<u8>)>,
    /// Everything else.
    pub(super) operands: Vec<Vec<u8>>,
}

impl Parsed {
    /// Was the flag of this name or letter given?
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The flag's last value.
    pub(super) fn value(&self, key: &str) -> Option<&[u8]> {
        self.flags.iter().rev().find(|(flag, _)| flag.is(key)).map(|(_, value)| value.as_slice())
    }
}

impl Flags {
    /// Reads the arguments. A mistake is reported as `getopt` does, by the name the tool was called.
    pub(super) fn parse(&self, context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Result<Parsed, Stop> {
        let mut getopt = Getopt::new(self.known, args, getopt::is_posix());
        let mut flags = Vec::new();
        loop {
            match getopt.flag() {
                Ok(Some((flag, _))) if flag.is("h") => return Err(Stop::Usage(self.usage)),
                Ok(Some((flag, value))) => flags.push((flag, value.to_vec())),
                Ok(None) => return Ok(Parsed { flags, operands: getopt.into_operands() }),
                Err(Bad(text)) => {
                    context.err.write_all(&[&context.options.called, b": ".as_slice(), &text, b"\n"].concat())?;
                    return Err(Stop::Usage(self.usage));
                }
            }
        }
    }
}
