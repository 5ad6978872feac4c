//! Costs of a run: by stage, by package, against the lower bound and the estimates.

use std::collections::{BTreeMap, HashMap, HashSet};

use tanto_record::database::{AttemptRow, StageRow};
use tanto_sys::cgroup::StallTimes;

use super::RunRows;
use super::dependents::{Lists, order};
use crate::config::Stage;
use crate::estimate::{Basis, median_error};

#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// In the order of stages.
    pub stages: Vec<StageCosts>,
    /// Built packages, slowest first.
    pub packages: Vec<PackageCosts>,
    pub span: Span,
    pub estimates: [Estimates; 2],
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StageCosts {
    pub name: String,
    pub count: usize,
    pub failed: usize,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    /// Peak memory of a run, in KiB.
    pub peak_kib: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Waiting time, if known.
    pub waits: Option<StallTimes>,
}

/// A package with all attempts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PackageCosts {
    pub package: u32,
    pub wall_ms: u64,
    pub cpu_ms: u64,
    /// Peak memory of a stage, in KiB.
    pub peak_kib: u64,
    /// Waiting time, if known.
    pub waits: Option<StallTimes>,
    /// The estimate in milliseconds.
    pub expected_ms: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// The time with running attempts, in milliseconds.
    pub wall_ms: u64,
    /// The maximum of parallel packages.
    pub clients: usize,
    /// The total time of attempts, in milliseconds.
    pub work_ms: u64,
    /// The critical path, with the time of each package.
    pub chain: Vec<(u32, u64)>,
}

/// The accuracy of estimates.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Estimates {
    pub count: usize,
    /// The median error, as a factor.
    pub median: Option<f64>,
}

impl Span {
    /// The time of the critical path, in milliseconds.
    pub fn chain_ms(&self) -> u64 {
        self.chain.iter().map(|&(_, ms)| ms).sum()
    }

    /// The lower bound of the makespan, in milliseconds.
    pub fn bound_ms(&self) -> u64 {
        self.chain_ms().max(self.work_ms / self.clients.max(1) as u64)
    }

    pub fn clients_text(&self) -> String {
        format!("{} client{}", self.clients, if self.clients == 1 { "" } else { "s" })
    }

    /// The makespan over the lower bound; `None` if nothing was built.
    pub fn ratio(&self) -> Option<f64> {
        (self.bound_ms() > 0).then(|| self.wall_ms as f64 / self.bound_ms() as f64)
    }
}

impl Costs {
    /// Whether waiting times are known for any package.
    pub fn knows_waits(&self) -> bool {
        self.packages.iter().any(|it| it.waits.is_some())
    }

    pub fn new(rows: &RunRows) -> Costs {
        let packages = packages(rows);
        Costs { stages: of_stages(&rows.stages), span: span(rows, &packages), estimates: estimates(rows), packages }
    }
}

fn of_stages(stages: &[StageRow]) -> Vec<StageCosts> {
    let mut sums: BTreeMap<(usize, &str), StageCosts> = BTreeMap::new();
    let place = |name: &str| Stage::ALL.iter().position(|it| it.name() == name).unwrap_or(usize::MAX);
    for stage in stages {
        let sum = sums.entry((place(&stage.stage), &stage.stage)).or_default();
        sum.count += 1;
        sum.failed += usize::from(stage.exit != 0);
        sum.wall_ms += stage.wall_ms;
        sum.cpu_ms += stage.cpu_ms;
        sum.peak_kib = sum.peak_kib.max(stage.peak_kib);
        sum.read_bytes += stage.read_bytes;
        sum.written_bytes += stage.written_bytes;
        sum.waits = together(sum.waits, stage.waits);
    }
    sums.into_iter().map(|((_, name), sum)| StageCosts { name: name.to_owned(), ..sum }).collect()
}

/// Adds known values.
fn together(one: Option<StallTimes>, other: Option<StallTimes>) -> Option<StallTimes> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    Some(StallTimes { io_us: a.io_us.saturating_add(b.io_us), cpu_us: a.cpu_us.saturating_add(b.cpu_us) })
}

/// The duration of an attempt in milliseconds; `None` if it has not ended.
fn took(attempt: &AttemptRow) -> Option<u64> {
    u64::try_from(attempt.ended_ms? - attempt.began_ms).ok()
}

