//! The text of `.ninja_log` and what it says: one entry for each output. Does not touch the disk.
//!
//! ```text
//! # ninja log v7
//! START \t END \t MTIME \t OUTPUT \t HASH \n
//! ```
//!
//! START and END are milliseconds since that build began, MTIME is nanoseconds since 1970, HASH is hexadecimal. A
//! later line for the same output wins. Lines that are not of this form are skipped; one without a line end is
//! torn, and no part of the text as it is kept here.

use std::io::Write;
use std::ops::Range;

use hashbrown::HashTable;

use crate::disk::Mtime;
use crate::log::hash::rapid as hash;

/// The oldest version whose entries are read.
const OLDEST: u32 = 5;
/// The newest one.
const NEWEST: u32 = 7;

const SIGNATURE: &[u8] = b"# ninja log v";

/// A line longer than this is skipped: ninja's buffer does not hold it either.
const LONGEST_LINE: usize = 256 << 10;

/// What the log says of one output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The hash of the command, by the log's version.
    pub command_hash: u64,
    /// When the command was started, in milliseconds since its build began.
    pub start_ms: i32,
    /// When it ended, likewise.
    pub end_ms: i32,
    /// What the output was up to date with; see `BuildLog::records_output_mtime`.
    pub mtime: Mtime,
}

struct Slot {
    at: usize,
    len: usize,
    entry: Entry,
}

impl Slot {
    fn output<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.at..self.at + self.len]
    }
}

/// Whether the text's first line lets us read the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    Known,
    TooOld,
    TooNew,
}

/// A picture of the file, as far as it is sound, with an index.
pub(super) struct Entries {
    /// The version of the text, or of the text to come.
    version: u32,
    /// The file's bytes up to the last line end.
    text: Vec<u8>,
    slots: Vec<Slot>,
    index: HashTable<u32>,
    /// How many lines were read to get `slots`.
    lines: usize,
}

impl Entries {
    /// No text yet.
    pub(super) fn new(version: u32) -> Self {
        assert!((OLDEST..=NEWEST).contains(&version), "no log is written in version {version}");
        Entries { version, text: Vec::new(), slots: Vec::new(), index: HashTable::new(), lines: 0 }
    }

    /// Forgets everything but the version.
    pub(super) fn clear(&mut self) {
        *self = Entries::new(self.version);
    }

    /// Reads more text. After a header that is not `Known` nothing is kept.
    pub(super) fn read(&mut self, text: Vec<u8>) -> Header {
        let mut at = self.text.len();
        if at == 0 {
            self.text = text;
        } else {
            self.text.extend_from_slice(&text);
        }
        if at == 0 && !self.text.is_empty() {
            let header = self.read_header();
            if header != Header::Known {
                self.clear();
                return header;
            }
            at = memchr::memchr(b'\n', &self.text).map_or(self.text.len(), |end| end + 1);
        }
        self.text.truncate(memchr::memrchr(b'\n', &self.text).map_or(0, |end| end + 1));
        self.read_lines(at);
        Header::Known
    }

    fn read_header(&mut self) -> Header {
        let version = self.text.strip_prefix(SIGNATURE).map_or(0, decimal);
        match u32::try_from(version) {
            Ok(version @ OLDEST..=NEWEST) => {
                self.version = version;
                Header::Known
            }
            _ if version > i64::from(NEWEST) => Header::TooNew,
            _ => Header::TooOld,
        }
    }

    fn read_lines(&mut self, mut at: usize) {
        let text = std::mem::take(&mut self.text);
        if let Some(new) = text.get(at..) {
            let lines = memchr::memchr_iter(b'\n', new).count();
            self.slots.reserve(lines);
            let slots = &self.slots;
            self.index.reserve(lines, |&slot| hash(slots[slot as usize].output(&text)));
        }
        while let Some(length) = text.get(at..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            let line = &text[at..at + length];
            if length < LONGEST_LINE
                && let Some((output, entry)) = parse(line)
            {
                self.lines += 1;
                self.put(&text, at + output.start..at + output.end, entry);
            }
            at += length + 1;
        }
        self.text = text;
    }

