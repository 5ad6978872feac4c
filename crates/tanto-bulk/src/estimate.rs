//! Estimates build times of packages that were never built.
//!
//! A linear model, fitted to all known times, predicts from dependencies, build systems and download sizes. Times of
//! other versions, or of other packages of the same directory (the same program for another Python), correct it. The
//! weight of the correction is fitted to packages with known times.

pub mod distfiles;
mod features;
mod makefiles;
mod model;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::package::name::Name;
use crate::package::records::Record;
use crate::resolve::PackageId;

use features::{Features, fetched};
use model::Model;

/// The basis of an estimate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Basis {
    /// The measured time of the package.
    Known,
    /// Other versions, and the model.
    Version,
    /// Other packages of its directory, and the model.
    Directory,
    Model,
    /// The download size, if no times are known.
    Nothing,
}

impl Basis {
    /// The name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Known => "known",
            Basis::Version => "version",
            Basis::Directory => "directory",
            Basis::Model => "model",
            Basis::Nothing => "nothing",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Wall time in milliseconds.
    pub ms: u64,
    pub basis: Basis,
}

/// The packages to estimate.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    pub records: &'a [Record<'a>],
    pub depends: &'a [Vec<PackageId>],
    /// Download sizes in bytes; 0 if unknown.
    pub sizes: &'a [u64],
}

/// Without known times: the logarithm of milliseconds without downloads, and its slope over [`fetched`]. A line through
/// 1,276 packages of a bulk build of 2026, from 16 s for 10 kB to 460 s for 100 MB.
const DEFAULT_LOG: f64 = 9.4058;
const DEFAULT_SLOPE: f64 = 0.3941;
/// With fewer packages, the median is as good as a model.
const MIN_MEASUREMENTS: usize = 30;

/// Estimates all packages from the known times, in milliseconds.
pub fn all(tree: Tree<'_>, known: &[Option<u64>]) -> Vec<Estimate> {
    let Some(longest) = known.iter().flatten().max() else {
        let one = |&size: &u64| Estimate { ms: milliseconds(default_log(size)), basis: Basis::Nothing };
        return tree.sizes.iter().map(one).collect();
    };
    let base_model = BaseModel::new(tree, known);
    let corrections = Corrections::new(tree.records, known, &base_model);
    let one = |(package, known): (PackageId, &Option<u64>)| match known {
        Some(ms) => Estimate { ms: *ms, basis: Basis::Known },
        None => {
            let it = corrections.estimate(&tree.records[package as usize], base_model.predict(package));
            // Stay in the range of known times.
            Estimate { ms: it.ms.min(*longest), ..it }
        }
    };
    (0..).zip(known).map(one).collect()
}

fn default_log(size: u64) -> f64 {
    DEFAULT_LOG + DEFAULT_SLOPE * fetched(size)
}

fn milliseconds(log: f64) -> u64 {
    log.exp().round().clamp(1.0, u32::MAX.into()) as u64
}

/// Returns the logarithm of a time: times are compared by ratios.
fn log(ms: u64) -> f64 {
    (ms.max(1) as f64).ln()
}

type Times<'t> = HashMap<(Basis, &'t [u8]), Vec<f64>, RandomState>;

/// Known times of other versions and of the same directories.
struct Corrections<'t> {
    /// Sorted logarithms.
    times: Times<'t>,
    /// The weight of these times against the model, 0 to 1.
    weight: f64,
}

impl<'t> Corrections<'t> {
    fn new(records: &[Record<'t>], known: &[Option<u64>], base_model: &BaseModel<'_>) -> Corrections<'t> {
        let mut times = Times::default();
        let known = || (0..).zip(records.iter().zip(known)).filter_map(|(at, (it, ms))| Some((at, it, log((*ms)?))));
        for (_, record, time) in known() {
            for key in keys(record) {
                times.entry(key).or_default().push(time);
            }
        }
        times.values_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
        let mut corrections = Corrections { times, weight: 0.0 };
        let guess = |(at, record, time)| Some((base_model.predict(at), corrections.others(record, time)?, time));
        corrections.weight = fit_weight(known().filter_map(guess));
        corrections
    }

    /// Returns the median of the directory without one of its times.
    fn others(&self, record: &Record<'t>, time: f64) -> Option<f64> {
        let mut times = self.times.get(&(Basis::Directory, record.location))?.clone();
        times.remove(times.iter().position(|&it| it == time)?);
        median(&times)
    }

    fn estimate(&self, record: &Record<'t>, predicted: f64) -> Estimate {
        let measured = keys(record).into_iter().find_map(|key| Some((key.0, median(self.times.get(&key)?)?)));
        let (basis, log) = measured
            .map_or((Basis::Model, predicted), |(basis, time)| (basis, predicted + self.weight * (time - predicted)));
        Estimate { ms: milliseconds(log), basis }
    }
}

