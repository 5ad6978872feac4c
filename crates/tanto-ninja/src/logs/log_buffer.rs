//! A log's bytes: the file as it was read or mapped, and what came after. Does not know what the bytes mean.

use std::ops::{Deref, Range};
use std::sync::Arc;

use tanto_sys::memory::map::Map;

/// What a file held when it was looked at.
pub(super) enum Content {
    /// A copy.
    Read(Vec<u8>),
    /// The file itself: whoever changes it changes what is seen here.
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

/// The bytes of a log by their places in the file, in two parts. Nothing of meaning lies across both.
#[derive(Clone)]
pub(super) struct LogBuffer {
    loaded: Arc<Content>,
    /// How many bytes of `loaded` count.
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
    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.valid + self.appended.len()
    }

    /// What lies at `at` and behind it in the same part; nothing past the end.
    #[inline]
    pub(super) fn rest(&self, at: usize) -> &[u8] {
        match at.checked_sub(self.valid) {
            None => self.loaded.get(at..self.valid).unwrap_or_default(),
            Some(at) => self.appended.get(at..).unwrap_or_default(),
        }
    }

    /// Was something of the file not there when it was read? Then this is no picture of it.
    pub(super) fn is_torn(&self) -> bool {
        match &*self.loaded {
            Content::Read(_) => false,
            Content::Mapped(map) => map.is_torn(),
        }
    }

    /// Gives back the memory of what was read so far; it may be read again.
    pub(super) fn release(&self) {
        if let Content::Mapped(map) = &*self.loaded {
            map.release(0..map.len());
        }
    }

    /// Both parts.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.loaded[..self.valid], &self.appended]
    }

    /// A copy of these bytes, as far as they are there.
    pub(super) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let range = range.start..range.end.min(self.len());
        let loaded = &self.loaded[range.start.min(self.valid)..range.end.min(self.valid)];
        let appended = &self.appended[range.start.saturating_sub(self.valid)..range.end.saturating_sub(self.valid)];
        [loaded, appended].concat()
    }

    /// More of the file.
    pub(super) fn add(&mut self, content: Content) {
        if self.len() == 0 {
            *self = content.into();
        } else {
            self.push(&content);
        }
    }

    /// More of the file, which is copied.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.appended.extend_from_slice(bytes);
    }

    /// Forgets all but the loaded `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        self.appended.truncate(len.saturating_sub(self.valid));
        self.valid = self.valid.min(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_places_in_the_file() {
        let mut image = LogBuffer::default();
        assert_eq!((image.len(), image.rest(0)), (0, b"".as_slice()));
        image.add(Content::Read(b"abc".to_vec()));
        image.add(Content::Read(b"de".to_vec()));
        image.push(b"f");
        assert_eq!((image.len(), image.rest(1), image.rest(3), image.rest(5)), (6, &b"bc"[..], &b"def"[..], &b"f"[..]));
        assert_eq!((image.rest(6), image.rest(7)), (b"".as_slice(), b"".as_slice()));
        assert_eq!(image.parts(), [b"abc".as_slice(), b"def"]);
        assert_eq!(
            [image.copy(1..2), image.copy(2..5), image.copy(3..9), image.copy(6..6)],
            [&b"b"[..], b"cde", b"def", b""]
        );
        image.truncate(4);
        assert_eq!(image.parts(), [b"abc".as_slice(), b"d"]);
        image.truncate(2);
        image.push(b"x");
        assert_eq!((image.len(), image.parts()), (3, [b"ab".as_slice(), b"x"]));
    }

    #[test]
    fn a_mapped_file_is_as_good_as_a_read_one() {
        let dir = tanto_testing::Scratch::new("image");
        dir.write("f", "content");
        let file = std::fs::File::open(dir.at("f")).expect("open");
        let content = Content::Mapped(Map::new(&file, 7).expect("map"));
        let mut image = LogBuffer::default();
        image.add(content);
        assert!(!image.is_torn());
        assert_eq!(image.rest(3), b"tent");
    }
}
