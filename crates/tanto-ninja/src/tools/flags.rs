//! The options of tools: collects them with their values.

use crate::getopt::{Bad, Flag, Getopt, is_posix};

/// A flag with a short name, a long name or both.
pub struct Plain {
    letter: Option<u8>,
    name: Option<&'static str>,
    takes_value: bool,
}

pub const fn letter(letter: u8) -> Plain {
    Plain { letter: Some(letter), name: None, takes_value: false }
}

pub const fn name(name: &'static str) -> Plain {
    Plain { letter: None, name: Some(name), takes_value: false }
}

pub const fn both(letter: u8, name: &'static str) -> Plain {
    Plain { letter: Some(letter), name: Some(name), takes_value: false }
}

impl Plain {
    pub const fn with_value(self) -> Plain {
        Plain { takes_value: true, ..self }
    }

    /// `key` is the long or the short name.
    fn is(&self, key: &str) -> bool {
        self.name == Some(key) || matches!(key.as_bytes(), [letter] if self.letter == Some(*letter))
    }
}

impl Flag for Plain {
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

/// The parsed command line.
#[derive(Default)]
pub struct Given {
    /// Flags with their values, in order.
    flags: Vec<(&'static Plain, Vec<u8>)>,
    pub operands: Vec<Vec<u8>>,
}

impl Given {
    /// Stops at `-h`.
    pub fn read(known: &'static [Plain], args: &[Vec<u8>]) -> Result<Given, Bad> {
        let mut getopt = Getopt::new(known, args, is_posix());
        let mut given = Given::default();
        while let Some((flag, value)) = getopt.flag()? {
            given.flags.push((flag, value.to_vec()));
            if flag.is("h") {
                return Ok(given);
            }
        }
        given.operands = getopt.into_operands();
        Ok(given)
    }

    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The flag's last value.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.flags.iter().rev().find(|(flag, _)| flag.is(key)).map(|(_, value)| value.as_slice())
    }
}
