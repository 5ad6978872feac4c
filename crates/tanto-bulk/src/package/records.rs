//! Scan records: what `make pbulk-index` says of packages, a line for each variable. Does not know what the variables
//! mean, but for those that every record needs.
//!
//! The text of a whole tree is large (86 % of it lists makefiles), so records borrow from it.

/// What a scan says of one package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'t> {
    /// PKGNAME: name and version.
    pub name: &'t [u8],
    /// PKG_LOCATION: its directory, as `category/directory`.
    pub location: &'t [u8],
    /// All of its lines, the last one's end included.
    pub text: &'t [u8],
}

/// Why a text holds no records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bad {
    /// Which line, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub why: Why,
}

/// What is wrong with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A record begins with `PKGNAME=`, and here is something else.
    NotBegun,
    /// A name has at least four characters, and no blanks.
    Name,
    /// Every record has a PKG_LOCATION.
    NoLocation,
    /// The last line has no end: something is missing.
    Torn,
    /// More records than a number of 32 bits counts.
    TooMany,
}

const NAME: &[u8] = b"PKGNAME=";
const LOCATION: &[u8] = b"PKG_LOCATION=";
/// pbulk takes no shorter name.
const SHORTEST_NAME: usize = 4;

impl Why {
    /// For a user.
    pub fn told(self) -> &'static str {
        match self {
            Why::NotBegun => "a record begins with PKGNAME=, and this is something else",
            Why::Name => "a PKGNAME has at least four characters, and no blanks",
            Why::NoLocation => "the record that begins here has no PKG_LOCATION",
            Why::Torn => "the last line has no end: the file is not whole",
            Why::TooMany => "more packages than there can be",
        }
    }
}

impl<'t> Record<'t> {
    /// What the first line of this variable says, or `None` if there is none.
    pub fn value(&self, variable: &str) -> Option<&'t [u8]> {
        lines(self.text).find_map(|line| line.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))
    }
}

/// The records of a text, in its order.
pub fn read(text: &[u8]) -> Result<Vec<Record<'_>>, Bad> {
    let mut records = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let record = next(&text[from..]).map_err(|(at, why)| bad(text, from + at, why))?;
        from += record.text.len();
        if records.len() == u32::MAX as usize {
            return Err(bad(text, from, Why::TooMany));
        }
        records.push(record);
    }
    Ok(records)
}

/// The record at the start of a text; or where in it is something wrong.
fn next(text: &[u8]) -> Result<Record<'_>, (usize, Why)> {
    let mut location = None;
    let mut end = 0;
    loop {
        let line_end = end + memchr::memchr(b'\n', &text[end..]).ok_or((end, Why::Torn))?;
        let line = &text[end..line_end];
        if end == 0 && !line.starts_with(NAME) {
            return Err((0, Why::NotBegun));
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
        return Err((0, Why::Name));
    }
    Ok(Record { name, location: location.ok_or((0, Why::NoLocation))?, text: &text[..end] })
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

fn bad(text: &[u8], at: usize, why: Why) -> Bad {
    Bad { line: 1 + memchr::memchr_iter(b'\n', &text[..at]).count(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"PKGNAME=one-1\nPKG_LOCATION=a/one\nALL_DEPENDS= \nPKGNAME=two-2\nX=\nPKG_LOCATION=a/two\n";

    #[test]
    fn a_record_ends_where_the_next_begins() {
        let records = read(TWO).unwrap();
        let said: Vec<_> = records.iter().map(|record| (record.name, record.location, record.text.len())).collect();
        assert_eq!(said, [(&b"one-1"[..], &b"a/one"[..], 47), (b"two-2", b"a/two", 36)]);
        assert_eq!(records[0].value("ALL_DEPENDS"), Some(&b" "[..]));
        assert_eq!((records[1].value("X"), records[1].value("ALL_DEPENDS")), (Some(&b""[..]), None));
        assert_eq!(read(b""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, why) in [
            (&b"X=1\n"[..], 1, Why::NotBegun),
            (b"PKGNAME=one-1\nPKG_LOCATION=x\nPKGNAME=a b-1\nPKG_LOCATION=x\n", 3, Why::Name),
            (b"PKGNAME=a-1\nPKG_LOCATION=x\n", 1, Why::Name),
            (b"PKGNAME=one-1\nPKGNAME=two-1\nPKG_LOCATION=x\n", 1, Why::NoLocation),
            (b"PKGNAME=one-1\nPKG_LOCATION=x", 2, Why::Torn),
        ] {
            assert_eq!(read(text), Err(Bad { line, why }));
        }
    }
}