    fn put(&mut self, text: &[u8], output: Range<usize>, entry: Entry) {
        let Entries { slots, index, .. } = self;
        let path = &text[output.clone()];
        let found = index.entry(
            hash(path),
            |&slot| slots[slot as usize].output(text) == path,
            |&slot| hash(slots[slot as usize].output(text)),
        );
        match found {
            hashbrown::hash_table::Entry::Occupied(slot) => slots[*slot.get() as usize].entry = entry,
            hashbrown::hash_table::Entry::Vacant(free) => {
                free.insert(u32::try_from(slots.len()).expect("under 2^32 outputs"));
                slots.push(Slot { at: output.start, len: output.len(), entry });
            }
        }
    }

    /// The entry of an output.
    pub(super) fn get(&self, output: &[u8]) -> Option<&Entry> {
        let slot = self.index.find(hash(output), |&slot| self.slots[slot as usize].output(&self.text) == output)?;
        Some(&self.slots[*slot as usize].entry)
    }

    /// Outputs and entries, each output once, in the order in which they came into the log.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &Entry)> {
        self.slots.iter().map(|slot| (slot.output(&self.text), &slot.entry))
    }

    /// Draws up the lines for `outputs`, and the header if there is no text yet; changes nothing.
    pub(super) fn draft<'a>(&self, outputs: impl IntoIterator<Item = &'a [u8]>, entry: Entry) -> Draft {
        let mut draft = Draft { text: Vec::new(), outputs: Vec::new(), entry };
        if self.text.is_empty() {
            draft.text.extend_from_slice(&header(self.version));
        }
        for output in outputs {
            let at = write_line(&mut draft.text, output, &entry);
            draft.outputs.push(at..at + output.len());
        }
        draft
    }

    /// The draft is in the file now.
    pub(super) fn commit(&mut self, draft: Draft) {
        let before = self.text.len();
        let mut text = std::mem::take(&mut self.text);
        text.extend_from_slice(&draft.text);
        for output in draft.outputs {
            self.put(&text, before + output.start..before + output.end, draft.entry);
        }
        self.text = text;
    }

    /// A new text with one line for each entry that `keep` keeps; it may change the entry.
    pub(super) fn rewritten<E>(
        &self,
        mut keep: impl FnMut(&[u8], &mut Entry) -> Result<bool, E>,
    ) -> Result<Vec<u8>, E> {
        let mut text = header(self.version);
        for (output, entry) in self.iter() {
            let mut entry = *entry;
            if keep(output, &mut entry)? {
                write_line(&mut text, output, &entry);
            }
        }
        Ok(text)
    }

    /// Is it mostly lines that later ones made void?
    pub(super) fn is_overgrown(&self) -> bool {
        self.lines > 100 && self.lines > self.slots.len() * 3
    }

    /// The version.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// How many bytes the file has, as far as we know it.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }
}

/// Lines that are to be appended.
pub(super) struct Draft {
    pub(super) text: Vec<u8>,
    /// Where in `text` the outputs stand.
    outputs: Vec<Range<usize>>,
    entry: Entry,
}

fn header(version: u32) -> Vec<u8> {
    [SIGNATURE, version.to_string().as_bytes(), b"\n"].concat()
}

/// Returns where the output stands.
fn write_line(text: &mut Vec<u8>, output: &[u8], entry: &Entry) -> usize {
    let ok = "writing to memory";
    write!(text, "{}\t{}\t{}\t", entry.start_ms, entry.end_ms, entry.mtime).expect(ok);
    let at = text.len();
    text.extend_from_slice(output);
    writeln!(text, "\t{:x}", entry.command_hash).expect(ok);
    at
}

