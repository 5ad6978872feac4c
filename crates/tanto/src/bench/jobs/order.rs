//! In which order the runs of an experiment go. Does not know what is run.

use crate::bench::shuffle::Random;

/// All runs: rounds in each of which each number of jobs comes once, so that what drifts with time hits all alike, and
/// an interrupt leaves about as many runs of each. Shuffled by a seed, or as given.
pub fn order(counts: &[u32], runs: usize, seed: Option<u64>) -> Vec<u32> {
    let mut random = seed.map(Random::new);
    let mut order = Vec::with_capacity(counts.len() * runs);
    for _ in 0..runs {
        let mut round = counts.to_vec();
        if let Some(random) = &mut random {
            random.shuffle(&mut round);
        }
        order.extend(round);
    }
    order
}

/// What of the order is still to be run, after these.
pub fn remaining(order: Vec<u32>, done: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut done: Vec<u32> = done.collect();
    let is_left = |count: &u32| match done.iter().position(|it| it == count) {
        Some(at) => {
            done.swap_remove(at);
            false
        }
        None => true,
    };
    order.into_iter().filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_each_number_once() {
        assert_eq!(order(&[4, 1], 2, None), [4, 1, 4, 1]);
        let counts: Vec<u32> = (1..=8).collect();
        let shuffled = order(&counts, 3, Some(7));
        assert_eq!(shuffled, order(&counts, 3, Some(7)));
        assert_ne!(shuffled, order(&counts, 3, Some(8)));
        for round in shuffled.chunks(8) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, counts);
        }
        assert_ne!(shuffled[..8], shuffled[8..16]);
    }

    #[test]
    fn each_number_comes_first_about_as_often() {
        let counts = [1, 2, 3, 4];
        let order = order(&counts, 4000, Some(1));
        let firsts = |count| order.chunks(4).filter(|round| round[0] == count).count();
        assert!(counts.iter().all(|&count| (900..1100).contains(&firsts(count))));
    }

    #[test]
    fn what_was_run_is_not_run_again() {
        assert_eq!(remaining(vec![1, 2, 1, 2], [2, 1, 1].into_iter()), [2]);
        assert_eq!(remaining(vec![1, 2], [1, 1, 5].into_iter()), [2]);
        assert_eq!(remaining(vec![1, 2], std::iter::empty()), [1, 2]);
    }
}
