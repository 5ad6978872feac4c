//! Random graphs from a seed, changed and built in several rounds.

mod dice;
mod graph;
mod rounds;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::programs;

/// The number of graphs, unless `TANTO_SEEDS` is set.
const SEEDS: u64 = 60;

#[test]
fn graphs() {
    if programs().is_none() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("TANTO_SEED") {
        assert!(rounds::play(seed), "seed {seed} is too much for the referee");
        return;
    }
    let count = number("TANTO_SEEDS").unwrap_or(SEEDS);
    let failed = play_all(count);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs seeds 0 to `count` on all CPUs, and stops after a few failures.
fn play_all(count: u64) -> Vec<String> {
    let (next, failures, errs) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count || failures.load(Ordering::Relaxed) >= 3 {
                return failed;
            }
            match std::panic::catch_unwind(|| rounds::play(seed)) {
                Ok(true) => {}
                Ok(false) => drop(errs.fetch_add(1, Ordering::Relaxed)),
                Err(_) => {
                    failures.fetch_add(1, Ordering::Relaxed);
                    failed.push(format!(
                        "seed {seed} failed; again: TANTO_SEED={seed} cargo test -p tanto --test differential random::"
                    ));
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let failed = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started.into_iter().flat_map(|thread| thread.join().expect("panics are caught")).collect()
    });
    println!("{count} graphs, of which {} were too much for the referee", errs.into_inner());
    failed
}
