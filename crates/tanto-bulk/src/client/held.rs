//! Results that an earlier process of the client has left, because the coordinator had not settled them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::uploads::{HeldResult, LEASE};

/// Older results are dropped: the coordinator has given them up.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Most bytes of results that are kept.
pub const QUOTA: u64 = 16 << 30;

/// Returns the results in the directories of attempts, the newest first. Removes those that are too old or, together, too
/// large, and the directories of attempts that have no result.
pub fn results(logs: &Path, now: SystemTime, quota: u64) -> Vec<HeldResult> {
    let attempts = entries(logs).into_iter().flat_map(|package| entries(&package));
    let (mut held, mut rest) = (Vec::new(), Vec::new());
    for dir in attempts {
        match HeldResult::read(&dir).zip(age(&dir, now)) {
            Some((result, age)) => held.push((age, result)),
            None => rest.push(dir),
        }
    }
    held.sort_by_key(|(age, _)| *age);
    let (mut kept, mut bytes, mut dropped) = (Vec::new(), 0_u64, 0);
    for (age, result) in held {
        let files = entries(&result.dir).into_iter();
        let size = files.filter_map(|path| fs::symlink_metadata(path).ok()).map(|it| it.len());
        bytes = size.fold(bytes, u64::saturating_add);
        if age <= MAX_AGE && bytes <= quota {
            kept.push(result);
        } else {
            rest.push(result.dir);
            dropped += 1;
        }
    }
    if dropped > 0 {
        eprintln!(
            "tanto: dropped {dropped} results that the coordinator did not accept within a day, or that were too large"
        );
    }
    for dir in rest {
        remove(&dir);
    }
    kept
}

/// The time since the result was saved.
fn age(dir: &Path, now: SystemTime) -> Option<Duration> {
    let saved = fs::metadata(dir.join(LEASE)).and_then(|it| it.modified()).ok()?;
    // The clock may have been set.
    Some(now.duration_since(saved).unwrap_or_default())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A failure only costs space.
fn remove(dir: &Path) {
    let _ = fs::remove_dir_all(dir);
    if let Some(package) = dir.parent() {
        let _ = fs::remove_dir(package);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_protocol::{AttemptOutcome, AttemptResult, LeaseId};
    use tanto_testing::Scratch;

    fn save(place: &Scratch, number: u8, bytes: usize) {
        let dir = place.at(&format!("p{number}-1/7"));
        let result = AttemptResult::of(AttemptOutcome::Failed { why: "build: exit code 2".into() });
        let held = HeldResult { lease: LeaseId([number; 16]), result, dir, distfiles: Vec::new() };
        held.save().unwrap();
        fs::write(held.dir.join("p.tgz"), vec![0; bytes]).unwrap();
    }

    fn numbers(held: &[HeldResult]) -> Vec<u8> {
        let mut numbers: Vec<u8> = held.iter().map(|it| it.lease.0[0]).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn results_are_kept_for_a_day_within_the_quota() {
        let place = Scratch::new("held-results");
        let logs = place.at("");
        let now = SystemTime::now();
        save(&place, 1, 100_000);
        save(&place, 2, 100_000);
        place.write("p3-1/7/build.log", "of an attempt that was killed");
        assert_eq!(numbers(&results(&logs, now, QUOTA)), [1, 2]);
        assert!(!place.at("p3-1").exists());
        assert_eq!(results(&logs, now, 150_000).len(), 1);
        assert_eq!(results(&logs, now + MAX_AGE + Duration::from_secs(60), QUOTA), []);
        assert_eq!(entries(&logs), Vec::<PathBuf>::new());
    }
}
