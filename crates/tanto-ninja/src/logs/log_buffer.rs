//! The bytes of a log: the file, read or mapped, followed by the bytes appended since.

use std::ops::{Deref, Range};
use std::sync::Arc;

use tanto_sys::memory::map::Map;

pub(super) enum Content {
    Read(Vec<u8>),
    /// Shows changes made to the file by others.
    Mapped(Map),
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::Read(bytes) => bytes,
            Content::Mapped(map) => map,
        }
    }
}

/// Bytes addressed by file offset, in two parts. No line or record spans both.
#[derive(Clone)]
pub(super) struct LogBuffer {
    loaded: Arc<Content>,
    /// The number of valid bytes in `loaded`.
    valid: usize,
    appended: Vec<u8>,
}

impl Default for LogBuffer {
    fn default() -> Self {
        Content::Read(Vec::new()).into()
    }
}

impl From<Content> for LogBuffer {
    fn from(loaded: Content) -> Self {
        LogBuffer { valid: loaded.len(), loaded: Arc::new(loaded), appended: Vec::new() }
    }
}

impl LogBuffer {
    pub(super) fn len(&self) -> usize {
        self.valid + self.appended.len()
    }

    /// The bytes from `at` to the end of its part; empty past the end.
    #[inline]
    pub(super) fn rest(&self, at: usize) -> &[u8] {
        match at.checked_sub(self.valid) {
            None => self.loaded.get(at..self.valid).unwrap_or_default(),
            Some(at) => self.appended.get(at..).unwrap_or_default(),
        }
    }

    /// Returns whether a read from the mapping failed because the file was cut. The bytes are then not those of the
    /// file.
    pub(super) fn is_torn(&self) -> bool {
        match &*self.loaded {
            Content::Read(_) => false,
            Content::Mapped(map) => map.is_torn(),
        }
    }

    /// Lets the kernel drop pages read so far; they can be read again.
    pub(super) fn release(&self) {
        if let Content::Mapped(map) = &*self.loaded {
            map.release(0..map.len());
        }
    }

    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.loaded[..self.valid], &self.appended]
    }

    /// Copies the part of the range that exists.
    pub(super) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let range = range.start..range.end.min(self.len());
        let loaded = &self.loaded[range.start.min(self.valid)..range.end.min(self.valid)];
        let appended = &self.appended[range.start.saturating_sub(self.valid)..range.end.saturating_sub(self.valid)];
        [loaded, appended].concat()
    }

    /// Adds content without copying it if the buffer is empty.
    pub(super) fn add(&mut self, content: Content) {
        if self.len() == 0 {
            *self = content.into();
        } else {
            self.push(&content);
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.appended.extend_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.appended.truncate(len.saturating_sub(self.valid));
        self.valid = self.valid.min(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_addressed_by_file_offset() {
        let mut buffer = LogBuffer::default();
        assert_eq!((buffer.len(), buffer.rest(0)), (0, b"".as_slice()));
        buffer.add(Content::Read(b"abc".to_vec()));
        buffer.add(Content::Read(b"de".to_vec()));
        buffer.push(b"f");
        assert_eq!(
            (buffer.len(), buffer.rest(1), buffer.rest(3), buffer.rest(5)),
            (6, &b"bc"[..], &b"def"[..], &b"f"[..])
        );
        assert_eq!((buffer.rest(6), buffer.rest(7)), (b"".as_slice(), b"".as_slice()));
        assert_eq!(buffer.parts(), [b"abc".as_slice(), b"def"]);
        assert_eq!(
            [buffer.copy(1..2), buffer.copy(2..5), buffer.copy(3..9), buffer.copy(6..6)],
            [&b"b"[..], b"cde", b"def", b""]
        );
        buffer.truncate(4);
        assert_eq!(buffer.parts(), [b"abc".as_slice(), b"d"]);
        buffer.truncate(2);
        buffer.push(b"x");
        assert_eq!((buffer.len(), buffer.parts()), (3, [b"ab".as_slice(), b"x"]));
    }

    #[test]
    fn mapped_file_can_be_read() {
        let dir = tanto_testing::Scratch::new("buffer");
        dir.write("f", "content");
        let file = std::fs::File::open(dir.at("f")).expect("open");
        let content = Content::Mapped(Map::new(&file, 7).expect("map"));
        let mut buffer = LogBuffer::default();
        buffer.add(content);
        assert!(!buffer.is_torn());
        assert_eq!(buffer.rest(3), b"tent");
    }
}
