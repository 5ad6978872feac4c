//! The order of runs.

use crate::random::Random;

/// Returns rounds that contain each number of jobs once, so that drifts affect all alike, and an interrupted experiment
/// has about the same number of runs of each. Each round is shuffled if there is a seed.
pub fn run_order(counts: &[u32], runs: usize, seed: Option<u64>) -> Vec<u32> {
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

/// Removes runs that are done.
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
    fn rounds_contain_each_number_once() {
        assert_eq!(run_order(&[4, 1], 2, None), [4, 1, 4, 1]);
        let counts: Vec<u32> = (1..=8).collect();
        let shuffled = run_order(&counts, 3, Some(7));
        assert_eq!(shuffled, run_order(&counts, 3, Some(7)));
        assert_ne!(shuffled, run_order(&counts, 3, Some(8)));
        for round in shuffled.chunks(8) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, counts);
        }
        assert_ne!(shuffled[..8], shuffled[8..16]);
    }

    #[test]
    fn first_places_are_uniform() {
        let counts = [1, 2, 3, 4];
        let order = run_order(&counts, 4000, Some(1));
        let firsts = |count| order.chunks(4).filter(|round| round[0] == count).count();
        assert!(counts.iter().all(|&count| (900..1100).contains(&firsts(count))));
    }

    #[test]
    fn completed_runs_are_removed() {
        assert_eq!(remaining(vec![1, 2, 1, 2], [2, 1, 1].into_iter()), [2]);
        assert_eq!(remaining(vec![1, 2], [1, 1, 5].into_iter()), [2]);
        assert_eq!(remaining(vec![1, 2], std::iter::empty()), [1, 2]);
    }
}
