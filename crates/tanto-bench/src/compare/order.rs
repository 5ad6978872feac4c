//! Random orders of the commands.

use crate::random::Random;

/// Shuffles the commands of each round.
///
/// The confidence intervals require this: with equal commands, each ratio is independently as likely above 1 as below,
/// for any background load, including drifts and loads with the period of a fixed order.
pub struct RandomOrder {
    random: Random,
    variants: usize,
}

impl RandomOrder {
    pub fn new(seed: u64, variants: usize) -> RandomOrder {
        RandomOrder { random: Random::new(seed), variants }
    }

    /// Returns the order of the next round.
    pub fn next(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.variants).collect();
        self.random.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_orders() {
        let orders = |seed: u64| {
            let mut order = RandomOrder::new(seed, 2);
            (0..40).map(|_| order.next()).collect::<Vec<_>>()
        };
        assert_eq!(orders(3), orders(3));
        assert_ne!(orders(3), orders(4));
    }

    #[test]
    fn orders_are_uniform_and_independent() {
        for variants in 2..=5 {
            let mut order = RandomOrder::new(1, variants);
            let rounds: Vec<_> = (0..6000).map(|_| order.next()).collect();
            let near = |count: usize, expected: usize| count.abs_diff(expected) < 6000 / 40;
            for variant in 0..variants {
                for place in 0..variants {
                    let count = rounds.iter().filter(|order| order[place] == variant).count();
                    assert!(near(count, 6000 / variants), "{variant} at {place} of {variants}: {count}");
                }
            }
            let again = rounds.windows(2).filter(|two| two[0][0] == two[1][0]).count();
            assert!(near(again, 6000 / variants), "{again} rounds of {variants} start like the previous one");
        }
    }
}
