//! Simulated experiments with known effects and fixed seeds.

use tanto_testing::Random;

use super::interval::{Depth, Depths, LEVEL_95};
use super::pairs::{Estimate, Finding, PairResult, compare_pairs};
use super::sequential::SequentialIntervals;
use super::summary::{median, sorted};

/// Repetitions of each experiment. A rate of 5 % is then measured as 4.5 to 5.5 %.
const EXPERIMENTS: usize = 18_000;
/// The standard deviation of a run.
const SIGMA: f64 = 0.01;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Noise {
    Normal,
    /// Exponential delays.
    Skewed,
    /// One of twenty runs takes a third longer.
    Outliers,
    /// One of ten runs of the second command takes a third longer.
    OneSided,
    /// The Cauchy distribution.
    Heavy,
    /// Different distributions for both commands.
    Different,
    /// Large delays common to both runs of a pair.
    Shared,
}

const ALL: [Noise; 7] =
    [Noise::Normal, Noise::Skewed, Noise::Outliers, Noise::OneSided, Noise::Heavy, Noise::Different, Noise::Shared];

fn unit(random: &mut Random) -> f64 {
    ((random.number() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

impl Noise {
    /// Returns the delay of a run as a logarithm.
    fn of_run(self, second: bool, random: &mut Random) -> f64 {
        let third = |is: bool| if is { 0.3 } else { 0.0 };
        SIGMA
            * match self {
                Noise::Normal | Noise::Shared => normal(random),
                Noise::Skewed => -unit(random).ln(),
                Noise::Outliers => normal(random) + third(random.chance(5)) / SIGMA,
                Noise::OneSided => normal(random) + third(second && random.chance(10)) / SIGMA,
                Noise::Heavy => normal(random) / normal(random),
                Noise::Different if second => -unit(random).ln(),
                Noise::Different => normal(random) / 3.0,
            }
    }

    /// Returns the times of a pair; `effect` is the logarithm of the true ratio.
    fn pair(self, effect: f64, random: &mut Random) -> (f64, f64) {
        let shared = if self == Noise::Shared { -0.05 * unit(random).ln() } else { 0.0 };
        let first = self.of_run(false, random) + shared;
        let second = self.of_run(true, random) + shared;
        (first.exp(), (second + effect).exp())
    }

    /// Returns the median logarithm of the ratio without an effect.
    fn middle(self) -> f64 {
        if !matches!(self, Noise::OneSided | Noise::Different) {
            return 0.0;
        }
        let random = &mut Random::new(99);
        let many: Vec<f64> = (0..1_000_001).map(|_| self.pair(0.0, random)).map(|(a, b)| (b / a).ln()).collect();
        median(&many).expect("not empty")
    }
}

/// Creates experiments with a known ratio.
struct Lab {
    noise: Noise,
    middle: f64,
    pairs: usize,
    random: Random,
}

impl Lab {
    fn new(noise: Noise, pairs: usize) -> Lab {
        Lab { noise, middle: noise.middle(), pairs, random: Random::new(pairs as u64 * 100 + noise as u64) }
    }

    fn name(&self) -> String {
        format!("{:?}, {} pairs", self.noise, self.pairs)
    }

    /// Returns the times of both commands; `effect` is the logarithm of the true ratio.
    fn measure(&mut self, effect: f64) -> (Vec<f64>, Vec<f64>) {
        (0..self.pairs).map(|_| self.noise.pair(effect - self.middle, &mut self.random)).unzip()
    }

    fn compare(&mut self, effect: f64) -> PairResult {
        let (first, second) = self.measure(effect);
        compare_pairs(&first, &second, Depths::of(self.pairs, 1))
    }

    fn estimate(&mut self, effect: f64) -> Option<Estimate> {
        match self.compare(effect) {
            PairResult::Estimated(estimate) => Some(estimate),
            _ => None,
        }
    }
}

fn each_lab(mut check: impl FnMut(&mut Lab)) {
    for noise in ALL {
        for pairs in [10, 20, 50] {
            check(&mut Lab::new(noise, pairs));
        }
    }
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of as f64
}

#[test]
fn intervals_have_their_coverage_and_noise_is_no_difference() {
    each_lab(|lab| {
        // Half of them without an effect, to count false alarms.
        let (mut seen, mut holds, mut claims) = ([0; 2], [0; 2], 0);
        for nth in 0..EXPERIMENTS {
            let effect = [0.0, 0.02, 0.0, -0.1, 0.0, 0.5][nth % 6];
            let Some(estimate) = lab.estimate(effect) else { continue };
            seen[nth % 2] += 1;
            holds[nth % 2] += usize::from(estimate.interval_95.contains(effect.exp()));
            claims += usize::from(effect == 0.0 && estimate.finding() == Finding::Differs);
        }
        let (seen_all, what) = (seen[0] + seen[1], lab.name());
        let covered = percent(holds[0] + holds[1], seen_all);
        assert!((93.0..=97.0).contains(&covered), "{what}: coverage {covered:.2} %");
        let alarms = percent(seen[0] - holds[0], seen[0]);
        assert!(alarms <= 5.0, "{what}: {alarms:.2} % false alarms");
        let claimed = percent(claims, seen[0]);
        assert!(claimed <= 1.2, "{what}: {claimed:.2} % false claims at 99 %");
        // Heavy noise makes a few times underflow.
        assert!(seen_all > EXPERIMENTS - 20, "{what}: {seen_all} have an estimate");
    });
}

#[test]
fn detectable_differences_are_detected() {
    each_lab(|lab| {
        let (mut experiments, mut detected) = (0, 0);
        for nth in 0..EXPERIMENTS / 5 {
            let Some(before) = lab.estimate(0.0) else { continue };
            let detectable = before.detectable.expect("ten pairs are enough");
            let effect = detectable.ln() * if nth % 2 == 0 { 1.0 } else { -1.0 };
            let Some(after) = lab.estimate(effect) else { continue };
            experiments += 1;
            detected += usize::from(after.finding() == Finding::Differs);
        }
        let power = percent(detected, experiments);
        assert!((80.0..=97.0).contains(&power), "{}: {power:.1} % detected", lab.name());
    });
}

#[test]
fn drifts_of_the_ratio_are_found_and_common_ones_noted() {
    // Drifts by ten times the scatter, of both commands or of the second one.
    for (pairs_of, both) in [(10, true), (10, false), (50, true), (50, false)] {
        let mut lab = Lab::new(Noise::Normal, pairs_of);
        let (mut noted, mut withheld) = (0, 0);
        for _ in 0..500 {
            let (mut first, mut second) = lab.measure(0.02);
            for at in 0..pairs_of {
                let slower = 1.0 + 0.1 * at as f64 / pairs_of as f64;
                first[at] *= if both { slower } else { 1.0 };
                second[at] *= slower;
            }
            let result = compare_pairs(&first, &second, Depths::of(pairs_of, 1));
            let estimate = result.estimate().expect("enough pairs");
            noted += usize::from(estimate.drifts.second.is_some());
            withheld += usize::from(matches!(estimate.finding(), Finding::Drifts(_)));
        }
        let (noted, withheld) = (percent(noted, 500), percent(withheld, 500));
        let what = format!("{pairs_of} pairs, both {both}: noted {noted:.1} %, withheld {withheld:.1} %");
        assert!(noted >= 97.0, "{what}");
        // Ten ratios are hardly enough for a significant trend.
        let least = if pairs_of == 10 { 65.0 } else { 97.0 };
        assert!(if both { withheld <= 1.0 } else { withheld >= least }, "{what}");
    }
}

/// Runs a sequential experiment until its interval is narrow enough. Returns the result and the number of pairs.
fn until(half_width: f64, first: &[f64], second: &[f64]) -> (PairResult, usize) {
    let mut intervals = SequentialIntervals::new(1);
    for count in 1..=first.len() {
        if intervals.add() {
            let result = compare_pairs(&first[..count], &second[..count], intervals.look());
            if matches!(&result, PairResult::Estimated(estimate) if estimate.half_width() <= half_width) {
                return (result, count);
            }
        }
    }
    (compare_pairs(first, second, intervals.last()), first.len())
}

#[test]
fn sequential_intervals_have_their_coverage() {
    for noise in [Noise::Normal, Noise::Skewed, Noise::OneSided, Noise::Heavy] {
        for half_width in [0.02, 0.01, 0.005] {
            let mut lab = Lab::new(noise, 100);
            let (mut seen, mut holds, mut early) = (0, 0, 0);
            for _ in 0..1000 {
                let (first, second) = lab.measure(0.02);
                let (PairResult::Estimated(estimate), count) = until(half_width, &first, &second) else { continue };
                seen += 1;
                early += usize::from(count < 100);
                holds += usize::from(estimate.interval_95.contains(0.02f64.exp()));
            }
            let covered = percent(holds, seen);
            assert!(covered >= 93.0, "{noise:?} until {half_width}: coverage {covered:.1} %");
            assert!(early > 200 || half_width < 0.01, "{noise:?} until {half_width}: {early} stop early");
        }
    }
}

#[test]
fn stopping_at_the_first_difference_keeps_the_error_rate() {
    // The worst stopping rule: without the correction, the error rate is more than twice the nominal one.
    let mut lab = Lab::new(Noise::Normal, 200);
    let (mut alarms, mut naive) = (0, 0);
    for _ in 0..1000 {
        let (first, second) = lab.measure(0.0);
        let (mut intervals, mut alarm, mut uncorrected) = (SequentialIntervals::new(1), false, false);
        for count in 1..=200 {
            if intervals.add() {
                let excludes = |depths| {
                    let result = compare_pairs(&first[..count], &second[..count], depths);
                    result.estimate().is_some_and(|seen| !seen.interval_95.contains(1.0))
                };
                alarm |= excludes(intervals.look());
                uncorrected |= excludes(Depths::of(count, 1));
            }
        }
        alarms += usize::from(alarm);
        naive += usize::from(uncorrected);
    }
    assert!(percent(alarms, 1000) <= 5.0, "{alarms} of 1000 stopped at noise");
    assert!(naive > 2 * alarms && naive > 100, "{naive} of 1000 without the correction");
}

#[test]
fn intervals_of_one_series_have_their_coverage() {
    for noise in [Noise::Normal, Noise::Heavy, Noise::Skewed] {
        let truth = if noise == Noise::Skewed { SIGMA * std::f64::consts::LN_2 } else { 0.0 };
        let random = &mut Random::new(7);
        let holds = (0..EXPERIMENTS).filter(|_| {
            let times: Vec<f64> = (0..10).map(|_| noise.of_run(false, random).exp()).collect();
            Depth::of(10, LEVEL_95).is_some_and(|depth| depth.limits(&sorted(&times)).contains(truth.exp()))
        });
        let covered = percent(holds.count(), EXPERIMENTS);
        assert!((93.0..=97.0).contains(&covered), "{noise:?}: coverage {covered:.2} %");
    }
}
