//! Simulated experiments under background load: rates of detected and of false differences.

use tanto_testing::Random;

use super::comparison::Comparison;
use super::experiment::{Observer, PairedExperiment};
use super::options::CompareOptions;
use super::record::CompareRecord;
use crate::measure::fake::{FakeExecutor, sample};
use crate::statistics::interval::Depths;
use crate::statistics::pairs::{Finding, PairResult, compare_pairs};

/// Background load that affects all runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Load {
    /// Independent noise only.
    Quiet,
    /// A slowdown of 10 % from the first run to the last.
    Drift,
    /// A random walk with steps of 0.5 %.
    Walk,
    /// Autocorrelated noise of 5 %.
    Autocorrelated,
    /// Another program takes a third of the processor, for six runs on average.
    Bursts,
    /// Another program alternates between work and rest with this half period.
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

/// Generates the delays of successive runs.
struct Machine {
    load: Load,
    /// The standard deviation of independent noise.
    noise: f64,
    random: Random,
    runs: usize,
    /// Runs of the experiment.
    all: usize,
    /// The current load.
    level: f64,
}

impl Machine {
    fn new(load: Load, noise: f64, all: usize, seed: u64) -> Machine {
        let mut random = Random::new(seed);
        let level = if load == Load::Autocorrelated { 0.05 * normal(&mut random) } else { 0.0 };
        Machine { load, noise, random, runs: 0, all, level }
    }

    /// Returns the delay of the next run as a logarithm.
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

impl Observer for Silent {
    fn run_completed(&mut self, _: &CompareRecord) {}
}

/// Runs an experiment in which `b` takes `1 + effect` times as long as `a`.
fn experiment(mut machine: Machine, effect: f64, seed: u64) -> PairResult {
    let options = CompareOptions {
        runs: Some(machine.all / 2),
        seed: Some(seed),
        commands: vec![b"a".to_vec(), b"b".to_vec()],
        ..CompareOptions::default()
    };
    let mut executor = FakeExecutor::new(move |line| {
        let factor = if line == b"b" { 1.0 + effect } else { 1.0 };
        Ok(sample(factor * machine.next().exp()))
    });
    Comparison::all(&PairedExperiment::new(&options, &mut executor).run(&mut Silent))[0].wall
}

/// Rates of results in percent.
#[derive(Default, Debug)]
struct Counts {
    right: f64,
    silent: f64,
    wrong: f64,
    /// The interval excludes the true ratio.
    missed: f64,
}

fn counts(load: Load, noise: f64, runs: usize, effect: f64, experiments: u64) -> Counts {
    let mut counts = Counts::default();
    let one = 100.0 / experiments as f64;
    for seed in 0..experiments {
        let machine = Machine::new(load, noise, 2 * runs, 1000 + seed);
        let result = experiment(machine, effect, seed);
        let estimate = result.estimate().expect("enough pairs");
        counts.missed += if estimate.interval_95.contains(1.0 + effect) { 0.0 } else { one };
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
fn false_differences_are_rare_under_any_load() {
    for load in LOADS {
        for runs in [12, 30] {
            let counts = counts(load, QUIET, runs, 0.0, EQUAL_EXPERIMENTS);
            assert!(counts.wrong <= 2.0, "{load:?}, {runs} runs: {counts:?}");
            assert!(counts.missed <= 5.0, "{load:?}, {runs} runs: {counts:?}");
        }
    }
}

#[test]
fn differences_are_found_on_a_quiet_machine() {
    // The bars of bench/truth, in percent of experiments.
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
fn differences_of_five_percent_of_cpu_time_are_found_under_load() {
    // Shared caches and frequency changes add noise of a few percent to CPU time.
    for (load, noise) in [(Load::Autocorrelated, 0.01), (Load::Quiet, 0.03), (Load::Walk, 0.02)] {
        let counts = counts(load, noise, 30, 0.05, 300);
        assert!(counts.right >= 90.0 && counts.wrong == 0.0, "{load:?}: {counts:?}");
    }
}

/// Returns the indexes of the n-th pair in a fixed order.
type PairIndexes = fn(usize, usize) -> [usize; 2];

#[test]
fn fixed_orders_report_false_differences() {
    // All runs of one command before the other, and the fixed order A B, A B ...
    let orders: [(Load, PairIndexes); 3] = [
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
            let result = compare_pairs(&first, &second, Depths::of(runs, 1));
            result.estimate().is_some_and(|estimate| estimate.finding() == Finding::Differs)
        });
        let alarms = alarms.count();
        assert!(alarms > 60, "{load:?}: {alarms} of 300");
    }
}
