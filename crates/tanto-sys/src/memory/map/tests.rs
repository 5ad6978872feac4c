//! Tests of contents when files change. `tests/bus.rs` tests the process.

use super::*;
use std::fs;
use std::thread;
use tanto_testing::Scratch;

/// A file of this length in which each page begins with its number plus 1.
fn file(dir: &Scratch, length: usize) -> File {
    let content: Vec<u8> = (0..length).map(|at| (at / page_size()) as u8 + 1).collect();
    dir.write("f", content);
    File::options().read(true).write(true).open(dir.at("f")).unwrap()
}

#[test]
fn a_mapping_outlives_the_file() {
    let dir = Scratch::new("map");
    let length = 3 * page_size() + 7;
    drop(file(&dir, length));
    for mapped in [0, 1, page_size(), length] {
        let map = Map::new(&File::open(dir.at("f")).unwrap(), mapped as u64).unwrap();
        assert_eq!(map.bytes(), &fs::read(dir.at("f")).unwrap()[..mapped]);
        assert_eq!((map.len(), map.is_torn()), (mapped, false));
    }
}

#[test]
fn released_pages_can_be_read_again() {
    let dir = Scratch::new("map-release");
    let length = 5 * page_size() + 7;
    let map = Map::new(&file(&dir, length), length as u64).unwrap();
    let content = map.to_vec();
    for range in [0..0, 0..length, 1..length - 1, 1..page_size(), length..length, usize::MAX - 1..usize::MAX] {
        map.release(range);
        assert_eq!(map.bytes(), content);
    }
    map.release(page_size() + 1..4 * page_size() - 1);
    assert!(!map.is_torn());
}

#[test]
fn a_truncated_file_reads_as_zeros() {
    let dir = Scratch::new("map-torn");
    let page = page_size();
    let file = file(&dir, 6 * page);
    let [map, other] = [(); 2].map(|()| Map::new(&file, 6 * page as u64).unwrap());
    assert_eq!((map[0], map[5 * page]), (1, 6));
    file.set_len(2 * page as u64).unwrap();
    assert!(!map.is_torn());
    thread::scope(|scope| {
        for start in [3 * page + 5, 2 * page] {
            let map = &map;
            scope.spawn(move || assert!(map[start..].iter().all(|&byte| byte == 0)));
        }
    });
    assert_eq!((map[page], map[2 * page]), (2, 0));
    assert!(map.is_torn() && !other.is_torn());
    map.release(0..6 * page);
    assert_eq!((map[page], map[2 * page]), (2, 0));
    drop(map);
    assert_eq!(other[5 * page], 0);
    assert!(other.is_torn());
}

#[test]
fn a_slot_can_be_reused_after_tearing() {
    let dir = Scratch::new("map-again");
    let page = page_size();
    let file = file(&dir, 2 * page);
    for _ in 0..2000 {
        let map = Map::new(&file, 2 * page as u64).unwrap();
        assert!(!map.is_torn());
    }
    let map = Map::new(&file, 4 * page as u64).unwrap();
    assert_eq!(map[3 * page], 0);
    assert!(map.is_torn());
}

#[test]
fn an_unmappable_file_is_an_error() {
    let dir = Scratch::new("map-error");
    assert!(Map::new(&File::open(dir.path()).unwrap(), 1).is_err());
    assert!(Map::new(&file(&dir, 1), u64::MAX).is_err());
}
