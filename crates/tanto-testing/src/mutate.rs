//! Mutates valid inputs.

use crate::Random;

/// Maximum length of inputs.
const LONGEST: usize = 4096;
/// Numbers that break sizes and offsets.
const EDGES: [u32; 10] = [0, 1, 3, 4, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, 0x8000_000c, 0xffff_ffff];

pub struct Material<'a> {
    /// Whole inputs, at least one, mostly valid.
    pub seeds: Vec<Vec<u8>>,
    /// Words of the language, at least one.
    pub tokens: &'a [&'a [u8]],
    /// Length of the header, which is seldom changed: behind a broken one, nothing is read.
    pub head: usize,
}

impl Material<'_> {
    /// Returns a seed with some changes, mostly few.
    pub fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(&self.seeds).clone();
        for _ in 0..=random.number().trailing_zeros().min(8) {
            self.change(&mut input, random);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        // A broken header hides everything after it.
        let head = if random.below(16) == 0 { 0 } else { self.head.min(input.len()) };
        let at = head + random.below(input.len() - head + 1);
        let longest = if random.below(4) == 0 { LONGEST } else { 16 };
        let until = at + random.below((input.len() - at).min(longest) + 1);
        match random.below(12) {
            0 => input.truncate(at),
            1 | 2 => drop(input.drain(at..until)),
            3 | 4 => {
                let piece = input[at..until].to_vec();
                insert(input, at, &piece);
            }
            5 => insert(input, at, &[random.number() as u8]),
            6 => insert(input, at, &random.pick(&EDGES).to_le_bytes()),
            7 | 8 => overwrite(input, at, random),
            9 | 10 => insert(input, at, random.pick::<&[u8]>(self.tokens)),
            _ => {
                let other = random.pick(&self.seeds);
                let from = if random.below(2) == 0 { self.head } else { random.below(other.len() + 1) };
                input.truncate(at);
                input.extend_from_slice(&other[from.min(other.len())..]);
            }
        }
    }
}

/// Calls `test` with the texts and `rounds` variants of them, the same in every run. `letters` are those with a meaning
/// in the language.
pub fn each_variant(texts: &[&str], letters: &[u8], rounds: u64, mut test: impl FnMut(&[u8])) {
    let seeds = texts.iter().map(|&text| text.into()).collect();
    let tokens: Vec<&[u8]> = letters.chunks(1).collect();
    let material = Material { seeds, tokens: &tokens, head: 0 };
    material.seeds.iter().for_each(|text| test(text));
    for seed in 0..rounds {
        test(&material.input(&mut Random::new(seed)));
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// Overwrites one byte, or four at a place where a number may be.
fn overwrite(input: &mut [u8], at: usize, random: &mut Random) {
    if random.below(2) == 0 {
        if let Some(byte) = input.get_mut(at) {
            *byte = random.number() as u8;
        }
    } else if let Some(number) = input.get_mut(at / 4 * 4..at / 4 * 4 + 4) {
        number.copy_from_slice(&random.pick(&EDGES).to_le_bytes());
    }
}