/// An entry, and where its output stands in the line.
fn parse(line: &[u8]) -> Option<(Range<usize>, Entry)> {
    let mut at = 0;
    let mut field = || {
        let start = at;
        let end = start + memchr::memchr(b'\t', &line[start..])?;
        at = end + 1;
        Some(start..end)
    };
    // As C's `int` holds a number too large for it.
    let start_ms = decimal(&line[field()?]) as i32;
    let end_ms = decimal(&line[field()?]) as i32;
    let mtime = decimal(&line[field()?]);
    let output = field()?;
    Some((output, Entry { command_hash: hexadecimal(&line[at..]), start_ms, end_ms, mtime }))
}

/// The number at the start of `text`, as `strtoll` reads it: 0 if there is none, the nearest one if it is too large.
fn decimal(text: &[u8]) -> i64 {
    let (negative, digits) = sign(text);
    let digits = digits.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|&digit| digit < 10).map(i64::from);
    if negative {
        digits.fold(0, |n: i64, digit| n.saturating_mul(10).saturating_sub(digit))
    } else {
        digits.fold(0, |n: i64, digit| n.saturating_mul(10).saturating_add(digit))
    }
}

/// The number at the start of `text`, as `strtoull` reads it in base 16.
fn hexadecimal(text: &[u8]) -> u64 {
    let (negative, digits) = sign(text);
    let digits = match digits {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => digits,
        digits => digits,
    };
    let mut digits = digits.iter().map_while(|&byte| (byte as char).to_digit(16));
    let number = digits.try_fold(0u64, |n, digit| n.checked_mul(16)?.checked_add(digit.into()));
    match number {
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
        None => u64::MAX,
    }
}

/// Skips white space and a sign; true for a minus.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases: &[(&[u8], i64)] = &[
            (b"12", 12),
            (b" +7x", 7),
            (b"-5", -5),
            (b"", 0),
            (b"x", 0),
            (b"99999999999999999999", i64::MAX),
            (b"-99999999999999999999", i64::MIN),
            (b"-9223372036854775808", i64::MIN),
        ];
        for (text, number) in cases {
            assert_eq!(decimal(text), *number, "{text:?}");
        }
        let cases: &[(&[u8], u64)] = &[
            (b"deadBEEF", 0xdead_beef),
            (b"0x1f", 0x1f),
            (b"0xg", 0),
            (b"\t2\r", 2),
            (b"-1", u64::MAX),
            (b"10000000000000000", u64::MAX),
            (b"", 0),
        ];
        for (text, number) in cases {
            assert_eq!(hexadecimal(text), *number, "{text:?}");
        }
    }

    #[test]
    fn odd_lines_are_skipped() {
        let mut entries = Entries::new(7);
        let long = [b"1\t2\t3\t".as_slice(), &vec![b'x'; LONGEST_LINE], b"\t4\n"].concat();
        let text =
            [b"# ninja log v6\n1\t2\t3\ta\n\n\t\t\t\n1\t2\t3\tb\t4\n".as_slice(), &long, b"5\t6\t7\tc\t8"].concat();
        assert_eq!(entries.read(text), Header::Known);
        assert_eq!(entries.version(), 6);
        let outputs: Vec<_> = entries.iter().map(|(output, _)| output.to_vec()).collect();
        assert_eq!(outputs, [b"b"]);
    }

    #[test]
    fn versions_out_of_range_are_told_apart() {
        let cases: &[(&[u8], Header)] = &[
            (b"# ninja log v4\n", Header::TooOld),
            (b"# ninja log v8\n", Header::TooNew),
            (b"# ninja log v99999999999999999999\n", Header::TooNew),
            (b"# ninja log v-1\n", Header::TooOld),
            (b"# ninja", Header::TooOld),
            (b"\n", Header::TooOld),
            (b"\0", Header::TooOld),
            (b"", Header::Known),
            (b"# ninja log v5", Header::Known),
        ];
        for (text, header) in cases {
            assert_eq!(Entries::new(7).read(text.to_vec()), *header, "{text:?}");
        }
    }
}
