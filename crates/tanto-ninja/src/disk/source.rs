//! The text of a manifest and the state of the file that it was read from. Does not know what the text means.

use std::fs::File;
use std::io::{self, Read};

use tanto_sys::fs::file::{path, too_large};
use tanto_sys::fs::file_stamp::{self, FileStamp, FsClock};
use tanto_sys::memory::map::{MIN_MAPPED_SIZE, Map};

use crate::hash;

/// A manifest's text.
pub struct Source {
    text: Text,
    state: Option<SourceState>,
}

/// The state of a file when its text was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceState {
    pub(crate) stamp: FileStamp,
    /// Of the text, if the file could be changed afterwards and have the same stamp.
    pub(crate) text_hash: Option<u64>,
}

enum Text {
    Read(Vec<u8>),
    /// The file stays open, so that its state can be asked for again.
    Mapped(Map, File),
}

/// So often a file that changes while it is being read is read anew.
const MAX_ATTEMPTS: usize = 8;

impl Source {
    /// Text that is in no file, or in one of which nothing more is known.
    pub fn in_memory(text: Vec<u8>) -> Self {
        Source { text: Text::Read(text), state: None }
    }

    /// Reads or maps the file; one longer than `limit` bytes is `EFBIG`.
    pub(super) fn open(name: &[u8], limit: u64) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let began = file_stamp::coarse_now();
            let mut file = File::open(path(name))?;
            let stamp = FileStamp::of(&file)?;
            if stamp.size > limit {
                return Err(too_large());
            }
            if stamp.is_regular
                && stamp.size >= MIN_MAPPED_SIZE
                && let Ok(map) = Map::new(&file, stamp.size)
            {
                // Before anybody reads it: what changes in between is not what the text_hash is of.
                let state =
                    SourceState { stamp, text_hash: is_racy(stamp, began, &file).then(|| hash::text_hash(&map)) };
                return Ok(Source { text: Text::Mapped(map, file), state: Some(state) });
            }
            let mut text = Vec::with_capacity(stamp.size as usize + 1);
            // A device or a pipe does not say its length.
            (&mut file).take(limit + 1).read_to_end(&mut text)?;
            if text.len() as u64 > limit {
                return Err(too_large());
            }
            if !stamp.is_regular {
                return Ok(Source::in_memory(text));
            }
            if text.len() as u64 == stamp.size && FileStamp::of(&file)? == stamp {
                let state =
                    SourceState { stamp, text_hash: is_racy(stamp, began, &file).then(|| hash::text_hash(&text)) };
                return Ok(Source { text: Text::Read(text), state: Some(state) });
            }
        }
        Err(io::Error::other("it changes while it is being read"))
    }

    /// The text, or what is left of it if somebody cut the file meanwhile.
    pub fn bytes(&self) -> &[u8] {
        match &self.text {
            Text::Read(text) => text,
            Text::Mapped(map, _) => map.bytes(),
        }
    }

    /// How many bytes of memory the text takes for itself.
    pub(crate) fn owned_bytes(&self) -> usize {
        match &self.text {
            Text::Read(text) => text.len(),
            Text::Mapped(..) => 0,
        }
    }

    /// A part of the text will hardly be asked for again.
    pub(crate) fn release(&self, part: std::ops::Range<usize>) {
        if let Text::Mapped(map, _) = &self.text {
            map.release(part);
        }
    }

    /// Is the file what it was when it was opened?
    pub(crate) fn is_unchanged(&self) -> bool {
        match (&self.text, &self.state) {
            (Text::Mapped(map, file), Some(state)) => {
                !map.is_torn() && FileStamp::of(file).is_ok_and(|now| now == state.stamp)
            }
            _ => true,
        }
    }

    /// The state of the file; None for what is in no regular file.
    pub(crate) fn state(&self) -> Option<SourceState> {
        self.state
    }

    /// The text alone, copied if need be.
    pub(crate) fn into_text(self) -> Vec<u8> {
        match self.text {
            Text::Read(text) => text,
            Text::Mapped(map, _) => map.bytes().to_vec(),
        }
    }
}

/// Could the file be changed and have the same stamp?
pub(crate) fn is_racy(stamp: FileStamp, began: i64, file: &File) -> bool {
    // The file system is asked only where its answer matters.
    stamp.is_racy(began, FsClock::Foreign) && stamp.is_racy(began, FsClock::of(file))
}
