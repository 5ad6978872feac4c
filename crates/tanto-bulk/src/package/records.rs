//! Scan records: the output of `make pbulk-index`, a line for each variable.
//!
//! The text of a whole tree is large (86 % of it lists makefiles), so records borrow from it.

use thiserror::Error;

/// The scan record of one package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'t> {
    /// PKGNAME: name and version.
    pub name: &'t [u8],
    /// PKG_LOCATION: its directory, as `category/directory`.
    pub location: &'t [u8],
    /// All lines, with the newline of the last one.
    pub text: &'t [u8],
}

/// RecordProblem a text is not a list of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{line}: {problem}")]
pub struct RecordError {
    /// Counted from 1.
    pub line: usize,
    pub problem: RecordProblem,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordProblem {
    #[error("expected PKGNAME=, which begins a record")]
    NotBegun,
    #[error("a PKGNAME has at least four characters and no blanks")]
    Name,
    #[error("the record that begins here has no PKG_LOCATION")]
    NoLocation,
    #[error("the last line has no newline: the file is truncated")]
    Torn,
    #[error("more than 4,294,967,295 packages")]
    TooMany,
}

const NAME: &[u8] = b"PKGNAME=";
const LOCATION: &[u8] = b"PKG_LOCATION=";
/// The shortest PKGNAME that pbulk accepts.
const SHORTEST_NAME: usize = 4;

impl<'t> Record<'t> {
    /// Returns the value of the first line of a variable.
    pub fn value(&self, variable: &str) -> Option<&'t [u8]> {
        lines(self.text).find_map(|line| line.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
    }
}

/// Parses a text as records.
pub fn read(text: &[u8]) -> Result<Vec<Record<'_>>, RecordError> {
    let mut records = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let record = next(&text[from..]).map_err(|(at, problem)| bad(text, from + at, problem))?;
        from += record.text.len();
        if records.len() == u32::MAX as usize {
            return Err(bad(text, from, RecordProblem::TooMany));
        }
        records.push(record);
    }
    Ok(records)
}

/// Parses the record at the start of a text. An error has its offset.
fn next(text: &[u8]) -> Result<Record<'_>, (usize, RecordProblem)> {
    let mut location = None;
    let mut end = 0;
    loop {
        let line_end = end + memchr::memchr(b'\n', &text[end..]).ok_or((end, RecordProblem::Torn))?;
        let line = &text[end..line_end];
        if end == 0 && !line.starts_with(NAME) {
            return Err((0, RecordProblem::NotBegun));
        }
        location = location.or_else(|| line.strip_prefix(LOCATION));
        end = line_end + 1;
        if end == text.len() || text[end..].starts_with(NAME) {
            break;
        }
    }
    let first_end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let name = &text[NAME.len()..first_end];
    if name.len() < SHORTEST_NAME || name.iter().any(|byte| b" \t".contains(byte)) {
        return Err((0, RecordProblem::Name));
    }
    Ok(Record { name, location: location.ok_or((0, RecordProblem::NoLocation))?, text: &text[..end] })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line)
    })
}

fn bad(text: &[u8], at: usize, problem: RecordProblem) -> RecordError {
    RecordError { line: 1 + memchr::memchr_iter(b'\n', &text[..at]).count(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"PKGNAME=one-1\nPKG_LOCATION=a/one\nALL_DEPENDS= \nPKGNAME=two-2\nX=\nPKG_LOCATION=a/two\n";

    #[test]
    fn record_ends_where_the_next_begins() {
        let records = read(TWO).unwrap();
        let found: Vec<_> = records.iter().map(|record| (record.name, record.location, record.text.len())).collect();
        assert_eq!(found, [(&b"one-1"[..], &b"a/one"[..], 47), (b"two-2", b"a/two", 36)]);
        assert_eq!(records[0].value("ALL_DEPENDS"), Some(&b" "[..]));
        assert_eq!((records[1].value("X"), records[1].value("ALL_DEPENDS")), (Some(&b""[..]), None));
        assert_eq!(read(b""), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, problem) in [
            (&b"X=1\n"[..], 1, RecordProblem::NotBegun),
            (b"PKGNAME=one-1\nPKG_LOCATION=x\nPKGNAME=a b-1\nPKG_LOCATION=x\n", 3, RecordProblem::Name),
            (b"PKGNAME=a-1\nPKG_LOCATION=x\n", 1, RecordProblem::Name),
            (b"PKGNAME=one-1\nPKGNAME=two-1\nPKG_LOCATION=x\n", 1, RecordProblem::NoLocation),
            (b"PKGNAME=one-1\nPKG_LOCATION=x", 2, RecordProblem::Torn),
        ] {
            assert_eq!(read(text), Err(RecordError { line, problem }));
        }
    }
}
