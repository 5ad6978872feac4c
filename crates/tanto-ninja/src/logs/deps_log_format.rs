//! The form of `.ninja_deps`: its header, and records of paths and of deps. Does not know which records count.
//!
//! All numbers are 32 bits, little-endian. After the signature and the version come records: a length in bytes,
//! then as many bytes. Of two kinds:
//!
//! - a path: its text, up to three NULs to fill a word, and the complement of its id. Ids count paths from 0 in the
//!   order of the file; the complement is there to notice two processes that both took one id.
//! - deps, with the length's highest bit set: the output's id, its mtime (low half, high half), the inputs' ids. A
//!   later record for the same output wins.

use std::ops::Range;

use crate::disk::Mtime;

pub(super) const HEADER: &[u8; 16] = b"# ninjadeps\n\x04\0\0\0";
const SIGNATURE_LENGTH: usize = 12;

/// The longest record, in bytes.
pub(super) const LONGEST_RECORD: usize = (1 << 19) - 1;

const IS_DEPS: u32 = 1 << 31;
/// Output and mtime, in bytes.
pub(super) const DEPS_HEAD: usize = 12;

/// What became of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadStatus {
    /// All of it was sound.
    Valid,
    /// Something at the end was not, and is not kept.
    Torn,
    /// Not a log of ours; nothing is kept.
    Unsupported,
    /// Version 1, which could hold false data; nothing is kept.
    Version1,
}

/// Whether a log that begins like this can be read: sound, foreign or ancient.
pub(super) fn check_header(bytes: &[u8]) -> ReadStatus {
    if bytes.starts_with(HEADER) {
        return ReadStatus::Valid;
    }
    match bytes.get(SIGNATURE_LENGTH..HEADER.len()) {
        Some([1, 0, 0, 0]) => ReadStatus::Version1,
        _ => ReadStatus::Unsupported,
    }
}

/// A record that has its form. Which ids are known, the form does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DepsRecord<'a> {
    Path {
        path: &'a [u8],
        id: u32,
    },
    Deps {
        output: u32,
        mtime: Mtime,
        /// A word for each input.
        ins: &'a [u8],
    },
}

/// The record at `at`, and where the next one begins; None at the end, or where there is none of its form.
#[inline]
pub(super) fn read(bytes: &[u8], at: usize) -> Option<(DepsRecord<'_>, usize)> {
    let (size, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size);
    let length = (size & !IS_DEPS) as usize;
    if length > LONGEST_RECORD {
        return None;
    }
    let body = rest.get(..length)?;
    let record = if size & IS_DEPS == 0 { read_path(body)? } else { read_deps(body)? };
    Some((record, at + 4 + length))
}

#[inline]
fn read_path(body: &[u8]) -> Option<DepsRecord<'_>> {
    let (padded, complement) = body.split_last_chunk::<4>()?;
    let padding = padded.iter().rev().take(3).take_while(|&&byte| byte == 0).count();
    let path = &padded[..padded.len() - padding];
    if path.is_empty() || memchr::memchr(0, path).is_some() {
        return None;
    }
    Some(DepsRecord::Path { path, id: !u32::from_le_bytes(*complement) })
}

#[inline]
fn read_deps(body: &[u8]) -> Option<DepsRecord<'_>> {
    let (head, ins) = body.split_first_chunk::<DEPS_HEAD>()?;
    if !ins.len().is_multiple_of(4) {
        return None;
    }
    let [output, low, high] = [0, 4, 8].map(|at| word(&head[at..at + 4]));
    let mtime = u64::from(low) | u64::from(high) << 32;
    Some(DepsRecord::Deps { output, mtime: mtime as Mtime, ins })
}

/// The number in four bytes.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}

/// The highest of an output's id and its inputs'.
#[inline]
pub(super) fn highest_id(output: u32, ins: &[u8]) -> u32 {
    ins.chunks_exact(4).map(word).fold(output, u32::max)
}

/// How many bytes behind a place a record is looked for: as many as most records have. Larger, a log that is none is
/// searched for longer; smaller, in a log of long records one thread has to do it all.
const WINDOW: usize = 64 << 10;

/// Records that must follow each other for it to be no chance.
const RUN: usize = 6;

