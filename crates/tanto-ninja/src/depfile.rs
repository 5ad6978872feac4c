//! Parses depfiles: makefile rules as written by gcc, clang and other compilers.

use std::borrow::Cow;

use hashbrown::HashTable;

use crate::error::Result;
use crate::hash::rapidhash as hash;

/// Targets and prerequisites of all rules, unescaped, in order, without duplicates.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Depfile<'a> {
    pub outs: Vec<Cow<'a, [u8]>>,
    pub ins: Vec<Cow<'a, [u8]>>,
}

/// Errors have ninja's wording.
pub fn parse(text: &[u8]) -> Result<Depfile<'_>> {
    let mut parser = Parser { words: Words { text, at: 0 }, ..Parser::default() };
    while let Some(word) = parser.words.next() {
        parser.word(word)?;
    }
    if !parser.any_colon && parser.any_name {
        return Err("expected ':' in depfile".into());
    }
    Ok(Depfile { outs: parser.outs.list, ins: parser.ins.list })
}

#[derive(Default)]
struct Parser<'a> {
    words: Words<'a>,
    outs: Names<'a>,
    ins: Names<'a>,
    any_colon: bool,
    any_name: bool,
    /// The parser is after the colon of a rule.
    in_prerequisites: bool,
    /// The target is a prerequisite of an earlier rule, as with `-MP`; it must not have prerequisites itself.
    target_is_input: bool,
}

impl<'a> Parser<'a> {
    fn word(&mut self, word: Word<'a>) -> Result<()> {
        let mut name = word.name;
        let is_input = self.in_prerequisites;
        if name.last() == Some(&b':') {
            name = without_last(name);
            self.in_prerequisites = true;
            self.any_colon = true;
        }
        if !name.is_empty() {
            self.any_name = true;
            self.add(name, is_input)?;
        }
        if word.ends_line {
            self.in_prerequisites = false;
            self.target_is_input = false;
        }
        Ok(())
    }

    fn add(&mut self, name: Cow<'a, [u8]>, is_input: bool) -> Result<()> {
        match (self.ins.contains(&name), is_input) {
            (true, true) => {}
            (true, false) => self.target_is_input = true,
            (false, true) if self.target_is_input => return Err("inputs may not also have inputs".into()),
            (false, true) => self.ins.add(name),
            (false, false) if self.outs.contains(&name) => {}
            (false, false) => self.outs.add(name),
        }
        Ok(())
    }
}

fn without_last(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(&name[..name.len() - 1]),
        Cow::Owned(mut name) => {
            name.pop();
            Cow::Owned(name)
        }
    }
}

/// Names in order of appearance, with a hash index: depfiles with thousands of headers are common.
#[derive(Default)]
struct Names<'a> {
    list: Vec<Cow<'a, [u8]>>,
    index: HashTable<u32>,
}

impl<'a> Names<'a> {
    fn contains(&self, name: &[u8]) -> bool {
        self.index.find(hash(name), |&at| *self.list[at as usize] == *name).is_some()
    }

    fn add(&mut self, name: Cow<'a, [u8]>) {
        let at = self.list.len() as u32;
        self.index.insert_unique(hash(&name), at, |&at| hash(&self.list[at as usize]));
        self.list.push(name);
    }
}

/// A name, up to a blank or line end.
struct Word<'a> {
    name: Cow<'a, [u8]>,
    ends_line: bool,
}

/// The names of a depfile, including empty ones.
#[derive(Default)]
struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

/// The continuation after a part of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    More,
    NameEnds,
    LineEnds,
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        if self.at >= self.text.len() {
            return None;
        }
        let mut name = Name { text: self.text, begin: 0, end: 0, owned: None };
        loop {
            match self.part(&mut name) {
                Then::More => {}
                then => return Some(Word { name: name.finish(), ends_line: then == Then::LineEnds }),
            }
        }
    }
}

impl<'a> Words<'a> {
    /// Returns NUL after the end.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Skips `length` bytes and ends the name.
    fn end(&mut self, length: usize, then: Then) -> Then {
        self.at += length;
        then
    }

    fn part(&mut self, name: &mut Name<'a>) -> Then {
        let rest = &self.text[self.at.min(self.text.len())..];
        let plain = rest.iter().position(|&b| !PLAIN[b as usize]).unwrap_or(rest.len());
        if plain > 0 {
            name.add(self.at, self.at + plain);
            self.at += plain;
            return Then::More;
        }
        match (self.byte(self.at), self.byte(self.at + 1)) {
            (b'\\', _) => self.backslashes(name),
            (b'$', b'$') => {
                self.at += 2;
                name.add(self.at - 1, self.at);
                Then::More
            }
            (b'\n', _) => self.end(1, Then::LineEnds),
            (b'\r', b'\n') => self.end(2, Then::LineEnds),
            _ => self.end(1, Then::NameEnds),
        }
    }

    /// A backslash escapes a blank, `#` or `:`, and continues a line before a line end. Others are literal.
    fn backslashes(&mut self, name: &mut Name<'a>) -> Then {
        let begin = self.at;
        let count = self.text[begin..].iter().take_while(|&&b| b == b'\\').count();
        let end = begin + count;
        match (self.byte(end), self.byte(end + 1)) {
            (b' ', _) if count % 2 == 1 => {
                name.add(end - count / 2, end + 1);
                self.end(count + 1, Then::More)
            }
            (b' ', _) => {
                name.add(begin, end);
                self.end(count + 1, Then::NameEnds)
            }
            // The unescaped colon after a target.
            (b':', after @ (0 | b' ' | b'\r' | b'\n' | b'\t')) => {
                name.add(begin, end + 1);
                self.end(count + 2, if after == b'\n' { Then::LineEnds } else { Then::NameEnds })
            }
            (b'#' | b':', _) => {
                name.add(begin + 1, end + 1);
                self.end(count + 1, Then::More)
            }
            (b'\n', _) if count == 1 => self.end(2, Then::NameEnds),
            (b'\r', b'\n') if count == 1 => self.end(3, Then::NameEnds),
            (0 | b'\r' | b'\n', _) if count == 1 => self.end(1, Then::NameEnds),
            (0 | b'\r' | b'\n', _) => {
                name.add(begin, end);
                self.end(count, Then::More)
            }
            _ => {
                name.add(begin, end + 1);
                self.end(count + 1, Then::More)
            }
        }
    }
}

/// A name being parsed; borrows from the text while possible.
struct Name<'a> {
    text: &'a [u8],
    begin: usize,
    end: usize,
    owned: Option<Vec<u8>>,
}

impl<'a> Name<'a> {
    /// Appends a range of the text.
    fn add(&mut self, begin: usize, end: usize) {
        if let Some(owned) = &mut self.owned {
            owned.extend_from_slice(&self.text[begin..end]);
        } else if self.begin == self.end {
            (self.begin, self.end) = (begin, end);
        } else if self.end == begin {
            self.end = end;
        } else {
            self.owned = Some([&self.text[self.begin..self.end], &self.text[begin..end]].concat());
        }
    }

    fn finish(self) -> Cow<'a, [u8]> {
        match self.owned {
            Some(owned) => Cow::Owned(owned),
            None => Cow::Borrowed(&self.text[self.begin..self.end]),
        }
    }
}

/// Bytes without special meaning.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        plain[byte] = b.is_ascii_alphanumeric() || b >= 0x80;
        byte += 1;
    }
    let others = b"+?\"'&,/_:.~()}{%=@[]!-";
    let mut at = 0;
    while at < others.len() {
        plain[others[at] as usize] = true;
        at += 1;
    }
    plain
};

#[cfg(test)]
mod tests;
