//! Random graphs: generated from a seed, changed and built in several rounds, compared like any case.

mod dice;
mod graph;
mod rounds;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::programs;

/// How many graphs, unless `TANTO_SEEDS` says otherwise.
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

/// Plays seeds 0 to `count` on as many threads as there are processors, and stops after a few that fail.
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