/// A place soon in this range where a record seems to begin. Whether it does, only they know who come from the records
/// before it.
pub(super) fn find_record_start(bytes: &[u8], range: Range<usize>) -> Option<usize> {
    // Records as they are written are whole words.
    let mut places = (range.start.next_multiple_of(4)..range.end.min(range.start + WINDOW)).step_by(4);
    places.find(|&place| {
        let mut at = place;
        (0..RUN).all(|_| {
            let next = plausible_next(bytes, at);
            at = next.unwrap_or(at);
            next.is_some()
        })
    })
}

/// Where the next record begins, if there seems to be one at `at`, or the end. Looks at few bytes.
fn plausible_next(bytes: &[u8], at: usize) -> Option<usize> {
    let Some(head) = bytes.get(at..at + 8) else { return (at == bytes.len()).then_some(at) };
    let size = word(&head[..4]);
    let length = (size & !IS_DEPS) as usize;
    let next = at + 4 + length;
    if length > LONGEST_RECORD || !length.is_multiple_of(4) || next > bytes.len() {
        return None;
    }
    if size & IS_DEPS != 0 {
        return (length >= DEPS_HEAD).then_some(next);
    }
    // Ids are small: their words have zeros, and their complements end as no length does. Paths have no zeros but at
    // their ends, and no bytes that UTF-8 has not.
    let is_text = head[4] != 0 && head[7] != 0xff && (length == 8 || !head[4..].contains(&0));
    (length >= 8 && is_text && bytes[next - 1] == 0xff).then_some(next)
}

/// Appends a path.
pub(super) fn write_path(bytes: &mut Vec<u8>, path: &[u8], id: u32) {
    assert!(!path.is_empty(), "an empty path cannot be recorded");
    let padding = path.len().next_multiple_of(4) - path.len();
    bytes.extend_from_slice(&((path.len() + padding + 4) as u32).to_le_bytes());
    bytes.extend_from_slice(path);
    bytes.extend_from_slice(&[0; 3][..padding]);
    bytes.extend_from_slice(&(!id).to_le_bytes());
}

/// Appends deps.
pub(super) fn write_deps(bytes: &mut Vec<u8>, output: u32, mtime: Mtime, ins: impl ExactSizeIterator<Item = u32>) {
    let length = (DEPS_HEAD + 4 * ins.len()) as u32;
    bytes.extend_from_slice(&(length | IS_DEPS).to_le_bytes());
    bytes.extend_from_slice(&output.to_le_bytes());
    bytes.extend_from_slice(&mtime.to_le_bytes());
    for id in ins {
        bytes.extend_from_slice(&id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(records: u32) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut places) = (HEADER.to_vec(), Vec::new());
        for id in 0..records {
            places.push(bytes.len());
            write_path(&mut bytes, format!("dir/{}.h", "x".repeat(id as usize % 37)).as_bytes(), id);
            places.push(bytes.len());
            write_deps(&mut bytes, id, Mtime::from(id) << 30, 0..id % 50);
        }
        (bytes, places)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write_path(&mut bytes, b"a.h", 7);
        write_deps(&mut bytes, 7, -5, [1, 9, 3].into_iter());
        let (path, next) = read(&bytes, 0).expect("a path");
        assert_eq!((path, next), (DepsRecord::Path { path: b"a.h", id: 7 }, 12));
        let (DepsRecord::Deps { output, mtime, ins }, end) = read(&bytes, next).expect("deps") else { panic!("deps") };
        assert_eq!((output, mtime, ins.len(), highest_id(output, ins), end), (7, -5, 12, 9, bytes.len()));
        assert_eq!(highest_id(11, ins), 11);
        assert_eq!(read(&bytes, end), None);
        assert_eq!(read(&bytes, usize::MAX), None);
    }

    #[test]
    fn a_guess_is_where_a_record_begins() {
        let (bytes, places) = log(300);
        for from in HEADER.len()..*places.last().expect("many") {
            let next = places.iter().find(|&&place| place >= from);
            assert_eq!(find_record_start(&bytes, from..bytes.len()).as_ref(), next, "from {from}");
        }
        assert_eq!(find_record_start(&bytes, places[4]..places[4]), None);
    }

    #[test]
    fn no_guess_where_no_record_is() {
        assert_eq!(find_record_start(&[0; 4096], 0..4096), None);
        assert_eq!(find_record_start(&[0xff; 4096], 0..4096), None);
        assert_eq!(find_record_start(b"", 0..0), None);
    }
}