fn keys<'t>(record: &Record<'t>) -> [(Basis, &'t [u8]); 2] {
    [(Basis::Version, Name::new(record.name).base()), (Basis::Directory, record.location)]
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Fits the weight of the second of two predictions by least squares, 0 to 1; 1 without data.
fn fit_weight(guesses: impl Iterator<Item = (f64, f64, f64)>) -> f64 {
    let (mut along, mut whole) = (0.0, 0.0);
    for (first, second, truth) in guesses {
        along += (second - first) * (truth - first);
        whole += (second - first) * (second - first);
    }
    if whole > 0.0 { (along / whole).clamp(0.0, 1.0) } else { 1.0 }
}

/// A prediction without times of related packages.
enum BaseModel<'a> {
    Model(Features, Model),
    /// The default time by download size, plus a constant logarithm.
    Scaled(&'a [u64], f64),
}

impl<'a> BaseModel<'a> {
    fn new(tree: Tree<'a>, known: &[Option<u64>]) -> BaseModel<'a> {
        let times: Vec<(PackageId, f64)> = (0..).zip(known).filter_map(|(it, ms)| Some((it, log((*ms)?)))).collect();
        if times.len() < MIN_MEASUREMENTS {
            let over = |&(package, time): &(PackageId, f64)| time - default_log(tree.sizes[package as usize]);
            let mut over: Vec<f64> = times.iter().map(over).collect();
            over.sort_unstable_by(f64::total_cmp);
            return BaseModel::Scaled(tree.sizes, median(&over).unwrap_or(0.0));
        }
        let features = Features::new(tree);
        let model = Model::fit(features.count(), times.iter().map(|&(package, time)| (features.of(package), time)));
        BaseModel::Model(features, model)
    }

    fn predict(&self, package: PackageId) -> f64 {
        match self {
            BaseModel::Model(features, model) => model.predict(features.of(package)),
            BaseModel::Scaled(sizes, over) => default_log(sizes[package as usize]) + over,
        }
    }
}

/// Returns the median error of estimates, as a factor.
pub fn median_error(pairs: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let mut errors: Vec<f64> = pairs
        .map(|(estimated, took)| {
            let ratio = estimated.max(1) as f64 / took.max(1) as f64;
            ratio.max(ratio.recip())
        })
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'t>(name: &'t str, location: &'t str) -> Record<'t> {
        Record { name: name.as_bytes(), location: location.as_bytes(), text: b"" }
    }

    fn estimates(packages: &[(&str, &str, Option<u64>)]) -> Vec<Estimate> {
        let records: Vec<Record<'_>> = packages.iter().map(|(name, location, _)| record(name, location)).collect();
        let known: Vec<Option<u64>> = packages.iter().map(|&(.., known)| known).collect();
        let (depends, sizes) = (vec![Vec::new(); packages.len()], vec![0; packages.len()]);
        all(Tree { records: &records, depends: &depends, sizes: &sizes }, &known)
    }

    #[test]
    fn other_versions_outweigh_the_model() {
        let estimates = estimates(&[
            ("a-1", "devel/a", Some(10)),
            ("a-2", "devel/a2", None),
            ("py311-b-1", "devel/py-b", Some(30)),
            ("py312-b-1", "devel/py-b", None),
            ("c-1", "devel/c", Some(50)),
            ("d-1", "devel/d", None),
        ]);
        let found: Vec<_> = estimates.iter().map(|it| (it.ms, it.basis)).collect();
        let (known, version) = ((10, Basis::Known), (10, Basis::Version));
        let rest = [(30, Basis::Known), (30, Basis::Directory), (50, Basis::Known), (30, Basis::Model)];
        assert_eq!(found, [&[known, version][..], &rest].concat());
    }

    #[test]
    fn with_few_times_download_size_decides() {
        let records = [record("a-1", "devel/a"), record("b-1", "devel/b"), record("c-1", "devel/c")];
        let depends = vec![Vec::new(); records.len()];
        let tree = Tree { records: &records, depends: &depends, sizes: &[0, 10_000, 100_000_000] };
        let seconds = |known| all(tree, known).iter().map(|it| it.ms / 1000).collect::<Vec<_>>();
        assert_eq!(seconds(&[None, None, None]), [12, 15, 458]);
        assert_eq!(seconds(&[None, None, Some(45_800)]), [1, 1, 45], "one measurement scales all");
        assert_eq!(seconds(&[None, Some(30_000), None]), [22, 30, 30], "the longest known time is the limit");
    }

    #[test]
    fn dependencies_predict_times() {
        // Dependents of the compiler take a hundred times as long.
        let names: Vec<(String, String)> = (0..100).map(|at| (format!("p{at}-1"), format!("c/p{at}"))).collect();
        let records: Vec<Record<'_>> = names.iter().map(|(name, location)| record(name, location)).collect();
        let needs_it = |at: usize| at.is_multiple_of(2) && at > 0;
        let depends: Vec<Vec<PackageId>> = (0..100).map(|at| if needs_it(at) { vec![0] } else { Vec::new() }).collect();
        let known = |at: usize| (at < 80).then_some(if needs_it(at) { 100_000 } else { 1_000 });
        let tree = Tree { records: &records, depends: &depends, sizes: &[0; 100] };
        let estimates = all(tree, &(0..100).map(known).collect::<Vec<_>>());
        for (at, estimate) in estimates.iter().enumerate().skip(80) {
            let expected = if needs_it(at) { 50_000..200_000 } else { 500..2_000 };
            assert!(estimate.basis == Basis::Model && expected.contains(&estimate.ms), "{at} {estimate:?}");
        }
    }

    #[test]
    fn errors_are_ratios() {
        assert_eq!(median_error([(10, 20), (20, 10), (10, 10), (10, 100), (30, 10)].into_iter()), Some(2.0));
        assert_eq!(median_error(std::iter::empty()), None);
    }
}
