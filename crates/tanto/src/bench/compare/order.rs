//! The order of the commands in each round.

use crate::bench::shuffle::Random;

/// Puts the commands of each round into a random order.
///
/// With equal commands the order alone decides which of both gets the slower place of a pair. So each ratio is as likely
/// above 1 as below, independently of all others, for any load of the machine: bursts, drift, or a load whose period a
/// fixed order might share. The intervals rest on that.
pub struct Order {
    random: Random,
    sides: usize,
}

impl Order {
    /// The orders that follow from a seed.
    pub fn new(seed: u64, sides: usize) -> Order {
        Order { random: Random::new(seed), sides }
    }

    /// The order of the next round.
    pub fn next(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.sides).collect();
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
            let mut order = Order::new(seed, 2);
            (0..40).map(|_| order.next()).collect::<Vec<_>>()
        };
        assert_eq!(orders(3), orders(3));
        assert_ne!(orders(3), orders(4));
    }

    #[test]
    fn all_have_each_place_about_as_often_and_no_round_depends_on_the_one_before() {
        for sides in 2..=5 {
            let mut order = Order::new(1, sides);
            let rounds: Vec<_> = (0..6000).map(|_| order.next()).collect();
            let near = |count: usize, expected: usize| count.abs_diff(expected) < 6000 / 40;
            for side in 0..sides {
                for place in 0..sides {
                    let count = rounds.iter().filter(|order| order[place] == side).count();
                    assert!(near(count, 6000 / sides), "{side} at {place} of {sides}: {count}");
                }
            }
            let again = rounds.windows(2).filter(|two| two[0][0] == two[1][0]).count();
            assert!(near(again, 6000 / sides), "{again} rounds of {sides} begin as the one before");
        }
    }
}
