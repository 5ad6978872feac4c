//! Lexer for manifests and dyndep files: tokens, names and raw values.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr3};

use super::path_scan;
use crate::error::{Error, Result};
use tanto_exec::text::suggest::{closest, distance};

/// A token at the beginning of a line or between paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Error,
    Build,
    Colon,
    Default,
    Equals,
    Ident,
    Include,
    Indent,
    Newline,
    Pipe,
    Pipe2,
    PipeAt,
    Pool,
    Rule,
    Subninja,
    Eof,
}

impl Token {
    /// The name in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Token::Error => "lexing error",
            Token::Build => "'build'",
            Token::Colon => "':'",
            Token::Default => "'default'",
            Token::Equals => "'='",
            Token::Ident => "identifier",
            Token::Include => "'include'",
            Token::Indent => "indent",
            Token::Newline => "newline",
            Token::Pipe => "'|'",
            Token::Pipe2 => "'||'",
            Token::PipeAt => "'|@'",
            Token::Pool => "'pool'",
            Token::Rule => "'rule'",
            Token::Subninja => "'subninja'",
            Token::Eof => "eof",
        }
    }

    fn of_word(word: &[u8]) -> Token {
        match word {
            b"build" => Token::Build,
            b"default" => Token::Default,
            b"include" => Token::Include,
            b"pool" => Token::Pool,
            b"rule" => Token::Rule,
            b"subninja" => Token::Subninja,
            _ => Token::Ident,
        }
    }
}

/// A path or value as written, with validated escapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Raw<'t> {
    pub(crate) text: &'t [u8],
    /// Contains no `$`: the text is the value.
    pub(crate) plain: bool,
    /// A plain path that is known to be canonical.
    pub(crate) canonical: bool,
}

/// Columns of source that an error shows. Ninja shows no source if the error is further right.
const SHOWN_COLUMNS: usize = 72;

/// Maximum length of the `file:line: ` prefix of an error, in bytes.
const MAX_PREFIX_BYTES: usize = 1023;

/// A position in the text of one file.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'t> {
    file: &'t [u8],
    /// The whole file, for error messages.
    whole: &'t [u8],
    /// The file up to the end of the part that this lexer reads.
    text: &'t [u8],
    at: usize,
    /// Start of the last token, at which errors point.
    last: usize,
}

impl<'t> Lexer<'t> {
    /// Starts at the first byte. As in ninja, a NUL ends the text.
    pub(crate) fn new(file: &'t [u8], text: &'t [u8]) -> Self {
        let end = memchr(0, text).unwrap_or(text.len());
        Self::of_part(file, text, 0..end)
    }

    /// Reads a part of a text that contains no NUL and ends between two statements.
    pub(crate) fn of_part(file: &'t [u8], whole: &'t [u8], part: Range<usize>) -> Self {
        Lexer { file, whole, text: &whole[..part.end], at: part.start, last: part.start }
    }

