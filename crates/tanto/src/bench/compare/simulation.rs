//! Whole experiments on simulated machines: how often a true difference is found, and how often a false one is claimed.

use tanto_testing::Random;

use super::args::Args;
use super::findings::Comparison;
use super::measuring::{Audience, Measuring};
use super::record::Record;
use crate::bench::measure::fake::{Fake, sample};
use crate::bench::statistics::interval::Depths;
use crate::bench::statistics::pairs::{Finding, Verdict, pairs};

/// What makes one run slower than the next one, whichever command it is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Load {
    /// Nothing but independent noise of 0.3 %.
    Quiet,
    /// All runs become slower, by 10 % from the first to the last.
    Drift,
    /// The speed is a random walk with steps of 0.5 %.
    Walk,
    /// Autocorrelated noise of 5 %: each run resembles the one before.
    Autocorrelated,
    /// Another program comes and goes, six runs at a time on average, and then takes a third of the processor.
    Bursts,
    /// Another program works for so many runs and rests for so many.
    Periodic(usize),
}

const LOADS: [Load; 9] = [
    Load::Quiet,
    Load::Drift,
    Load::Walk,
    Load::Autocorrelated,
    Load::Bursts,
    Load::Periodic(1),
    Load::Periodic(2),
    Load::Periodic(3),
    Load::Periodic(4),
];

fn unit(random: &mut Random) -> f64 {
    ((random.number() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

/// A machine that is asked for one run after the other.
struct Machine {
    load: Load,
    /// Independent noise of each run.
    noise: f64,
    random: Random,
    runs: usize,
    /// Runs of the whole experiment.
    all: usize,
    /// What remains from run to run.
    level: f64,
}

impl Machine {
    fn new(load: Load, noise: f64, all: usize, seed: u64) -> Machine {
        let mut random = Random::new(seed);
        let level = if load == Load::Autocorrelated { 0.05 * normal(&mut random) } else { 0.0 };
        Machine { load, noise, random, runs: 0, all, level }
    }

    /// How much longer the next run takes, as a logarithm.
    fn next(&mut self) -> f64 {
        let (run, random) = (self.runs, &mut self.random);
        self.runs += 1;
        let noise = self.noise * normal(random);
        self.level = match self.load {
            Load::Quiet => 0.0,
            Load::Drift => 0.1 * run as f64 / self.all as f64,
            Load::Walk => self.level + 0.005 * normal(random),
            Load::Autocorrelated => 0.9 * self.level + 0.05 * 0.19_f64.sqrt() * normal(random),
            Load::Bursts if random.chance(16) => 0.4 - self.level,
            Load::Bursts => self.level,
            Load::Periodic(half) => {
                if run / half % 2 == 0 {
                    0.4
                } else {
                    0.0
                }
            }
        };
        self.level + noise
    }
}

struct Silent;

impl Audience for Silent {
    fn progress(&mut self, _: &Record) {}
}

/// The answer of a whole experiment in which `b` takes `1 + effect` times as long as `a`.
fn experiment(mut machine: Machine, effect: f64, seed: u64) -> Verdict {
    let (runs, seed) = ((machine.all / 2).to_string(), seed.to_string());
    let words = ["--warmup", "0", "--runs", &runs, "--seed", &seed, "a", "b"].map(|word| word.as_bytes().to_vec());
    let args = Args::read(&words).expect("it makes sense").expect("no help");
    let mut bench = Fake::new(move |line| {
        let factor = if line == b"b" { 1.0 + effect } else { 1.0 };
        Ok(sample(factor * machine.next().exp()))
    });
    Comparison::all(&Measuring::new(&args, &mut bench).run(&mut Silent))[0].wall
}

/// The answers of many experiments, in per cent.
#[derive(Default, Debug)]
struct Counts {
    right: f64,
    silent: f64,
    wrong: f64,
    /// The interval excludes the truth.
    missed: f64,
}

fn counts(load: Load, noise: f64, runs: usize, effect: f64, experiments: u64) -> Counts {
    let mut counts = Counts::default();
    let one = 100.0 / experiments as f64;
    for seed in 0..experiments {
        let machine = Machine::new(load, noise, 2 * runs, 1000 + seed);
        let verdict = experiment(machine, effect, seed);
        let estimate = verdict.estimate().expect("enough pairs");
        counts.missed += if estimate.interval.holds(1.0 + effect) { 0.0 } else { one };
        match estimate.finding() {
            Finding::Differs if effect != 0.0 && (estimate.ratio > 1.0) == (effect > 0.0) => counts.right += one,
            Finding::Differs => counts.wrong += one,
            _ => counts.silent += one,
        }
    }
    counts
}

const QUIET: f64 = 0.003;
const EQUAL_EXPERIMENTS: u64 = 1500;

#[test]
fn equal_commands_are_hardly_ever_told_apart_under_any_load() {
    for load in LOADS {
        for runs in [12, 30] {
            let counts = counts(load, QUIET, runs, 0.0, EQUAL_EXPERIMENTS);
            assert!(counts.wrong <= 2.0, "{load:?}, {runs} runs: {counts:?}");
            assert!(counts.missed <= 5.0, "{load:?}, {runs} runs: {counts:?}");
        }
    }
}

#[test]
fn true_differences_are_found_on_a_quiet_machine() {
    // The bars of bench/truth, in per cent of experiments.
    for load in [Load::Quiet, Load::Drift] {
        for runs in [12, 30] {
            for effect in [0.02, -0.02, 0.05, -0.05, 0.1, -0.1] {
                let counts = counts(load, QUIET, runs, effect, 200);
                assert!(counts.right >= 95.0 && counts.wrong == 0.0, "{load:?}, {runs} runs, {effect}: {counts:?}");
            }
        }
    }
}

#[test]
fn five_per_cent_of_processor_time_are_found_under_load() {
    // Processor time under load: what others do to caches and clocks scatters by a few per cent.
    for (load, noise) in [(Load::Autocorrelated, 0.01), (Load::Quiet, 0.03), (Load::Walk, 0.02)] {
        let counts = counts(load, noise, 30, 0.05, 300);
        assert!(counts.right >= 90.0 && counts.wrong == 0.0, "{load:?}: {counts:?}");
    }
}

/// The places of the n-th pair in a fixed order of so many runs of each.
type Places = fn(usize, usize) -> [usize; 2];

#[test]
fn without_the_random_order_the_same_loads_would_raise_false_alarms() {
    // All runs of one command and then all of the other; and a fixed order A B, A B ...
    let orders: [(Load, Places); 3] = [
        (Load::Walk, |nth, runs| [nth, runs + nth]),
        (Load::Autocorrelated, |nth, runs| [nth, runs + nth]),
        (Load::Periodic(1), |nth, _| [2 * nth, 2 * nth + 1]),
    ];
    for (load, places) in orders {
        let runs = 30;
        let alarms = (0..300).filter(|&seed| {
            let mut machine = Machine::new(load, QUIET, 2 * runs, seed);
            let times: Vec<f64> = (0..2 * runs).map(|_| machine.next().exp()).collect();
            let (first, second): (Vec<f64>, Vec<f64>) =
                (0..runs).map(|nth| places(nth, runs).map(|at| times[at])).map(|[a, b]| (a, b)).unzip();
            let verdict = pairs(&first, &second, Depths::of(runs, 1));
            verdict.estimate().is_some_and(|estimate| estimate.finding() == Finding::Differs)
        });
        let alarms = alarms.count();
        assert!(alarms > 60, "{load:?}: {alarms} of 300, so the test above would show nothing");
    }
}
