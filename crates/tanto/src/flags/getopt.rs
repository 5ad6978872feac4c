//! Takes a command line apart as glibc's `getopt_long` does, which is how ninja reads its own: operands may stand
//! between flags, letters may be bundled, long names abbreviated. Does not know what a flag does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::flags::table::{FLAGS, Flag};

/// A command line being taken apart.
pub struct Getopt<'a> {
    args: &'a [OsString],
    /// Next argument to look at.
    next: usize,
    /// What is left of a bundle of letters.
    bundle: &'a [u8],
    operands: Vec<&'a OsString>,
    /// The first operand ends the flags (`POSIXLY_CORRECT` in the environment).
    posix: bool,
}

/// What is wrong with a command line, as `getopt_long` words it, without the program's name in front.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bad(pub Vec<u8>);

impl Bad {
    fn of(parts: &[&[u8]]) -> Self {
        Bad(parts.concat())
    }
}

/// A flag of the command line, and its value; empty for a flag without one.
pub type Found<'a> = (&'static Flag, &'a [u8]);

impl<'a> Getopt<'a> {
    /// `args` are those after the program's name.
    pub fn new(args: &'a [OsString], posix: bool) -> Self {
        Getopt { args, next: 0, bundle: b"", operands: Vec::new(), posix }
    }

    /// The next flag, or `None` when only operands are left.
    pub fn flag(&mut self) -> Result<Option<Found<'a>>, Bad> {
        if !self.bundle.is_empty() {
            return self.letter().map(Some);
        }
        while let Some(arg) = self.args.get(self.next) {
            self.next += 1;
            match arg.as_bytes() {
                b"--" => break,
                [b'-', b'-', long @ ..] => return self.long(long).map(Some),
                [b'-', bundle @ ..] if !bundle.is_empty() => {
                    self.bundle = bundle;
                    return self.letter().map(Some);
                }
                _ => self.operands.push(arg),
            }
            if self.posix {
                break;
            }
        }
        self.operands.extend(self.rest());
        self.next = self.args.len();
        Ok(None)
    }

    /// The argument that held the last flag or its value, for those who stop at a flag.
    pub fn last(&self) -> &'a [u8] {
        match self.next.checked_sub(1).and_then(|at| self.args.get(at)) {
            Some(arg) => arg.as_bytes(),
            None => b"",
        }
    }

    /// The arguments not looked at yet.
    pub fn rest(&self) -> &'a [OsString] {
        &self.args[self.next..]
    }

    /// What is no flag, in order. Complete when `flag` has said `None`.
    pub fn into_operands(self) -> Vec<&'a OsString> {
        self.operands
    }

    fn letter(&mut self) -> Result<Found<'a>, Bad> {
        let (letter, left) = (self.bundle[0], &self.bundle[1..]);
        self.bundle = b"";
        let Some(flag) = FLAGS.iter().find(|flag| flag.short == Some(letter)) else {
            return Err(Bad::of(&[b"invalid option -- '", &[letter], b"'"]));
        };
        if flag.value.is_none() {
            self.bundle = left;
            return Ok((flag, b""));
        }
        if !left.is_empty() {
            return Ok((flag, left));
        }
        match self.argument() {
            Some(value) => Ok((flag, value)),
            None => Err(Bad::of(&[b"option requires an argument -- '", &[letter], b"'"])),
        }
    }

    fn long(&mut self, text: &'a [u8]) -> Result<Found<'a>, Bad> {
        let (name, value) = match position_of_equals(text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let flag = find_long(name, text)?;
        let full = flag.long.unwrap_or_default().as_bytes();
        match (flag.value, value) {
            (None, None) => Ok((flag, b"")),
            (None, Some(_)) => Err(Bad::of(&[b"option '--", full, b"' doesn't allow an argument"])),
            (Some(_), Some(value)) => Ok((flag, value)),
            (Some(_), None) => match self.argument() {
                Some(value) => Ok((flag, value)),
                None => Err(Bad::of(&[b"option '--", full, b"' requires an argument"])),
            },
        }
    }

    fn argument(&mut self) -> Option<&'a [u8]> {
        let value = self.args.get(self.next)?;
        self.next += 1;
        Some(value.as_bytes())
    }
}

fn position_of_equals(text: &[u8]) -> Option<usize> {
    text.iter().position(|&byte| byte == b'=')
}

/// The flag with this long name, or the only one whose name begins with it. `text` is the name with its value, which
/// is what messages quote.
fn find_long(name: &[u8], text: &[u8]) -> Result<&'static Flag, Bad> {
    let named = || FLAGS.iter().filter_map(|flag| Some((flag, flag.long?)));
    if let Some((flag, _)) = named().find(|(_, long)| long.as_bytes() == name) {
        return Ok(flag);
    }
    let mut meant = named().filter(|(_, long)| long.as_bytes().starts_with(name));
    match (meant.next(), meant.next()) {
        (Some((flag, _)), None) => Ok(flag),
        (None, _) => Err(Bad::of(&[b"unrecognized option '--", text, b"'"])),
        (Some(_), Some(_)) => Err(ambiguous(name, text)),
    }
}

fn ambiguous(name: &[u8], text: &[u8]) -> Bad {
    let mut message = [b"option '--", text, b"' is ambiguous; possibilities:"].concat();
    let names = FLAGS.iter().filter_map(|flag| flag.long).filter(|long| long.as_bytes().starts_with(name));
    for long in names {
        message.extend_from_slice(format!(" '--{long}'").as_bytes());
    }
    Bad(message)
}
