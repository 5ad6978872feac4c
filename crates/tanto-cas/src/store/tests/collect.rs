//! Tests of collection and pins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::*;

fn collect(store: &Store, roots: &[Digest], keep_bytes: u64) -> Collected {
    store.collect(store.begin_epoch().unwrap(), roots.iter().copied(), keep_bytes).unwrap()
}

#[test]
fn roots_stay() {
    let place = Scratch::new("cas-roots");
    let store = open(&place);
    let [root, other] = [put(&store, b"root"), put(&store, b"other")];
    let collected = collect(&store, &[root], 0);
    assert_eq!((collected.removed_blobs, collected.removed_bytes), (1, 5));
    assert_eq!((collected.kept_blobs, collected.kept_bytes), (1, 4));
    assert!(store.contains(&root).unwrap() && !store.contains(&other).unwrap());
}

#[test]
fn blobs_used_in_the_epoch_stay() {
    let place = Scratch::new("cas-epoch");
    let store = open(&place);
    let [old, reported, opened] = [&b"old"[..], b"reported", b"opened"].map(|content| put(&store, content));
    let epoch = store.begin_epoch().unwrap();
    let added = put(&store, b"added");
    assert!(store.contains(&reported).unwrap());
    store.open_blob(&opened).unwrap();
    // Another process uses the store, too.
    let second = put(&open(&place), b"second");
    store.collect(epoch, [], 0).unwrap();
    let all = [old, reported, opened, added, second];
    assert_eq!(store.missing(&all).unwrap(), [old]);
    collect(&store, &[], 0);
    assert_eq!(store.missing(&all).unwrap().len(), 5);
}

#[test]
fn used_blobs_stay_for_a_time() {
    let place = Scratch::new("cas-keep");
    let limits = StoreLimits { keep_used: Duration::from_secs(3600), ..limits() };
    let store = Store::open(&place.at("store"), limits).unwrap();
    let [recent, old] = [put(&store, b"recent"), put(&store, b"old")];
    let hours_ago = UseClock::shared(&store.root).unwrap().now_ns() - 7_200_000_000_000;
    store.root.set_time(&blob_path(&old), hours_ago).unwrap();
    collect(&store, &[], 0);
    assert_eq!(store.missing(&[recent, old]).unwrap(), [old]);
}

#[test]
fn the_oldest_go_first() {
    let place = Scratch::new("cas-oldest");
    let store = open(&place);
    let blobs = [b"aaaa", b"bbbb", b"cccc", b"dddd"].map(|content| put(&store, content));
    for (age, blob) in [3, 1, 4, 2].into_iter().zip(&blobs) {
        store.root.set_time(&blob_path(blob), 1_000_000_000_000 - age).unwrap();
    }
    // The third is the oldest, but a root.
    let collected = collect(&store, &[blobs[2]], 9);
    assert_eq!((collected.removed_blobs, collected.kept_bytes), (2, 8));
    assert_eq!(store.missing(&blobs).unwrap(), [blobs[0], blobs[3]]);
    assert_eq!(collect(&store, &[], 8).removed_blobs, 0);
}

#[test]
fn pinned_blobs_stay() {
    let place = Scratch::new("cas-pins");
    let store = open(&place);
    let [pinned, expired, absent] = [put(&store, b"pinned"), put(&store, b"expired"), Digest::of(b"absent")];
    let now = SystemTime::now();
    assert_eq!(store.pin(&[pinned, absent], now + Duration::from_secs(999)).unwrap(), [absent]);
    assert_eq!(store.pin(&[expired], now - Duration::from_secs(2)).unwrap(), []);
    place.write("store/pins/hostile", "x");
    put(&store, b"absent");
    // Pins survive a restart.
    collect(&open(&place), &[], 0);
    assert_eq!(store.missing(&[pinned, expired, absent]).unwrap(), [expired]);
    assert_eq!(store.pins.names().unwrap().len(), 1);
}

#[test]
fn a_clock_that_is_set_back_loses_no_blob() {
    let place = Scratch::new("cas-clock");
    let store = open(&place);
    let day = Duration::from_secs(86_400);
    let set = |time: SystemTime| File::open(place.at("store/clock")).unwrap().set_modified(time).unwrap();
    let before = put(&store, b"before");
    // The machine's clock was a day ahead.
    set(SystemTime::now() + day);
    let ahead = put(&store, b"ahead");
    let epoch = store.begin_epoch().unwrap();
    let after = put(&store, b"after");
    store.collect(epoch, [], 0).unwrap();
    assert_eq!(store.missing(&[before, ahead, after]).unwrap(), [before, ahead]);
    assert_eq!(collect(&store, &[], 0).removed_blobs, 1, "the time of the last use does not keep it forever");
}

#[test]
fn collections_spare_blobs_that_other_threads_use() {
    let place = Scratch::new("cas-concurrent");
    let store = open(&place);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                collect(&store, &[], 0);
            }
        });
        let users: Vec<_> = (0..3_u32)
            .map(|user| {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..200_u32 {
                        let content = (round % 5 * 8 + user % 2).to_le_bytes();
                        let digest = Digest::of(&content);
                        // Present or not, it is the right content, and an open blob stays readable.
                        match store.read_verified(&digest) {
                            Ok(mut reader) => {
                                let mut read = Vec::new();
                                reader.read_to_end(&mut read).unwrap();
                                assert_eq!(read, content);
                            }
                            Err(StoreError::Missing(_)) => drop(put(store, &content)),
                            Err(error) => panic!("{error}"),
                        }
                        let epoch = store.begin_epoch().unwrap();
                        put(store, &content);
                        store.collect(epoch, [], 0).unwrap();
                    }
                })
            })
            .collect();
        let results: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    check_clean(&store);
}
