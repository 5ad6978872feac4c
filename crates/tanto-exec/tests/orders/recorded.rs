//! Recorded bulk builds: packages, dependencies and durations. Skipped if the data is missing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::graphs::{Build, Job};

/// Returns the data directory: beside the checkout, or `TANTO_DATA`.
pub fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TANTO_DATA").map_or(beside, PathBuf::from);
    folder.join("depgraph.zst").is_file().then_some(folder)
}

/// Returns all packages of a tree.
pub fn whole_tree(folder: &Path) -> Build {
    let durations = unpacked(&folder.join("durations-full.tsv.zst"));
    let durations = durations.lines().filter_map(|line| line.split_once('\t'));
    let durations = durations.map(|(name, seconds)| (name, seconds.parse().expect("seconds"))).collect();
    build(&unpacked(&folder.join("depgraph.zst")), &durations)
}

/// Returns the packages of one bulk build.
pub fn bulk_build(folder: &Path, name: &str) -> Build {
    let history = unpacked(&folder.join(format!("history-{name}.zst")));
    let rows = history.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let durations =
        rows.map(|row| (base(row[2]), row[6].parse::<f64>().map_or(0.0, |ms| ms / 1000.0))).collect::<Vec<_>>();
    let graph = unpacked(&folder.join(format!("depgraph-{name}.zst")));
    let by_name: HashMap<&str, f64> = durations.into_iter().collect();
    let names = graph.lines().filter_map(|line| line.split_once(" -> ")).flat_map(|(a, b)| [a, b]);
    let durations = names.filter_map(|name| Some((name, *by_name.get(base(name))?))).collect();
    build(&graph, &durations)
}

/// Returns a package name without its version.
fn base(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(base, _)| base)
}

/// Parses lines `needed -> user`.
fn build(graph: &str, durations: &HashMap<&str, f64>) -> Build {
    let edges: Vec<(&str, &str)> = graph.lines().filter_map(|line| line.split_once(" -> ")).collect();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for name in edges.iter().flat_map(|&(a, b)| [a, b]).chain(durations.keys().copied()) {
        let next = numbers.len();
        numbers.entry(name).or_insert(next);
    }
    let mut build = Build { jobs: vec![Job::default(); numbers.len()], ..Build::default() };
    let mut known: Vec<f64> = durations.values().copied().collect();
    known.sort_by(f64::total_cmp);
    let median = known[known.len() / 2];
    for (name, &number) in &numbers {
        let seconds = durations.get(name).copied().unwrap_or(median);
        build.jobs[number].wall_ms = (seconds * 1000.0) as u32;
    }
    edges.iter().for_each(|(needed, user)| build.jobs[numbers[user]].needs.push(numbers[needed]));
    build
}

fn unpacked(path: &Path) -> String {
    let output = Command::new("zstd").arg("-dcq").arg(path).output().expect("zstd");
    assert!(output.status.success(), "zstd could not read {}", path.display());
    String::from_utf8(output.stdout).expect("text")
}
