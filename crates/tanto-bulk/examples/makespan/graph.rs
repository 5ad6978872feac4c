//! The packages of a simulated build: read from files, or generated.

use std::collections::HashMap;
use std::fmt::Write;

use tanto_bulk::coordinator::plan::Plan;
use tanto_bulk::package::records;
use tanto_bulk::resolve::depends_of;
use tanto_testing::Random;

/// Of clients that are never lost.
pub const STABLE_LABEL: &str = "stable";

pub struct Graph {
    pub plan: Plan,
    /// How long each package takes at speed 1.
    pub times_ms: Vec<u64>,
    /// The labels that a client needs for a long package.
    pub long_package_labels: [String; 1],
}

impl Graph {
    /// Reads a resolved scan, and lines with a package, a tab and its seconds. Packages without seconds take one.
    pub fn read(resolved: &str, times: &str) -> Result<Graph, String> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let seconds: HashMap<String, f64> = read(times)?
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter_map(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?)))
            .collect();
        Graph::of(&read(resolved)?, |name| seconds.get(name).map_or(1_000, |seconds| (seconds * 1000.0) as u64))
    }

    /// Generates a graph like that of a package tree: many packages need a few old ones, most take seconds and some hours.
    pub fn generate(seed: u64, count: usize) -> Graph {
        let mut random = Random::new(seed);
        let mut text = String::new();
        let mut times = HashMap::new();
        for package in 0..count {
            let needs = (0..random.below(4)).filter(|_| package > 0);
            let needs: Vec<String> = needs.map(|_| format!("pkg{}-1", old_package(&mut random, package))).collect();
            let _ = writeln!(text, "PKGNAME=pkg{package}-1\nPKG_LOCATION=cat/pkg{package}\nALL_DEPENDS=");
            let _ = writeln!(text, "DEPENDS={}", needs.join(" "));
            times.insert(format!("pkg{package}-1"), duration_ms(&mut random));
        }
        Graph::of(&text, |name| times[name]).expect("the records are valid")
    }

    fn of(text: &str, ms: impl Fn(&str) -> u64) -> Result<Graph, String> {
        let records = records::read(text.as_bytes()).map_err(|error| error.to_string())?;
        let depends = depends_of(&records).map_err(|_| "unresolved dependencies".to_owned())?;
        let plan = Plan::new(&records, &depends).map_err(|error| format!("{error:?}"))?;
        let times_ms = plan.packages.iter().map(|it| ms(&it.name).max(1)).collect();
        Ok(Graph { plan, times_ms, long_package_labels: [STABLE_LABEL.to_owned()] })
    }
}

/// An earlier package; the first ones are needed most.
fn old_package(random: &mut Random, package: usize) -> usize {
    let limit = 1 + random.below(package);
    random.below(limit)
}

/// From five seconds on; each doubling is half as likely.
fn duration_ms(random: &mut Random) -> u64 {
    let doublings = random.number().trailing_zeros().min(10);
    (5_000 << doublings) + random.below(5_000) as u64
}
