//! Encoding of numbers and texts.

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

/// Decodes bytes; returns `None` if they are malformed.
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

    /// Reads a count and as many items.
    pub(super) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // An item takes at least a byte, so that a larger count is invalid.
        if count > self.0.len() as u64 {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }
}
