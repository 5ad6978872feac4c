//! What a run took: by stage, by package, all together against what no order could beat, and against what was expected.
//! Does not know how that is shown.

use std::collections::{BTreeMap, HashMap, HashSet};

use tanto_record::database::{AttemptRow, StageRow};
use tanto_sys::cgroup::StallTimes;

use super::Rows;
use super::reach::{Lists, order};
use crate::config::Stage;
use crate::estimate::{Basis, median_error};

/// All of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// In the order in which stages come.
    pub stages: Vec<OfStage>,
    /// What took longest comes first. Only what was built in this run.
    pub packages: Vec<OfPackage>,
    /// From first to last.
    pub span: Span,
    /// Where the time was known beforehand, and where it was guessed.
    pub estimates: [Estimates; 2],
}

/// What all packages took in a stage.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OfStage {
    /// Its name.
    pub name: String,
    /// How often it was run.
    pub count: usize,
    /// How often it failed.
    pub failed: usize,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
    /// Processor time, in milliseconds.
    pub cpu_ms: u64,
    /// The most memory that one took, in KiB.
    pub peak_kib: u64,
    /// Read from disks, in bytes.
    pub read_bytes: u64,
    /// Written to files, in bytes.
    pub written_bytes: u64,
    /// How long it waited, as far as that is known.
    pub waits: Option<StallTimes>,
}

/// What a package took, with all attempts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OfPackage {
    /// Which.
    pub package: u32,
    /// Wall time, in milliseconds.
    pub wall_ms: u64,
    /// Processor time, in milliseconds.
    pub cpu_ms: u64,
    /// The most memory that a stage took, in KiB.
    pub peak_kib: u64,
    /// How long it waited, as far as that is known.
    pub waits: Option<StallTimes>,
    /// What was expected, in milliseconds.
    pub expected_ms: Option<u64>,
}

/// How long it took, and how long it had to take.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// The time in which something was built, in milliseconds.
    pub wall_ms: u64,
    /// How many packages were built at a time, at most.
    pub clients: usize,
    /// The time of all packages together, in milliseconds.
    pub work_ms: u64,
    /// The longest chain of packages that need each other: each with what it took.
    pub chain: Vec<(u32, u64)>,
}

/// How good estimates were.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Estimates {
    /// Of so many packages.
    pub count: usize,
    /// Half of them are within this factor.
    pub median: Option<f64>,
}

impl Span {
    /// The longest chain's time, in milliseconds.
    pub fn chain_ms(&self) -> u64 {
        self.chain.iter().map(|&(_, ms)| ms).sum()
    }

    /// No order is faster than that, in milliseconds.
    pub fn bound_ms(&self) -> u64 {
        self.chain_ms().max(self.work_ms / self.clients.max(1) as u64)
    }

    /// By how much it took longer than that; nothing if nothing was built.
    pub fn ratio(&self) -> Option<f64> {
        (self.bound_ms() > 0).then(|| self.wall_ms as f64 / self.bound_ms() as f64)
    }
}

impl Costs {
    /// Tells whether the kernel said of any package how long it waited.
    pub fn knows_waits(&self) -> bool {
        self.packages.iter().any(|it| it.waits.is_some())
    }

    /// From the rows of a run.
    pub fn new(rows: &Rows) -> Costs {
        let packages = packages(rows);
        Costs { stages: of_stages(&rows.stages), span: span(rows, &packages), estimates: estimates(rows), packages }
    }
}

fn of_stages(stages: &[StageRow]) -> Vec<OfStage> {
    let mut sums: BTreeMap<(usize, &str), OfStage> = BTreeMap::new();
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
    sums.into_iter().map(|((_, name), sum)| OfStage { name: name.to_owned(), ..sum }).collect()
}

/// The sum of what is known; none if neither is.
fn together(one: Option<StallTimes>, other: Option<StallTimes>) -> Option<StallTimes> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    Some(StallTimes { io_us: a.io_us.saturating_add(b.io_us), cpu_us: a.cpu_us.saturating_add(b.cpu_us) })
}

/// What an attempt took, in milliseconds; nothing if it has not ended.
fn took(attempt: &AttemptRow) -> Option<u64> {
    u64::try_from(attempt.ended_ms? - attempt.began_ms).ok()
}

fn packages(rows: &Rows) -> Vec<OfPackage> {
    let expected: HashMap<u32, u64> = rows.expected.iter().map(|it| (it.package, it.wall_ms)).collect();
    let of_job: HashMap<u32, u32> = rows.packages.iter().map(|it| (it.job, it.package)).collect();
    let mut all: HashMap<u32, OfPackage> = HashMap::new();
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
    let mut all: Vec<OfPackage> = all.into_values().collect();
    all.sort_by_key(|it| (std::cmp::Reverse(it.wall_ms), it.package));
    all
}

fn span(rows: &Rows, packages: &[OfPackage]) -> Span {
    let mut ends: Vec<(i64, i32)> = Vec::new();
    for attempt in rows.attempts.iter().filter(|it| took(it).is_some()) {
        ends.extend([(attempt.began_ms, 1), (attempt.ended_ms.unwrap_or(attempt.began_ms), -1)]);
    }
    // Of what ends and what begins at the same moment, the end comes first.
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

/// The longest chain of packages that need each other.
fn chain(rows: &Rows, packages: &[OfPackage]) -> Vec<(u32, u64)> {
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

fn estimates(rows: &Rows) -> [Estimates; 2] {
    let of_job: HashMap<u32, u32> = rows.packages.iter().map(|it| (it.job, it.package)).collect();
    let done = rows.attempts.iter().filter(|it| it.outcome == "done");
    let took: HashMap<u32, u64> = done.filter_map(|it| Some((*of_job.get(&it.job)?, took(it)?))).collect();
    [true, false].map(|known| {
        let asked = rows.expected.iter().filter(|it| (it.basis == Basis::Known.name()) == known);
        let pairs: Vec<(u64, u64)> = asked.filter_map(|it| Some((it.wall_ms, *took.get(&it.package)?))).collect();
        Estimates { count: pairs.len(), median: median_error(pairs.into_iter()) }
    })
}
