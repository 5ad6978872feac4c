//! Arrays in memory and in files, intact and damaged.

use std::fs::File;
use std::sync::Arc;
use std::thread;

use tanto_sys::memory::SharedWords;
use tanto_sys::memory::map::Map;
use tanto_testing::{Random, Scratch};

use super::*;
use crate::hash::rapidhash;

tanto_sys::pod! {
    /// An item that crosses the ends of blocks.
    #[derive(PartialEq, Eq, Debug)]
    struct Three([u32; 3]);
}

/// A file with a header of 64 bytes and `length` random bytes.
fn content(length: usize) -> Vec<u8> {
    let mut random = Random::new(length as u64);
    (0..64 + length).map(|_| random.number() as u8).collect()
}

fn sums(content: &[u8]) -> Vec<u64> {
    content[64..].chunks(BLOCK_SIZE).map(rapidhash).collect()
}

/// Maps the written bytes, with the checksums of the intended ones.
fn mapped(scratch: &Scratch, written: &[u8], sums: Vec<u64>) -> Arc<Blocks> {
    scratch.write("file", written);
    let map = Map::new(&File::open(scratch.at("file")).unwrap(), written.len() as u64).unwrap();
    Arc::new(Blocks::new(map, 64..written.len(), sums))
}

#[test]
fn owned_array_is_a_vector() {
    let slab = Slab::from(vec![1_u16, 2, 3]);
    assert_eq!((slab.len(), slab.get(1), slab.slice(1..3), slab.all()), (3, 2, &[2, 3][..], &[1, 2, 3][..]));
    assert!(Slab::<u8>::default().is_empty());
}

#[test]
fn frozen_array_reads_its_words() {
    let slab = Slab::from(SharedWords::new(5).unwrap().freeze());
    assert_eq!((slab.len(), slab.get(4), slab.slice(1..3)), (5, 0, &[0, 0][..]));
}

#[test]
#[should_panic(expected = "out of bounds")]
fn owned_array_panics_out_of_bounds() {
    Slab::from(vec![1_u16]).get(1);
}

#[test]
fn released_memory_can_be_read_again() {
    let scratch = Scratch::new("flat");
    let content = content(2 * BLOCK_SIZE);
    let blocks = mapped(&scratch, &content, sums(&content));
    let slab = Slab::<u8>::mapped(&blocks, 64..content.len());
    for _ in 0..2 {
        assert_eq!(slab.slice(BLOCK_SIZE - 9..BLOCK_SIZE + 9), &content[64 + BLOCK_SIZE - 9..64 + BLOCK_SIZE + 9]);
        blocks.release();
    }
    assert!(!blocks.is_damaged());
}

#[test]
fn mapped_array_ends_at_its_range() {
    let scratch = Scratch::new("flat");
    let content = content(BLOCK_SIZE);
    for (items, is_there) in [(0..0, true), (7..7, true), (5..7, true), (6..8, false), (8..8, false)] {
        let blocks = mapped(&scratch, &content, sums(&content));
        let slab = Slab::<u16>::mapped(&blocks, 64..64 + 14);
        assert_eq!(
            (slab.slice(items.clone()).len(), !blocks.is_damaged()),
            (if is_there { items.len() } else { 0 }, is_there)
        );
    }
}

#[test]
fn mapped_array_equals_the_file() {
    let scratch = Scratch::new("flat");
    let content = content(3 * BLOCK_SIZE + 12);
    let blocks = mapped(&scratch, &content, sums(&content));
    let slab = Slab::<Three>::mapped(&blocks, 64..content.len());
    let expected: Vec<Three> = content[64..].chunks_exact(12).map(bytemuck::pod_read_unaligned).collect();
    assert_eq!(slab.len(), expected.len());
    thread::scope(|scope| {
        for first in 0..2 {
            let (slab, expected) = (&slab, &expected);
            scope.spawn(move || {
                (first..expected.len()).step_by(2).for_each(|at| assert_eq!(slab.get(at), expected[at]));
            });
        }
    });
    assert_eq!(slab.all(), expected);
    assert_eq!(slab.slice(5..5), []);
    assert!(!blocks.is_damaged() && blocks.check_all(2));
}

