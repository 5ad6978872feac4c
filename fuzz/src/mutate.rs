//! Seeds and tokens to inputs, by a generator of random numbers whose seed replays them. Does not know what is
//! fuzzed.

/// Inputs do not grow beyond this.
const LONGEST: usize = 4096;
/// Numbers at which sizes and offsets go wrong.
const EDGES: [u32; 10] = [0, 1, 3, 4, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, 0x8000_000c, 0xffff_ffff];

/// Random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// One of these; none of none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }
}

/// What inputs are made of.
pub struct Material {
    /// Whole inputs, most of them sound.
    pub seeds: Vec<Vec<u8>>,
    /// Words of the language.
    pub tokens: &'static [&'static [u8]],
    /// This many bytes at the front, without which nothing else is read, are most often left alone.
    pub head: usize,
}

impl Material {
    /// An input: a seed with some changes, most often few.
    pub fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(&self.seeds).cloned().unwrap_or_default();
        for _ in 0..=random.next().trailing_zeros().min(8) {
            self.change(&mut input, random);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        // A broken head hides all that follows it.
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
            5 => insert(input, at, &[random.next() as u8]),
            6 => insert(input, at, random.pick(&EDGES).unwrap_or(&0).to_le_bytes().as_slice()),
            7 | 8 => overwrite(input, at, random),
            9 | 10 => insert(input, at, random.pick(self.tokens).copied().unwrap_or_default()),
            _ => {
                let other = random.pick(&self.seeds).cloned().unwrap_or_default();
                let from = if random.below(2) == 0 { self.head } else { random.below(other.len() + 1) };
                input.truncate(at);
                input.extend_from_slice(&other[from.min(other.len())..]);
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// One byte, or four at a place where a number may stand.
fn overwrite(input: &mut [u8], at: usize, random: &mut Random) {
    if random.below(2) == 0 {
        if let Some(byte) = input.get_mut(at) {
            *byte = random.next() as u8;
        }
    } else if let Some(number) = input.get_mut(at / 4 * 4..at / 4 * 4 + 4) {
        number.copy_from_slice(&random.pick(&EDGES).unwrap_or(&0).to_le_bytes());
    }
}
