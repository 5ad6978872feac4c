//! By what a log's file is known again: which file it is, how it begins, and what stands before the place up to which it
//! was read. When it was written says nothing: each build writes into it. Does not know what the bytes mean.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::log_buffer::LogBuffer;
use crate::hash::rapidhash;

/// How many bytes at the beginning are compared: the signature and the version of either log.
const HEAD: usize = 15;

/// How many bytes are compared before the end. Larger, more is read each time; smaller, a log that was written again and
/// happens to be in the same file is more often taken for the old one.
const TAIL: usize = 4096;

/// What is known of a file's first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogFingerprint {
    device: u64,
    inode: u64,
    /// How many bytes.
    length: u64,
    head: u64,
    tail: u64,
}

impl LogFingerprint {
    /// How many words it has.
    pub(super) const WORDS: usize = 5;

    /// That of the first `length` bytes of a file, which `image` shows.
    pub(super) fn of(file: &File, image: &LogBuffer, length: usize) -> io::Result<LogFingerprint> {
        let data = file.metadata()?;
        Ok(LogFingerprint {
            device: data.dev(),
            inode: data.ino(),
            length: length as u64,
            head: rapidhash(&image.copy(0..length.min(HEAD))),
            tail: rapidhash(&image.copy(length.saturating_sub(TAIL)..length)),
        })
    }

    /// How many bytes it is of.
    pub(super) fn length(&self) -> usize {
        self.length as usize
    }

    /// Does the file still begin with these bytes? `image` shows what it begins with now.
    pub(super) fn fits(&self, file: &File, image: &LogBuffer) -> bool {
        self.length() <= image.len() && LogFingerprint::of(file, image, self.length()).is_ok_and(|now| now == *self)
    }

    /// As words, to be kept.
    pub(super) fn words(&self) -> [u64; LogFingerprint::WORDS] {
        [self.device, self.inode, self.length, self.head, self.tail]
    }

    /// From its words.
    pub(super) fn from_words([device, inode, length, head, tail]: [u64; LogFingerprint::WORDS]) -> LogFingerprint {
        LogFingerprint { device, inode, length, head, tail }
    }
}
