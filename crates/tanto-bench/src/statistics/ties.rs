//! Finds the groups that are not significantly slower than the fastest one.
//!
//! Times are compared by their ratios, hence logarithms. All groups are assumed to have the same scatter, because most are
//! too small to estimate their own. The difference of two medians follows Student's distribution. The Bonferroni
//! correction covers all pairs, because the fastest group is chosen after measuring.

use std::f64::consts::FRAC_PI_2;

use super::summary::median;

#[derive(Clone, PartialEq, Debug)]
pub struct Ties {
    /// The index of the group with the smallest median.
    pub best: usize,
    /// Indexes of groups not significantly slower, ascending, without `best`. `None` if the scatter is unknown, as with
    /// one number in each group.
    pub ties: Option<Vec<usize>>,
}

/// The probability that a tie is reported as a difference.
const SIGNIFICANCE: f64 = 0.05;
/// The median distance of two normal numbers, in standard deviations.
const MEDIAN_DISTANCE: f64 = 0.9539;
/// The efficiency of that median for normal numbers.
const EFFICIENCY: f64 = 0.5;
/// The standard error of the median relative to that of the mean, for normal numbers.
const MEDIAN_ERROR: f64 = 1.2533;

/// Compares groups of positive numbers. `None` if there is no group or an empty one.
pub fn find_ties(groups: &[Vec<f64>]) -> Option<Ties> {
    let logs: Vec<Vec<f64>> = groups.iter().map(|group| group.iter().map(|value| value.ln()).collect()).collect();
    let medians = logs.iter().map(|group| median(group)).collect::<Option<Vec<f64>>>()?;
    let best = (0..medians.len()).min_by(|&one, &other| medians[one].total_cmp(&medians[other]))?;
    let ties = scatter(&logs).map(|(scatter, freedom)| {
        let pairs = (groups.len() * (groups.len() - 1) / 2).max(1) as f64;
        let max = student(1.0 - SIGNIFICANCE / pairs, freedom) * scatter;
        let error = |count: usize| (if count < 3 { 1.0 } else { MEDIAN_ERROR }) / (count as f64).sqrt();
        let max_difference = |at: usize| max * error(groups[at].len()).hypot(error(groups[best].len()));
        (0..groups.len()).filter(|&at| at != best && medians[at] - medians[best] <= max_difference(at)).collect()
    });
    Some(Ties { best, ties })
}

/// Returns the standard deviation within groups and its degrees of freedom. The median of all distances is robust against
/// outliers.
fn scatter(groups: &[Vec<f64>]) -> Option<(f64, usize)> {
    let freedom: usize = groups.iter().map(|group| group.len() - 1).sum();
    let within = |group: &Vec<f64>| {
        let pairs = (0..group.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.map(|(one, other)| (group[one] - group[other]).abs()).collect::<Vec<f64>>()
    };
    let distances: Vec<f64> = groups.iter().flat_map(within).collect();
    let usual = median(&distances)? / MEDIAN_DISTANCE;
    Some((usual, ((freedom as f64 * EFFICIENCY) as usize).max(1)))
}

/// Returns the two-sided quantile of Student's t distribution.
fn student(chance: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while inside(high, freedom) < chance && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if inside(middle, freedom) < chance { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability that Student's t is between `-t` and `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn inside(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2;
    let mut term = if odd == 1 { cos } else { 1.0 };
    let mut sum = 0.0;
    for step in (odd..freedom.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cos * cos * (step as f64 + 1.0) / (step as f64 + 2.0);
    }
    if odd == 1 { (angle + sin * sum) / FRAC_PI_2 } else { sin * sum }.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Random;

    #[test]
    fn student_quantiles_match_published_tables() {
        let table =
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)];
        for (freedom, expected) in table {
            let found = student(0.95, freedom);
            assert!((found - expected).abs() < 0.001, "{freedom}: {found}");
        }
        assert!((student(0.999, 7) - 5.408).abs() < 0.001);
    }

    #[test]
    fn ties_of_the_best_are_found() {
        let groups = [vec![10.0, 10.1, 10.2], vec![5.0, 5.1, 4.9], vec![5.05, 5.1, 4.95], vec![8.0]];
        assert_eq!(find_ties(&groups), Some(Ties { best: 1, ties: Some(vec![2]) }));
        assert_eq!(find_ties(&[vec![2.0], vec![1.0]]), Some(Ties { best: 1, ties: None }));
        assert_eq!(find_ties(&[vec![2.0, 2.1]]), Some(Ties { best: 0, ties: Some(vec![]) }));
        assert_eq!((find_ties(&[]), find_ties(&[vec![1.0], vec![]])), (None, None));
    }

    /// Returns a time with small normal noise and occasional delays.
    fn noise(random: &mut Random) -> f64 {
        let uniform = |random: &mut Random| random.below(1_000_000) as f64 / 1e6;
        let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
        let hiccup = if random.below(20) == 0 { 0.05 } else { 0.0 };
        (0.01 * normal).exp() + hiccup
    }

    /// Simulates experiments with eight equal groups and a slower one. Returns how often an equal group was not a tie, and
    /// how often the slower one was.
    fn errors(runs: usize, slower: f64) -> (u64, u64) {
        let (mut wrong, mut missed) = (0, 0);
        for seed in 0..TRIES {
            let mut random = Random::new(seed);
            let mut group = |factor: f64| (0..runs).map(|_| factor * noise(&mut random)).collect::<Vec<f64>>();
            let mut groups: Vec<Vec<f64>> = (0..8).map(|_| group(1.0)).collect();
            groups.push(group(slower));
            let Some(Ties { best, ties: Some(found) }) = find_ties(&groups) else { continue };
            wrong += u64::from(found.iter().chain([&best]).filter(|&&at| at < 8).count() < 8);
            missed += u64::from(found.contains(&8));
        }
        (wrong, missed)
    }

    const TRIES: u64 = 1000;

    #[test]
    fn error_rates_are_below_their_limit() {
        for (runs, slower) in [(2, 1.3), (3, 1.2), (5, 1.2), (10, 1.1)] {
            let (wrong, missed) = errors(runs, slower);
            assert!(wrong <= TRIES / 20, "{runs} runs: {wrong} of {TRIES} times an equal group was no tie");
            assert!(missed <= TRIES / 20, "{runs} runs: {missed} of {TRIES} times the slower group was a tie");
        }
    }

    #[test]
    fn an_outlier_hides_no_difference() {
        let groups = [vec![13.2, 13.0, 13.9], vec![9.1, 8.9, 9.5], vec![9.4, 9.0, 33.9], vec![9.6, 9.4, 9.8]];
        assert_eq!(find_ties(&groups), Some(Ties { best: 1, ties: Some(vec![2, 3]) }));
    }
}
