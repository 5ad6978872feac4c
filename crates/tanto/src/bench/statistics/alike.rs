//! Which of several groups of numbers cannot be told from the one with the smallest. Does not know what they measure.
//!
//! Times are compared by their ratios, so by their logarithms. All groups are taken to scatter alike, for most have too
//! few numbers to say how they scatter themselves; how far two medians may be apart by chance follows Student's
//! distribution. All pairs are considered at once (Bonferroni), for the smallest was picked after the fact.

use std::f64::consts::FRAC_PI_2;

use super::quantile::median;

/// What is known of the groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Alike {
    /// The one with the smallest median.
    pub best: usize,
    /// Those that cannot be told from it, without it, in their order. None if nothing says how numbers scatter, as
    /// with one number in each group.
    pub alike: Option<Vec<usize>>,
}

/// The chance that a group is told apart that is not.
const MISTAKES: f64 = 0.05;
/// For normal numbers half of all distances are below so many standard deviations.
const OF_DISTANCES: f64 = 0.9539;
/// For normal numbers that median is worth so much of what all numbers are.
const WORTH: f64 = 0.5;
/// For normal numbers the median scatters so much more than the mean.
const OF_MEDIAN: f64 = 1.2533;

/// Compares groups of positive numbers. None if there is no group, or one without numbers.
pub fn alike(groups: &[Vec<f64>]) -> Option<Alike> {
    let logs: Vec<Vec<f64>> = groups.iter().map(|group| group.iter().map(|value| value.ln()).collect()).collect();
    let medians = logs.iter().map(|group| median(group)).collect::<Option<Vec<f64>>>()?;
    let best = (0..medians.len()).min_by(|&one, &other| medians[one].total_cmp(&medians[other]))?;
    let alike = scatter(&logs).map(|(scatter, freedom)| {
        let pairs = (groups.len() * (groups.len() - 1) / 2).max(1) as f64;
        let most = student(1.0 - MISTAKES / pairs, freedom) * scatter;
        let error = |count: usize| (if count < 3 { 1.0 } else { OF_MEDIAN }) / (count as f64).sqrt();
        let apart = |at: usize| most * error(groups[at].len()).hypot(error(groups[best].len()));
        (0..groups.len()).filter(|&at| at != best && medians[at] - medians[best] <= apart(at)).collect()
    });
    Some(Alike { best, alike })
}

/// How far numbers of a group lie apart, as a standard deviation, and how many numbers beyond the first of each group
/// there are to tell it. By the median of all distances: of runs that go wrong some go wrong by a lot.
fn scatter(groups: &[Vec<f64>]) -> Option<(f64, usize)> {
    let freedom: usize = groups.iter().map(|group| group.len() - 1).sum();
    let within = |group: &Vec<f64>| {
        let pairs = (0..group.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.map(|(one, other)| (group[one] - group[other]).abs()).collect::<Vec<f64>>()
    };
    let distances: Vec<f64> = groups.iter().flat_map(within).collect();
    let usual = median(&distances)? / OF_DISTANCES;
    Some((usual, ((freedom as f64 * WORTH) as usize).max(1)))
}

/// Between minus this and this lies Student's t with so much freedom, with this chance.
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

/// The chance that Student's t lies between minus `t` and `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4).
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
    fn students_quantiles_are_those_of_the_tables() {
        let table =
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (1000, 1.962)];
        for (freedom, expected) in table {
            let found = student(0.95, freedom);
            assert!((found - expected).abs() < 0.001, "{freedom}: {found}");
        }
        assert!((student(0.999, 7) - 5.408).abs() < 0.001);
    }

    #[test]
    fn the_best_and_its_likes() {
        let groups = [vec![10.0, 10.1, 10.2], vec![5.0, 5.1, 4.9], vec![5.05, 5.1, 4.95], vec![8.0]];
        assert_eq!(alike(&groups), Some(Alike { best: 1, alike: Some(vec![2]) }));
        assert_eq!(alike(&[vec![2.0], vec![1.0]]), Some(Alike { best: 1, alike: None }));
        assert_eq!(alike(&[vec![2.0, 2.1]]), Some(Alike { best: 0, alike: Some(vec![]) }));
        assert_eq!((alike(&[]), alike(&[vec![1.0], vec![]])), (None, None));
    }

    /// A number that scatters as most times do: mostly by little, and now and then upwards.
    fn noise(random: &mut Random) -> f64 {
        let uniform = |random: &mut Random| random.below(1_000_000) as f64 / 1e6;
        let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
        let hiccup = if random.below(20) == 0 { 0.05 } else { 0.0 };
        (0.01 * normal).exp() + hiccup
    }

    /// How often in a thousand experiments an equal was told apart, and how often the slow one was taken for the best:
    /// eight that are equal, and one that is slower, each with so many runs.
    fn mistakes(runs: usize, slower: f64) -> (u64, u64) {
        let (mut wrong, mut missed) = (0, 0);
        for seed in 0..TRIES {
            let mut random = Random::new(seed);
            let mut group = |factor: f64| (0..runs).map(|_| factor * noise(&mut random)).collect::<Vec<f64>>();
            let mut groups: Vec<Vec<f64>> = (0..8).map(|_| group(1.0)).collect();
            groups.push(group(slower));
            let Some(Alike { best, alike: Some(found) }) = alike(&groups) else { continue };
            wrong += u64::from(found.iter().chain([&best]).filter(|&&at| at < 8).count() < 8);
            missed += u64::from(found.contains(&8));
        }
        (wrong, missed)
    }

    const TRIES: u64 = 1000;

    #[test]
    fn equals_are_hardly_ever_told_apart_and_others_are() {
        for (runs, slower) in [(2, 1.3), (3, 1.2), (5, 1.2), (10, 1.1)] {
            let (wrong, missed) = mistakes(runs, slower);
            assert!(wrong <= TRIES / 20, "{runs} runs: {wrong} of {TRIES} times an equal was told apart");
            assert!(missed <= TRIES / 20, "{runs} runs: {missed} of {TRIES} times the slow one was taken for the best");
        }
    }

    #[test]
    fn one_run_that_went_wrong_hides_no_difference() {
        let groups = [vec![13.2, 13.0, 13.9], vec![9.1, 8.9, 9.5], vec![9.4, 9.0, 33.9], vec![9.6, 9.4, 9.8]];
        assert_eq!(alike(&groups), Some(Alike { best: 1, alike: Some(vec![2, 3]) }));
    }
}