    pub(crate) fn text(&self, part: Range<usize>) -> &'t [u8] {
        &self.text[part]
    }

    /// Offset of the next byte in the file.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Offset of the last token in the file.
    pub(crate) fn last(&self) -> usize {
        self.last
    }

    /// Returns the range of a slice of the file's text.
    pub(crate) fn range_of(&self, part: &'t [u8]) -> Range<usize> {
        let start = self.offset_of(part);
        start..start + part.len()
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Reads the next token and the blanks after it. Skips comments.
    pub(crate) fn token(&mut self) -> Token {
        loop {
            self.last = self.at;
            let begin = self.spaces_end(self.at);
            match self.byte(begin) {
                b'\n' => return self.ends_at(begin + 1, Token::Newline),
                b'\r' if self.byte(begin + 1) == b'\n' => return self.ends_at(begin + 2, Token::Newline),
                b'#' => match memchr2(b'\n', 0, &self.text[begin..]).map(|length| begin + length) {
                    Some(end) if self.text[end] == b'\n' => self.at = end + 1,
                    // A comment at the end of the file needs a newline.
                    _ => return self.visible_token(begin),
                },
                _ => return self.visible_token(begin),
            }
        }
    }

    fn visible_token(&mut self, begin: usize) -> Token {
        let token = if begin > self.at {
            self.ends_at(begin, Token::Indent)
        } else {
            match self.byte(begin) {
                0 => return self.ends_at(begin, Token::Eof),
                b'=' => self.ends_at(begin + 1, Token::Equals),
                b':' => self.ends_at(begin + 1, Token::Colon),
                b'|' => match self.byte(begin + 1) {
                    b'@' => self.ends_at(begin + 2, Token::PipeAt),
                    b'|' => self.ends_at(begin + 2, Token::Pipe2),
                    _ => self.ends_at(begin + 1, Token::Pipe),
                },
                _ => match name_end(self.text, begin) {
                    end if end > begin => self.ends_at(end, Token::of_word(&self.text[begin..end])),
                    _ => self.ends_at(begin + 1, Token::Error),
                },
            }
        };
        self.eat_blanks();
        token
    }

    fn ends_at(&mut self, at: usize, token: Token) -> Token {
        self.at = at;
        token
    }

    /// Goes back to the start of the last token.
    pub(crate) fn unread(&mut self) {
        self.at = self.last;
    }

    /// Consumes the next token if it is this one.
    pub(crate) fn peek(&mut self, token: Token) -> bool {
        let found = self.token() == token;
        if !found {
            self.unread();
        }
        found
    }

    /// Consumes the next token; fails if it is another one.
    pub(crate) fn expect(&mut self, wanted: Token) -> Result<()> {
        let found = self.token();
        if found == wanted {
            return Ok(());
        }
        let hint = if wanted == Token::Colon { " ($ also escapes ':')" } else { "" };
        Err(self.error(&[b"expected ", wanted.name().as_bytes(), b", got ", found.name().as_bytes(), hint.as_bytes()]))
    }

    /// Reads the usual start of an indented binding: spaces, a name and ` = `. Consumes nothing if the line looks
    /// different.
    pub(crate) fn usual_binding(&mut self) -> Option<&'t [u8]> {
        let begin = self.spaces_end(self.at);
        let end = name_end(self.text, begin);
        let usual = begin > self.at && end > begin && self.text.get(end..)?.starts_with(b" = ");
        if !usual || matches!(self.byte(end + 3), b' ' | b'$') {
            return None;
        }
        self.at = end + 3;
        Some(&self.text[begin..end])
    }

    /// Reads the name of a rule or variable.
    pub(crate) fn name(&mut self) -> Option<&'t [u8]> {
        let begin = self.at;
        self.last = begin;
        let end = name_end(self.text, begin);
        if end == begin {
            return None;
        }
        self.at = end;
        self.eat_blanks();
        Some(&self.text[begin..end])
    }

    /// Reads a path and the blanks after it; the path is empty if there is none.
    pub(crate) fn path(&mut self) -> Result<Raw<'t>> {
        let begin = self.at;
        let (mut at, canonical) = path_scan::path(self.text, begin);
        let mut plain = true;
        loop {
            match self.byte(at) {
                b' ' | b':' | b'|' | b'\n' => break,
                b'\r' if self.byte(at + 1) == b'\n' => break,
                b'$' => at = self.escape_end(at)?,
                _ => return Err(self.error_at(at)),
            }
            plain = false;
            (at, _) = path_scan::path(self.text, at);
        }
        self.last = at;
        self.at = at;
        self.eat_blanks();
        Ok(Raw { text: &self.text[begin..at], plain, canonical: plain && canonical })
    }

    /// Appends the following paths, or, with `after`, the paths after this token if it comes next. Returns their
    /// number.
    pub(crate) fn paths(&mut self, after: Option<Token>, paths: &mut Vec<Raw<'t>>) -> Result<usize> {
        let before = paths.len();
        if after.is_none_or(|token| self.peek(token)) {
            loop {
                let raw = self.path()?;
                if raw.text.is_empty() {
                    break;
                }
                paths.push(raw);
            }
        }
        Ok(paths.len() - before)
    }

    /// Reads a variable's value and the end of the line.
    pub(crate) fn value(&mut self) -> Result<Raw<'t>> {
        let begin = self.at;
        let mut at = begin;
        let mut plain = true;
        let line_end = loop {
            at = memchr3(b'\n', b'$', b'\r', &self.text[at..]).map_or(self.text.len(), |length| at + length);
            match self.byte(at) {
                b'\n' => break at + 1,
                b'\r' if self.byte(at + 1) == b'\n' => break at + 2,
                b'$' => at = self.escape_end(at)?,
                _ => return Err(self.error_at(at)),
            }
            plain = false;
        };
        self.last = at;
        self.at = line_end;
        Ok(Raw { text: &self.text[begin..at], plain, canonical: false })
    }

    /// Returns the end of the escape at `at`.
    fn escape_end(&mut self, at: usize) -> Result<usize> {
        match self.byte(at + 1) {
            b'$' | b' ' | b':' => Ok(at + 2),
            b'\n' => Ok(self.spaces_end(at + 2)),
            b'\r' if self.byte(at + 2) == b'\n' => Ok(self.spaces_end(at + 3)),
            b'{' => {
                let end = name_end(self.text, at + 2);
                if end > at + 2 && self.byte(end) == b'}' { Ok(end + 1) } else { Err(self.bad_escape(at)) }
            }
            _ => match simple_name_end(self.text, at + 1) {
                end if end > at + 1 => Ok(end),
                _ => Err(self.bad_escape(at)),
            },
        }
    }

    fn spaces_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        at + rest.iter().position(|&b| b != b' ').unwrap_or(rest.len())
    }

    /// Skips spaces and continued lines.
    fn eat_blanks(&mut self) {
        loop {
            match self.byte(self.at) {
                b' ' => self.at += 1,
                b'$' if self.byte(self.at + 1) == b'\n' => self.at += 2,
                b'$' if self.byte(self.at + 1) == b'\r' && self.byte(self.at + 2) == b'\n' => self.at += 3,
                _ => return,
            }
        }
    }

    fn bad_escape(&mut self, at: usize) -> Error {
        self.last = at;
        self.error(&[b"bad $-escape (literal $ must be written as $$)"])
    }

    fn error_at(&mut self, at: usize) -> Error {
        self.last = at;
        if at == self.text.len() { self.error(&[b"unexpected EOF"]) } else { self.lexing_error() }
    }

    /// An error for an invalid last token.
    pub(crate) fn lexing_error(&self) -> Error {
        match self.byte(self.last) {
            b'\t' => self.error(&[b"tabs are not allowed, use spaces"]),
            _ => self.error(&[b"lexing error"]),
        }
    }

    /// An error at the last token, with ninja's first line and the source line.
    pub(crate) fn error(&self, message: &[&[u8]]) -> Error {
        self.error_about(&self.text[self.last..self.last], message)
    }

    /// Like `error`; where ninja shows no source line, this shows that of `part`, a slice of the text.
    pub(crate) fn error_about(&self, part: &'t [u8], message: &[&[u8]]) -> Error {
        let last = self.place(self.last);
        let mut text = [self.file, format!(":{}: ", last.line).as_bytes()].concat();
        text.truncate(MAX_PREFIX_BYTES);
        message.iter().for_each(|part| text.extend_from_slice(part));
        text.push(b'\n');
        if last.column > 0 && last.column < SHOWN_COLUMNS {
            self.show(&last, &mut text);
            return text.into();
        }
        let about = self.place(self.offset_of(part));
        self.show(&about, &mut text);
        if about.line != last.line {
            text.extend_from_slice(format!(", in line {}", about.line).as_bytes());
        }
        text.into()
    }

    fn offset_of(&self, part: &[u8]) -> usize {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if offset <= self.text.len() { offset } else { self.last }
    }

    fn place(&self, at: usize) -> Place {
        let before = &self.whole[..at];
        let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        Place { line: 1 + memchr::memchr_iter(b'\n', before).count(), start, column: at - start }
    }

    /// Shows a source line, shortened if it is long, and a caret; nothing if the line is empty.
    fn show(&self, place: &Place, text: &mut Vec<u8>) {
        let line = &self.whole[place.start..];
        // As in ninja, a NUL ends the text.
        let line = &line[..memchr2(b'\n', 0, line).unwrap_or(line.len())];
        if line.is_empty() {
            return;
        }
        let left_out = if place.column < SHOWN_COLUMNS { 0 } else { place.column - SHOWN_COLUMNS / 2 };
        let mut caret = place.column - left_out;
        if left_out > 0 {
            text.extend_from_slice(DOTS);
            caret += DOTS.len();
        }
        // The file may have changed since the place was found.
        let shown = line.get(left_out..).unwrap_or_default();
        text.extend_from_slice(&shown[..shown.len().min(SHOWN_COLUMNS)]);
        if shown.len() >= SHOWN_COLUMNS {
            text.extend_from_slice(DOTS);
        }
        text.push(b'\n');
        text.resize(text.len() + caret, b' ');
        text.extend_from_slice(b"^ near here");
    }
}