#[test]
fn only_touched_blocks_are_checked() {
    let scratch = Scratch::new("flat");
    let content = content(4 * BLOCK_SIZE);
    for flipped in [64, 64 + BLOCK_SIZE, 64 + 2 * BLOCK_SIZE + 77, content.len() - 1] {
        let mut written = content.clone();
        written[flipped] ^= 4;
        let blocks = mapped(&scratch, &written, sums(&content));
        let slab = Slab::<u64>::mapped(&blocks, 64..written.len());
        let bad = (flipped - 64) / BLOCK_SIZE;
        for number in (0..4).filter(|&number| number != bad) {
            assert_ne!(slab.get(number * BLOCK_SIZE / 8), 0);
        }
        assert!(!blocks.is_damaged());
        assert_eq!(slab.get((bad * BLOCK_SIZE + 800) / 8), 0);
        assert!(blocks.is_damaged());
        assert!(slab.all().is_empty());
        assert!(!blocks.check_all(1));
    }
}

#[test]
fn check_all_works_with_any_number_of_threads() {
    let scratch = Scratch::new("flat");
    let content = content(40 * BLOCK_SIZE + 5);
    for threads in [0, 1, 3] {
        assert!(mapped(&scratch, &content, sums(&content)).check_all(threads));
        let mut written = content.clone();
        *written.last_mut().unwrap() ^= 1;
        assert!(!mapped(&scratch, &written, sums(&content)).check_all(threads));
    }
}

#[test]
fn out_of_bounds_in_a_file_gives_zeros_and_damage() {
    let scratch = Scratch::new("flat");
    let content = content(100);
    let fresh = || mapped(&scratch, &content, sums(&content));
    let asks: [fn(&Slab<u32>) -> bool; 6] = [
        |slab| slab.get(25) == 0,
        |slab| slab.get(usize::MAX) == 0,
        |slab| slab.get(usize::MAX / 4) == 0,
        |slab| slab.slice(20..26).is_empty(),
        #[expect(clippy::reversed_empty_ranges, reason = "such a range is what a damaged file may say")]
        |slab| slab.slice(20..10).is_empty(),
        |slab| slab.slice(usize::MAX - 1..usize::MAX).is_empty(),
    ];
    for ask in asks {
        let blocks = fresh();
        let slab = Slab::mapped(&blocks, 64..164);
        assert!(ask(&slab) && blocks.is_damaged());
    }
    #[expect(clippy::reversed_empty_ranges, reason = "such a range is what a damaged file may say")]
    for range in [60..80, 64..168, 66..70, 64..67, 80..72, 200..usize::MAX] {
        let blocks = fresh();
        assert!(Slab::<u32>::mapped(&blocks, range).all().is_empty() && blocks.is_damaged());
    }
}

#[test]
fn wrong_number_of_checksums_is_damage() {
    let scratch = Scratch::new("flat");
    let content = content(BLOCK_SIZE + 1);
    for count in [0, 1, 3] {
        let blocks = mapped(&scratch, &content, vec![0; count]);
        assert!(blocks.is_damaged() && blocks.bytes(64..70).is_empty() && !blocks.check_all(2));
    }
    let empty = mapped(&scratch, &[0; 64], Vec::new());
    assert!(!empty.is_damaged() && Slab::<u64>::mapped(&empty, 64..64).is_empty() && empty.check_all(2));
}

#[test]
fn truncated_file_is_damaged() {
    let scratch = Scratch::new("flat");
    let content = content(4 * BLOCK_SIZE);
    let blocks = mapped(&scratch, &content, sums(&content));
    let slab = Slab::<u64>::mapped(&blocks, 64..content.len());
    assert_ne!(slab.get(0), 0);
    File::options().write(true).open(scratch.at("file")).unwrap().set_len(64).unwrap();
    assert_eq!(slab.get(3 * BLOCK_SIZE / 8), 0);
    assert!(blocks.is_damaged());
}
