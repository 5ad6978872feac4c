//! Thousands of experiments whose truth is known, with seeds that replay them.

use tanto_testing::Random;

use super::interval::{Depth, Depths, LEVEL};
use super::looks::PairOfLooks;
use super::pairs::{Estimate, Finding, Verdict, pairs};
use super::quantile::{median, sorted};

/// How often each experiment is done. A share of 5 % is then seen as 4.5 to 5.5 %.
const EXPERIMENTS: usize = 18_000;
/// A run's usual scatter.
const SIGMA: f64 = 0.01;

/// What disturbs runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Noise {
    /// A little, either way.
    Normal,
    /// Something that only ever makes runs slower.
    Skewed,
    /// One of twenty runs takes a third more.
    Outliers,
    /// One of ten runs of the second takes a third more, and none of the first.
    OneSided,
    /// Anything may happen.
    Heavy,
    /// The first is steady, the second is not.
    Unlike,
    /// What disturbs one of a pair disturbs the other as well, and far more than all else.
    Shared,
}

const ALL: [Noise; 7] =
    [Noise::Normal, Noise::Skewed, Noise::Outliers, Noise::OneSided, Noise::Heavy, Noise::Unlike, Noise::Shared];

fn unit(random: &mut Random) -> f64 {
    ((random.number() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

impl Noise {
    /// How much longer a run takes, as a logarithm.
    fn of_run(self, second: bool, random: &mut Random) -> f64 {
        let third = |is: bool| if is { 0.3 } else { 0.0 };
        SIGMA
            * match self {
                Noise::Normal | Noise::Shared => normal(random),
                Noise::Skewed => -unit(random).ln(),
                Noise::Outliers => normal(random) + third(random.chance(5)) / SIGMA,
                Noise::OneSided => normal(random) + third(second && random.chance(10)) / SIGMA,
                Noise::Heavy => normal(random) / normal(random),
                Noise::Unlike if second => -unit(random).ln(),
                Noise::Unlike => normal(random) / 3.0,
            }
    }

    /// Two runs, of which the second takes `effect` longer, as a logarithm.
    fn pair(self, effect: f64, random: &mut Random) -> (f64, f64) {
        let shared = if self == Noise::Shared { -0.05 * unit(random).ln() } else { 0.0 };
        let first = self.of_run(false, random) + shared;
        let second = self.of_run(true, random) + shared;
        (first.exp(), (second + effect).exp())
    }

    /// The median of the logarithm of the ratio, where the effect is none. Only noise that is unlike has any.
    fn middle(self) -> f64 {
        if !matches!(self, Noise::OneSided | Noise::Unlike) {
            return 0.0;
        }
        let random = &mut Random::new(99);
        let many: Vec<f64> = (0..1_000_001).map(|_| self.pair(0.0, random)).map(|(a, b)| (b / a).ln()).collect();
        median(&many).expect("there are many")
    }
}

/// Experiments of so many pairs, whose true ratio is known.
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

    /// The times of both sides; `effect` is the truth, as a logarithm.
    fn measure(&mut self, effect: f64) -> (Vec<f64>, Vec<f64>) {
        (0..self.pairs).map(|_| self.noise.pair(effect - self.middle, &mut self.random)).unzip()
    }

    fn ask(&mut self, effect: f64) -> Verdict {
        let (first, second) = self.measure(effect);
        pairs(&first, &second, Depths::of(self.pairs, 1))
    }

    fn see(&mut self, effect: f64) -> Option<Estimate> {
        match self.ask(effect) {
            Verdict::Seen(estimate) => Some(estimate),
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
fn the_interval_holds_the_truth_and_noise_is_no_difference() {
    each_lab(|lab| {
        // Half of them without any difference, which is where false alarms come from.
        let (mut seen, mut holds, mut claims) = ([0; 2], [0; 2], 0);
        for nth in 0..EXPERIMENTS {
            let effect = [0.0, 0.02, 0.0, -0.1, 0.0, 0.5][nth % 6];
            let Some(estimate) = lab.see(effect) else { continue };
            seen[nth % 2] += 1;
            holds[nth % 2] += usize::from(estimate.interval.holds(effect.exp()));
            claims += usize::from(effect == 0.0 && estimate.finding() == Finding::Differs);
        }
        let (seen_all, what) = (seen[0] + seen[1], lab.name());
        let covered = percent(holds[0] + holds[1], seen_all);
        assert!((93.0..=97.0).contains(&covered), "{what}: holds the truth in {covered:.2} %");
        let alarms = percent(seen[0] - holds[0], seen[0]);
        assert!(alarms <= 5.0, "{what}: {alarms:.2} % false alarms");
        let claimed = percent(claims, seen[0]);
        assert!(claimed <= 1.2, "{what}: {claimed:.2} % false claims at 99 %");
        // Heavy noise makes a few times so short that they are no numbers.
        assert!(seen_all > EXPERIMENTS - 20, "{what}: {seen_all} have an estimate");
    });
}

#[test]
fn the_smallest_visible_difference_is_seen_by_four_of_five() {
    each_lab(|lab| {
        let (mut asked, mut seen) = (0, 0);
        for nth in 0..EXPERIMENTS / 5 {
            let Some(before) = lab.see(0.0) else { continue };
            let smallest = before.smallest.expect("ten pairs are enough");
            let effect = smallest.ln() * if nth % 2 == 0 { 1.0 } else { -1.0 };
            let Some(after) = lab.see(effect) else { continue };
            asked += 1;
            seen += usize::from(after.finding() == Finding::Differs);
        }
        let power = percent(seen, asked);
        assert!((80.0..=97.0).contains(&power), "{}: {power:.1} % see it", lab.name());
    });
}

#[test]
fn a_drift_of_the_ratio_is_no_answer_and_a_common_one_is_a_note() {
    // Drifts by ten times the scatter: of both sides, or of the second alone.
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
            let verdict = pairs(&first, &second, Depths::of(pairs_of, 1));
            let estimate = verdict.estimate().expect("enough pairs");
            noted += usize::from(estimate.drifts.second.is_some());
            withheld += usize::from(matches!(estimate.finding(), Finding::Drifts(_)));
        }
        let (noted, withheld) = (percent(noted, 500), percent(withheld, 500));
        let what = format!("{pairs_of} pairs, both {both}: noted {noted:.1} %, withheld {withheld:.1} %");
        assert!(noted >= 97.0, "{what}");
        // Ten ratios hardly suffice to tell a trend from chance.
        let least = if pairs_of == 10 { 65.0 } else { 97.0 };
        assert!(if both { withheld <= 1.0 } else { withheld >= least }, "{what}");
    }
}

/// The last estimate of an experiment that is looked at until its interval is narrow enough, and the number of its pairs.
fn until(half_width: f64, first: &[f64], second: &[f64]) -> (Verdict, usize) {
    let mut looks = PairOfLooks::new(1);
    for count in 1..=first.len() {
        if looks.one_more() {
            let verdict = pairs(&first[..count], &second[..count], looks.look());
            if matches!(&verdict, Verdict::Seen(estimate) if estimate.half_width() <= half_width) {
                return (verdict, count);
            }
        }
    }
    (pairs(first, second, looks.last()), first.len())
}

#[test]
fn an_experiment_that_was_stopped_holds_the_truth() {
    for noise in [Noise::Normal, Noise::Skewed, Noise::OneSided, Noise::Heavy] {
        for half_width in [0.02, 0.01, 0.005] {
            let mut lab = Lab::new(noise, 100);
            let (mut seen, mut holds, mut early) = (0, 0, 0);
            for _ in 0..1000 {
                let (first, second) = lab.measure(0.02);
                let (Verdict::Seen(estimate), count) = until(half_width, &first, &second) else { continue };
                seen += 1;
                early += usize::from(count < 100);
                holds += usize::from(estimate.interval.holds(0.02f64.exp()));
            }
            let covered = percent(holds, seen);
            assert!(covered >= 93.0, "{noise:?} until {half_width}: holds the truth in {covered:.1} %");
            assert!(early > 200 || half_width < 0.01, "{noise:?} until {half_width}: {early} stop early");
        }
    }
}

#[test]
fn stopping_at_the_first_difference_is_right_as_often() {
    // The worst reason to stop; a single look's interval fails here more than twice as often as it says.
    let mut lab = Lab::new(Noise::Normal, 200);
    let (mut alarms, mut naive) = (0, 0);
    for _ in 0..1000 {
        let (first, second) = lab.measure(0.0);
        let (mut looks, mut alarm, mut bare) = (PairOfLooks::new(1), false, false);
        for count in 1..=200 {
            if looks.one_more() {
                let excludes = |depths| {
                    let verdict = pairs(&first[..count], &second[..count], depths);
                    verdict.estimate().is_some_and(|seen| !seen.interval.holds(1.0))
                };
                alarm |= excludes(looks.look());
                bare |= excludes(Depths::of(count, 1));
            }
        }
        alarms += usize::from(alarm);
        naive += usize::from(bare);
    }
    assert!(percent(alarms, 1000) <= 5.0, "{alarms} of 1000 stopped at noise");
    assert!(naive > 2 * alarms && naive > 100, "{naive} of 1000 would have, without the correction");
}

#[test]
fn a_single_series_interval_holds_its_median() {
    for noise in [Noise::Normal, Noise::Heavy, Noise::Skewed] {
        let truth = if noise == Noise::Skewed { SIGMA * std::f64::consts::LN_2 } else { 0.0 };
        let random = &mut Random::new(7);
        let holds = (0..EXPERIMENTS).filter(|_| {
            let times: Vec<f64> = (0..10).map(|_| noise.of_run(false, random).exp()).collect();
            Depth::of(10, LEVEL).is_some_and(|depth| depth.limits(&sorted(&times)).holds(truth.exp()))
        });
        let covered = percent(holds.count(), EXPERIMENTS);
        assert!((93.0..=97.0).contains(&covered), "{noise:?}: holds the truth in {covered:.2} %");
    }
}