/// A place in a text: line number from 1, start of the line, and bytes from there.
struct Place {
    line: usize,
    start: usize,
    column: usize,
}

/// Replaces the omitted part of a line.
const DOTS: &[u8] = b"...";

/// Adds the most similar known word to the error, unless half of its letters differ.
pub(crate) fn did_you_mean<'w>(error: Error, word: &[u8], known: impl IntoIterator<Item = &'w [u8]>) -> Error {
    let near = |meant: &&[u8]| 2 * distance(meant, word, word.len()) <= word.len();
    let Some(meant) = closest(word, known).filter(near) else { return error };
    let text = error.text();
    let end: &[u8] = if text.ends_with(b"\n") { b"" } else { b"\n" };
    Error::new(&[&text, end, b"did you mean '", meant, b"'?"])
}

/// Bytes of rule and variable names.
const NAME: u8 = 1;
/// Bytes of variable names after `$` without braces.
const SIMPLE: u8 = 2;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => NAME | SIMPLE,
            b'.' => NAME,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Returns the end of the run of bytes of this class that begins at `at`.
fn class_end(text: &[u8], at: usize, class: u8) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| CLASSES[b as usize] & class == 0).unwrap_or(rest.len())
}

fn name_end(text: &[u8], at: usize) -> usize {
    class_end(text, at, NAME)
}

/// Like `name_end`, for a name after `$` without braces.
pub(crate) fn simple_name_end(text: &[u8], at: usize) -> usize {
    class_end(text, at, SIMPLE)
}
