//! NodeNumbering and texts to bytes and back. Does not know what they mean.

/// Bytes that are being written.
#[derive(Default)]
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text);
    }

    pub(super) fn numbers(&mut self, numbers: &[u64]) {
        self.text(bytemuck::cast_slice(numbers));
    }
}

/// Bytes that are being read. None: they are not what they should be.
pub(super) struct Decoder<'b>(pub(super) &'b [u8]);

impl<'b> Decoder<'b> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    pub(super) fn text(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn numbers(&mut self) -> Option<Vec<u64>> {
        let (numbers, []) = self.text()?.as_chunks() else { return None };
        Some(numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect())
    }

    /// As many as the bytes say there are; each is read by `one`.
    pub(super) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // An item takes at least a byte: whoever says that there are more is wrong.
        if count > self.0.len() as u64 {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }
}
