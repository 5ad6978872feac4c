//! Random changes of a few texts, the same in every run, for tests of the parsers. Does not know the formats.

/// A small generator of numbers (xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// Gives `test` the texts, and `rounds` variants of them with bytes of `alphabet` put in, and others doubled, left
/// out or swapped.
pub(crate) fn each(texts: &[&str], alphabet: &[u8], rounds: usize, mut test: impl FnMut(&[u8])) {
    let mut numbers = Numbers::new(1);
    texts.iter().for_each(|text| test(text.as_bytes()));
    for _ in 0..rounds {
        let mut text = texts[numbers.below(texts.len())].as_bytes().to_vec();
        for _ in 0..=numbers.below(4) {
            change(&mut text, alphabet, &mut numbers);
        }
        test(&text);
    }
}

fn change(text: &mut Vec<u8>, alphabet: &[u8], numbers: &mut Numbers) {
    let at = numbers.below(text.len() + 1);
    let end = (at + numbers.below(8)).min(text.len());
    match numbers.below(5) {
        0 => text.insert(at, alphabet[numbers.below(alphabet.len())]),
        1 if at < text.len() => text[at] = alphabet[numbers.below(alphabet.len())],
        2 => drop(text.drain(at..end)),
        3 => {
            let part = text[at..end].to_vec();
            let to = numbers.below(text.len() + 1);
            text.splice(to..to, part);
        }
        _ => text.truncate(at),
    }
}
