//! A deterministic random number generator.

/// xorshift64*.
pub struct Dice(u64);

impl Dice {
    /// Neighboring seeds give different sequences.
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("less than a usize")
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Up to `most` elements, in order.
    pub fn some<T: Clone>(&mut self, from: &[T], most: usize) -> Vec<T> {
        let count = self.below(most + 1).min(from.len());
        let mut at: Vec<usize> = (0..count).map(|_| self.below(from.len())).collect();
        at.sort_unstable();
        at.dedup();
        at.into_iter().map(|at| from[at].clone()).collect()
    }
}
