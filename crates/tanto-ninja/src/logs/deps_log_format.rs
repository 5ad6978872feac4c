//! The format of `.ninja_deps`: a header, path records and deps records.
//!
//! All numbers are 32 bits, little-endian. The signature and the version are followed by records: a length in bytes, then
//! the content. There are two kinds:
//!
//! - a path: its text, up to three NULs of padding, and the complement of its id. Ids count paths from 0 in file order; the
//!   complement detects two processes that assigned the same id.
//! - deps, with the highest bit of the length set: the output's id, its mtime (low half, high half), the inputs' ids. The
//!   last record of an output counts.

use std::ops::Range;

use crate::disk::Mtime;

pub(super) const HEADER: &[u8; 16] = b"# ninjadeps\n\x04\0\0\0";
const SIGNATURE_LENGTH: usize = 12;

/// The maximum size of a record in bytes.
pub(super) const LONGEST_RECORD: usize = (1 << 19) - 1;

const IS_DEPS: u32 = 1 << 31;
/// The size of the output id and the mtime.
pub(super) const DEPS_HEAD: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadStatus {
    Valid,
    /// The end is damaged and was dropped.
    Torn,
    /// Not a supported log; nothing was kept.
    Unsupported,
    /// Version 1, which may contain false data; nothing was kept.
    Version1,
}

pub(super) fn check_header(bytes: &[u8]) -> ReadStatus {
    if bytes.starts_with(HEADER) {
        return ReadStatus::Valid;
    }
    match bytes.get(SIGNATURE_LENGTH..HEADER.len()) {
        Some([1, 0, 0, 0]) => ReadStatus::Version1,
        _ => ReadStatus::Unsupported,
    }
}

/// A well-formed record. Its ids are not checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DepsRecord<'a> {
    Path {
        path: &'a [u8],
        id: u32,
    },
    Deps {
        output: u32,
        mtime: Mtime,
        /// Four bytes for each input.
        ins: &'a [u8],
    },
}

/// Parses the record at `at`; returns it with the offset of the next one. `None` at the end or if it is malformed.
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

#[inline]
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}

/// The highest id of the output and the inputs.
#[inline]
pub(super) fn highest_id(output: u32, ins: &[u8]) -> u32 {
    ins.chunks_exact(4).map(word).fold(output, u32::max)
}

/// The number of bytes searched for a record. A larger window takes longer for a file that is not a log; with a smaller
/// one, long records leave all work to one thread.
const WINDOW: usize = 64 << 10;

/// The number of consecutive plausible records required.
const RUN: usize = 6;

/// Guesses the offset of a record near the start of the range. The caller must verify it by reading the records before.
pub(super) fn find_record_start(bytes: &[u8], range: Range<usize>) -> Option<usize> {
    // Records are aligned to four bytes.
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

/// Returns the offset of the next record if a record seems to begin at `at`. Reads only a few bytes.
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
    // Ids are small, so their words contain zeros, and the complements end with 0xff, unlike a length. Paths contain
    // zeros only as padding, and no 0xff.
    let is_text = head[4] != 0 && head[7] != 0xff && (length == 8 || !head[4..].contains(&0));
    (length >= 8 && is_text && bytes[next - 1] == 0xff).then_some(next)
}

pub(super) fn write_path(bytes: &mut Vec<u8>, path: &[u8], id: u32) {
    assert!(!path.is_empty(), "an empty path cannot be recorded");
    let padding = path.len().next_multiple_of(4) - path.len();
    bytes.extend_from_slice(&((path.len() + padding + 4) as u32).to_le_bytes());
    bytes.extend_from_slice(path);
    bytes.extend_from_slice(&[0; 3][..padding]);
    bytes.extend_from_slice(&(!id).to_le_bytes());
}

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
    fn written_records_are_read_back() {
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
    fn guessed_offset_is_a_record_start() {
        let (bytes, places) = log(300);
        for from in HEADER.len()..*places.last().expect("many") {
            let next = places.iter().find(|&&place| place >= from);
            assert_eq!(find_record_start(&bytes, from..bytes.len()).as_ref(), next, "from {from}");
        }
        assert_eq!(find_record_start(&bytes, places[4]..places[4]), None);
    }

    #[test]
    fn no_guess_without_records() {
        assert_eq!(find_record_start(&[0; 4096], 0..4096), None);
        assert_eq!(find_record_start(&[0xff; 4096], 0..4096), None);
        assert_eq!(find_record_start(b"", 0..0), None);
    }
}
