//! Which of a few flags were given, for tools and commands that need no more than that. Does not know what they mean.

use super::{Bad, Flag, Getopt, is_posix};

/// A flag that is no more than its letter, its name or both.
pub struct Plain {
    letter: Option<u8>,
    name: Option<&'static str>,
    takes_value: bool,
}

/// A flag with a letter alone.
pub const fn letter(letter: u8) -> Plain {
    Plain { letter: Some(letter), name: None, takes_value: false }
}

/// A flag with a long name alone.
pub const fn name(name: &'static str) -> Plain {
    Plain { letter: None, name: Some(name), takes_value: false }
}

/// A flag with both.
pub const fn both(letter: u8, name: &'static str) -> Plain {
    Plain { letter: Some(letter), name: Some(name), takes_value: false }
}

impl Plain {
    /// The same with a value.
    pub const fn with_value(self) -> Plain {
        Plain { takes_value: true, ..self }
    }

    /// `key` is the name or the letter.
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

/// What was given.
#[derive(Default)]
pub struct Given {
    /// Each flag with its value, in the order of the command line.
    flags: Vec<(&'static Plain, Vec<u8>)>,
    /// Everything else.
    pub operands: Vec<Vec<u8>>,
}

impl Given {
    /// Reads the arguments; after `-h` it does not matter what else there is.
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

    /// Was the flag of this name or letter given?
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// All values of the flag, in the order of the command line.
    pub fn values(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        self.flags.iter().filter(move |(flag, _)| flag.is(key)).map(|(_, value)| value.as_slice())
    }

    /// The flag's last value.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.flags.iter().rev().find(|(flag, _)| flag.is(key)).map(|(_, value)| value.as_slice())
    }
}
