//! Recognizes a log file: device and inode, its first bytes, and the bytes before the offset up to which it was read.
//! The mtime is of no use, because each build appends to the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::log_buffer::LogBuffer;
use crate::hash::rapidhash;

/// The number of bytes compared at the start: the signature and version of either log.
const HEAD: usize = 15;

/// The number of bytes compared at the end. More takes longer; with fewer, a log rewritten in place is more likely to
/// be taken for the old one.
const TAIL: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogFingerprint {
    device: u64,
    inode: u64,
    /// In bytes.
    length: u64,
    head: u64,
    tail: u64,
}

impl LogFingerprint {
    pub(super) const WORDS: usize = 5;

    /// The fingerprint of the first `length` bytes in `buffer`.
    pub(super) fn of(file: &File, buffer: &LogBuffer, length: usize) -> io::Result<LogFingerprint> {
        let data = file.metadata()?;
        Ok(LogFingerprint {
            device: data.dev(),
            inode: data.ino(),
            length: length as u64,
            head: rapidhash(&buffer.copy(0..length.min(HEAD))),
            tail: rapidhash(&buffer.copy(length.saturating_sub(TAIL)..length)),
        })
    }

    /// In bytes.
    pub(super) fn length(&self) -> usize {
        self.length as usize
    }

    /// Returns whether the file still begins with these bytes.
    pub(super) fn fits(&self, file: &File, buffer: &LogBuffer) -> bool {
        self.length() <= buffer.len() && LogFingerprint::of(file, buffer, self.length()).is_ok_and(|now| now == *self)
    }

    pub(super) fn words(&self) -> [u64; LogFingerprint::WORDS] {
        [self.device, self.inode, self.length, self.head, self.tail]
    }

    pub(super) fn from_words([device, inode, length, head, tail]: [u64; LogFingerprint::WORDS]) -> LogFingerprint {
        LogFingerprint { device, inode, length, head, tail }
    }
}
