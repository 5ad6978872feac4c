//! Tests: costs are read as they were written, and damaged files are ignored.

use super::*;
use tanto_sys::fs::state_dir::StateLocation;
use tanto_testing::{Random, Scratch};

fn cost(wall_ms: u32) -> Cost {
    Cost { wall_ms, cpu_ms: wall_ms / 2, memory_kib: 4000 }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn learn(dir: &Path, time: u64, jobs: &[(&str, u32)]) {
    let mut learned = NewCosts::default();
    jobs.iter().for_each(|(output, wall)| learned.add(output.as_bytes(), cost(*wall)));
    learned.save(&StateDirs::in_tree(dir), at(time)).unwrap();
}

#[test]
fn the_last_run_counts() {
    let place = Scratch::new("history");
    let dir = place.at("");
    assert_eq!(History::open(&StateDirs::in_tree(&dir)).cost(b"a"), None);
    learn(&dir, 1, &[("a", 100), ("b", 200), ("a", 300)]);
    learn(&dir, 2, &[("b", 2000), ("c", 0)]);
    let history = History::open(&StateDirs::in_tree(&dir));
    let costs = ["a", "b", "c", "d"].map(|output| history.cost(output.as_bytes()));
    assert_eq!(costs, [Some(cost(300)), Some(cost(2000)), Some(cost(0)), None]);
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(path(&dir.join(".tanto"))).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn the_history_agrees_with_a_map() {
    let place = Scratch::new("history-table");
    let dir = place.at("");
    let mut table = std::collections::HashMap::new();
    let mut random = Random::new(1);
    for round in 0..20 {
        let mut learned = NewCosts::default();
        for _ in 0..random.below(50) {
            let (output, wall) = (random.below(200), random.below(1 << 20) as u32);
            learned.add(output.to_string().as_bytes(), cost(wall));
            table.insert(output, cost(wall));
        }
        learned.save(&StateDirs::in_tree(&dir), at(round)).unwrap();
    }
    let history = History::open(&StateDirs::in_tree(&dir));
    for output in 0..200 {
        let (known, expected) = (history.cost(output.to_string().as_bytes()), table.get(&output).copied());
        // A small change is not written.
        let off = known.zip(expected).map_or(0, |(known, expected)| known.wall_ms.abs_diff(expected.wall_ms));
        assert!(known.is_some() == expected.is_some() && off <= (1 << 20) / ALIKE, "{known:?} {expected:?}");
    }
}

#[test]
fn unchanged_costs_are_not_written() {
    let place = Scratch::new("history-alike");
    let dir = place.at("");
    let written = || fs::metadata(path(&dir.join(".tanto"))).unwrap().modified().unwrap();
    learn(&dir, 1000, &[("a", 8000), ("b", 10)]);
    let first = written();
    learn(&dir, 2000, &[("a", 8500)]);
    learn(&dir, 2000, &[("b", 28)]);
    learn(&dir, 2000, &[]);
    assert_eq!(written(), first);
    learn(&dir, 2000 + u64::from(WORTH_NOTING), &[("a", 8000)]);
    assert_ne!(written(), first);
}

#[test]
fn damaged_files_are_ignored() {
    let place = Scratch::new("history-damage");
    let dir = place.at("");
    learn(&dir, 1, &[("a", 100), ("b", 200)]);
    let sound = fs::read(path(&dir.join(".tanto"))).unwrap();
    let is_known = || History::open(&StateDirs::in_tree(&dir)).cost(b"a").is_some();
    assert!(is_known());
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(path(&dir.join(".tanto")), &bytes).unwrap();
        assert!(!is_known(), "byte {at}");
        fs::write(path(&dir.join(".tanto")), &sound[..at]).unwrap();
        assert!(!is_known(), "cut at {at}");
    }
    fs::write(path(&dir.join(".tanto")), [&sound[..], b"x"].concat()).unwrap();
    assert!(!is_known());
    learn(&dir, 1, &[("a", 100)]);
    assert!(is_known(), "a new one takes its place");
}

#[test]
fn the_oldest_rows_are_dropped() {
    let row = |output, seen| Row { output, wall_ms: 0, cpu_ms: 0, memory_kib: 0, seen };
    let mut rows: Vec<Row> = (0..MOST as u64 + 3).map(|output| row(output, 5)).collect();
    for at in [7, 9, 11] {
        rows[at].seen = 1;
    }
    drop_oldest(&mut rows);
    assert_eq!((rows.len(), rows[7].output, rows[8].output, rows[9].output), (MOST, 8, 10, 12));
    rows.push(row(u64::MAX, 5));
    drop_oldest(&mut rows);
    assert_eq!(rows.len(), MOST);
}

#[test]
fn old_temporary_files_are_removed() {
    let place = Scratch::new("history-left");
    place.write(".tanto/history.1.new", "");
    place.write(".tanto/history.2.new", "");
    let old = SystemTime::now() - 2 * LEFT;
    File::options().write(true).open(place.at(".tanto/history.1.new")).unwrap().set_modified(old).unwrap();
    learn(&place.at(""), 1, &[("a", 1)]);
    assert!(!place.at(".tanto/history.1.new").exists() && place.at(".tanto/history.2.new").exists());
}

#[test]
fn the_newer_of_two_directories_counts() {
    let (place, cache) = (Scratch::new("history-both"), Scratch::new("history-cache"));
    let [tree, cached] =
        [StateLocation::Tree, StateLocation::Cache].map(|at| StateDirs::of(place.path(), Some(cache.path()), at));
    for (time, wall, state) in [(1, 100, &cached), (2, 5000, &tree)] {
        let mut learned = NewCosts::default();
        learned.add(b"a", cost(wall));
        learned.add(if time == 1 { b"old" } else { b"new" }, cost(wall));
        learned.save(state, at(time)).unwrap();
    }
    for state in [&tree, &cached] {
        let history = History::open(state);
        let costs = [&b"a"[..], b"old", b"new"].map(|output| history.cost(output).map(|cost| cost.wall_ms));
        assert_eq!(costs, [Some(5000), Some(100), Some(5000)]);
    }
}