fn packages(rows: &RunRows) -> Vec<PackageCosts> {
    let expected: HashMap<u32, u64> = rows.expected.iter().map(|it| (it.package, it.wall_ms)).collect();
    let of_job: HashMap<u32, u32> = rows.packages.iter().map(|it| (it.job, it.package)).collect();
    let mut all: HashMap<u32, PackageCosts> = HashMap::new();
    for attempt in &rows.attempts {
        let Some((&package, ms)) = of_job.get(&attempt.job).zip(took(attempt)) else { continue };
        let it = all.entry(package).or_default();
        (it.package, it.expected_ms) = (package, expected.get(&package).copied());
        it.wall_ms += ms;
    }
    for stage in &rows.stages {
        if let Some(it) = of_job.get(&stage.job).and_then(|package| all.get_mut(package)) {
            it.cpu_ms += stage.cpu_ms;
            it.peak_kib = it.peak_kib.max(stage.peak_kib);
            it.waits = together(it.waits, stage.waits);
        }
    }
    let mut all: Vec<PackageCosts> = all.into_values().collect();
    all.sort_by_key(|it| (std::cmp::Reverse(it.wall_ms), it.package));
    all
}

fn span(rows: &RunRows, packages: &[PackageCosts]) -> Span {
    let mut ends: Vec<(i64, i32)> = Vec::new();
    for attempt in rows.attempts.iter().filter(|it| took(it).is_some()) {
        ends.extend([(attempt.began_ms, 1), (attempt.ended_ms.unwrap_or(attempt.began_ms), -1)]);
    }
    // Ends sort before starts of the same time.
    ends.sort_unstable();
    let (mut wall_ms, mut running, mut most, mut since) = (0, 0, 0, 0);
    for (at, change) in ends {
        if running > 0 {
            wall_ms += u64::try_from(at - since).unwrap_or(0);
        }
        running += change;
        (most, since) = (most.max(running), at);
    }
    let named: HashSet<&str> = rows.attempts.iter().map(|it| it.client.as_str()).collect();
    let clients = named.len().max(usize::try_from(most).unwrap_or(0));
    let work_ms = packages.iter().map(|it| it.wall_ms).sum();
    Span { wall_ms, clients, work_ms, chain: chain(rows, packages) }
}

/// Finds the critical path.
fn chain(rows: &RunRows, packages: &[PackageCosts]) -> Vec<(u32, u64)> {
    let count = rows.packages.len();
    let mut takes = vec![0_u64; count];
    packages.iter().for_each(|it| takes[it.package as usize] = it.wall_ms);
    let needs = Lists::new(count, rows.edges.iter().copied());
    let mut ends = takes.clone();
    let mut before: Vec<Option<u32>> = vec![None; count];
    for package in order(count, &rows.edges) {
        let longest = needs.of(package).iter().copied().max_by_key(|&it| (ends[it as usize], std::cmp::Reverse(it)));
        if let Some(needed) = longest.filter(|&it| ends[it as usize] > 0) {
            ends[package as usize] += ends[needed as usize];
            before[package as usize] = Some(needed);
        }
    }
    let last = (0..count as u32).max_by_key(|&it| (ends[it as usize], std::cmp::Reverse(it)));
    let back = std::iter::successors(last, |&it| before[it as usize]);
    let mut chain: Vec<(u32, u64)> = back.map(|it| (it, takes[it as usize])).filter(|&(_, ms)| ms > 0).collect();
    chain.reverse();
    chain
}

fn estimates(rows: &RunRows) -> [Estimates; 2] {
    let of_job: HashMap<u32, u32> = rows.packages.iter().map(|it| (it.job, it.package)).collect();
    let done = rows.attempts.iter().filter(|it| it.outcome == "done");
    let took: HashMap<u32, u64> = done.filter_map(|it| Some((*of_job.get(&it.job)?, took(it)?))).collect();
    [true, false].map(|known| {
        let asked = rows.expected.iter().filter(|it| (it.basis == Basis::Known.name()) == known);
        let pairs: Vec<(u64, u64)> = asked.filter_map(|it| Some((it.wall_ms, *took.get(&it.package)?))).collect();
        Estimates { count: pairs.len(), median: median_error(pairs.into_iter()) }
    })
}
