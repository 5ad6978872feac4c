//! The text of a manifest, and the state of its file when it was read.

use std::fs::File;
use std::io::{self, Read};

use tanto_sys::fs::file::{path, too_large};
use tanto_sys::fs::file_stamp::{self, FileStamp, FsClock};
use tanto_sys::memory::map::{MIN_MAPPED_SIZE, Map};

use crate::hash;

pub struct Source {
    text: Text,
    state: Option<SourceState>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceState {
    pub(crate) stamp: FileStamp,
    /// Hash of the text, if a later change could leave the same stamp.
    pub(crate) text_hash: Option<u64>,
}

enum Text {
    Read(Vec<u8>),
    /// The file stays open for later checks of its state.
    Mapped(Map, File),
}

/// Attempts to read a file that changes while it is being read.
const MAX_ATTEMPTS: usize = 8;

impl Source {
    /// Text without a file, or of a file in unknown state.
    pub fn in_memory(text: Vec<u8>) -> Self {
        Source { text: Text::Read(text), state: None }
    }

    /// Reads or maps the file; fails with `EFBIG` if it is longer than `limit` bytes.
    pub(super) fn open(name: &[u8], limit: u64) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let began = file_stamp::coarse_now();
            let mut file = File::open(path(name))?;
            let stamp = FileStamp::of(&file)?;
            if stamp.size > limit {
                return Err(too_large());
            }
            let state = |file: &File, text: &[u8]| {
                let text_hash = is_racy(stamp, began, file).then(|| hash::text_hash(text));
                Some(SourceState { stamp, text_hash })
            };
            if stamp.is_regular
                && stamp.size >= MIN_MAPPED_SIZE
                && let Ok(map) = Map::new(&file, stamp.size)
            {
                // Hashed before the text is used, so that later changes are not part of the hash.
                let state = state(&file, &map);
                return Ok(Source { text: Text::Mapped(map, file), state });
            }
            let mut text = Vec::with_capacity(stamp.size as usize + 1);
            // The size of a device or pipe is unknown.
            (&mut file).take(limit + 1).read_to_end(&mut text)?;
            if text.len() as u64 > limit {
                return Err(too_large());
            }
            if !stamp.is_regular {
                return Ok(Source::in_memory(text));
            }
            if text.len() as u64 == stamp.size && FileStamp::of(&file)? == stamp {
                let state = state(&file, &text);
                return Ok(Source { text: Text::Read(text), state });
            }
        }
        Err(io::Error::other("it changed while it was being read"))
    }

    /// Returns the text, or the remaining part if the file was truncated meanwhile.
    pub fn bytes(&self) -> &[u8] {
        match &self.text {
            Text::Read(text) => text,
            Text::Mapped(map, _) => map.bytes(),
        }
    }

    /// Bytes of heap memory that the text occupies.
    pub(crate) fn owned_bytes(&self) -> usize {
        match &self.text {
            Text::Read(text) => text.len(),
            Text::Mapped(..) => 0,
        }
    }

    /// Releases memory of a part that will hardly be needed again.
    pub(crate) fn release(&self, part: std::ops::Range<usize>) {
        if let Text::Mapped(map, _) = &self.text {
            map.release(part);
        }
    }

    /// Checks whether the file is still as it was when it was opened.
    pub(crate) fn is_unchanged(&self) -> bool {
        match (&self.text, &self.state) {
            (Text::Mapped(map, file), Some(state)) => {
                !map.is_torn() && FileStamp::of(file).is_ok_and(|now| now == state.stamp)
            }
            _ => true,
        }
    }

    /// State of the file; `None` if it is not a regular file.
    pub(crate) fn state(&self) -> Option<SourceState> {
        self.state
    }

    /// Returns the text, copied if it is mapped.
    pub(crate) fn into_text(self) -> Vec<u8> {
        match self.text {
            Text::Read(text) => text,
            Text::Mapped(map, _) => map.bytes().to_vec(),
        }
    }
}

/// Returns true if the file could change without a change of its stamp.
pub(crate) fn is_racy(stamp: FileStamp, began: i64, file: &File) -> bool {
    // The type of the file system is queried only if it matters.
    stamp.is_racy(began, FsClock::Foreign) && stamp.is_racy(began, FsClock::of(file))
}
