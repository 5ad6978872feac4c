//! The flags of measurements: one table for the parser and the help texts. Does not know what a flag does.

use tanto_ninja::getopt::{self, Bad, Getopt};

/// One flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flag {
    /// Its letter, after one dash.
    pub letter: Option<u8>,
    /// Its name, after two dashes.
    pub name: &'static str,
    /// What help texts call its value, if it has one.
    pub value: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
}

/// Asks for help.
pub const HELP: Flag = Flag { letter: Some(b'h'), name: "help", value: None, doc: "show this" };

impl getopt::Flag for Flag {
    fn letter(&self) -> Option<u8> {
        self.letter
    }

    fn name(&self) -> Option<&'static str> {
        Some(self.name)
    }

    fn takes_value(&self) -> bool {
        self.value.is_some()
    }
}

impl Flag {
    /// A flag without a letter.
    pub const fn new(name: &'static str, value: Option<&'static str>, doc: &'static str) -> Flag {
        Flag { letter: None, name, value, doc }
    }

    /// As help texts show it: `-j, --jobs LIST`.
    pub fn label(&self) -> String {
        let letter = self.letter.map(|letter| format!("-{}, ", char::from(letter))).unwrap_or_default();
        let value = self.value.map(|value| format!(" {value}")).unwrap_or_default();
        format!("{letter}--{}{value}", self.name)
    }
}

/// Takes a command line apart: each flag with its value goes to `take`, what is no flag is returned. Flags end where
/// the first other word stands. None: help was asked for.
pub fn read(
    known: &'static [Flag],
    words: &[Vec<u8>],
    mut take: impl FnMut(&'static Flag, &[u8]) -> Result<(), Vec<u8>>,
) -> Result<Option<Vec<Vec<u8>>>, Vec<u8>> {
    let mut getopt = Getopt::new(known, words, true);
    while let Some((flag, value)) = getopt.flag().map_err(Bad::with_hint)? {
        if flag.name == HELP.name {
            return Ok(None);
        }
        take(flag, value)?;
    }
    Ok(Some(getopt.into_operands()))
}

/// What is said of a value that a flag does not take.
pub fn wrong(flag: &Flag, expected: &str) -> Vec<u8> {
    format!("invalid --{} parameter: expected {expected}", flag.name).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    static KNOWN: [Flag; 3] = [
        HELP,
        Flag { letter: Some(b'j'), name: "jobs", value: Some("LIST"), doc: "" },
        Flag::new("drop-caches", None, ""),
    ];

    type Taken = (Vec<(String, String)>, Option<Vec<Vec<u8>>>);

    fn taken(line: &str) -> Result<Taken, String> {
        let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.into()).collect();
        let mut flags = Vec::new();
        let rest = read(&KNOWN, &words, |flag, value| {
            flags.push((flag.name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            if value == b"bad" { Err(wrong(flag, "better")) } else { Ok(()) }
        });
        rest.map(|rest| (flags, rest)).map_err(|why| String::from_utf8_lossy(&why).into_owned())
    }

    #[test]
    fn flags_end_where_the_command_begins() {
        let (flags, rest) = taken("-j1..4 --drop-caches -- make -j{jobs}").unwrap();
        assert_eq!(flags, [("jobs".into(), "1..4".into()), ("drop-caches".into(), String::new())]);
        assert_eq!(rest.unwrap(), [b"make".to_vec(), b"-j{jobs}".to_vec()]);
        assert_eq!(taken("--help").unwrap().1, None);
        assert_eq!(taken("-x").unwrap_err(), "invalid option -- 'x'");
        assert_eq!(taken("-j bad").unwrap_err(), "invalid --jobs parameter: expected better");
    }

    #[test]
    fn labels_show_letter_and_value() {
        assert_eq!(KNOWN.map(|flag| flag.label()), ["-h, --help", "-j, --jobs LIST", "--drop-caches"]);
    }
}
