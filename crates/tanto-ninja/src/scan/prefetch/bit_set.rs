//! A set of small integers.

pub(super) struct BitSet(Vec<u64>);

impl BitSet {
    /// An empty set for numbers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        BitSet(vec![0; limit.div_ceil(64)])
    }

    #[inline]
    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    #[inline]
    pub(super) fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    /// All numbers in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_iterated_in_order() {
        let numbers = [0, 1, 63, 64, 127, 130];
        let mut bit_set = BitSet::new(131);
        numbers.iter().rev().for_each(|&number| bit_set.add(number));
        assert!(bit_set.iter().eq(numbers));
        assert!((0..131).all(|number| bit_set.has(number) == numbers.contains(&number)));
        assert_eq!(BitSet::new(0).iter().count(), 0);
    }
}
