//! Damaged and forged snapshots.

use tanto_testing::Random;

use super::logs::Dir;
use super::{map_data, random, snapshot_bytes};
use crate::flat::BLOCK_SIZE;
use crate::graph::{Arena, Graph};
use crate::hash::rapidhash;
use crate::snapshot::table::{SECTIONS, Table};

#[test]
fn flipped_bit_is_detected_or_irrelevant() {
    let arena = Arena::new();
    let mut graph = random::graph(&arena, 1, 40);
    let (dir, sound) = Dir::built(&mut graph, 1);
    let mapped = Arena::new();
    let expected = dir.observable_state(&mut mapped.hold(map_data(&sound, &graph).unwrap()));
    let (table, _) = Table::decode(&sound).unwrap();
    let mut random = Random::new(5);
    // Some in each section, and all of the table and the foot.
    let mut places: Vec<usize> = (0..SECTIONS * 12)
        .filter_map(|number| {
            let range = table.ranges[number % SECTIONS].clone();
            (!range.is_empty()).then(|| range.start + random.below(range.len()))
        })
        .collect();
    places.extend(table.ranges[SECTIONS - 1].end..sound.len());
    for place in places {
        let mut file = sound.clone();
        file[place] ^= 1 << random.below(8);
        let Some(data) = map_data(&file, &graph) else { continue };
        let arena = Arena::new();
        let mut mapped = arena.hold(data);
        let observable_state = dir.observable_state(&mut mapped);
        assert!(mapped.data.is_damaged() || observable_state == expected, "byte {place}");
        assert!(!mapped.is_intact(), "byte {place}");
    }
}

#[test]
fn file_of_wrong_length_is_ignored() {
    let arena = Arena::new();
    let graph = random::graph(&arena, 2, 10);
    let sound = snapshot_bytes(&graph, 1);
    for length in (0..sound.len()).rev().step_by(97).chain(sound.len() - 64..sound.len()) {
        assert!(map_data(&sound[..length], &graph).is_none(), "{length}");
    }
    assert!(map_data(&[&sound[..], &[0; 8]].concat(), &graph).is_none());
}

/// The same file with changed bytes and matching checksums.
fn forged(sound: &[u8], change: impl FnOnce(&mut Table, &mut [u8])) -> Vec<u8> {
    let (mut table, end) = Table::decode(sound).unwrap();
    let mut file = sound[..end].to_vec();
    change(&mut table, &mut file);
    table.checksums = file[..table.ranges[SECTIONS - 1].end.min(end)].chunks(BLOCK_SIZE).map(rapidhash).collect();
    file.extend(table.encode(end));
    file
}

/// Exercises all queries; the answers may be wrong.
fn query_all(file: &[u8], graph: &Graph<'_>, dir: &Dir) {
    if let Some(data) = map_data(file, graph) {
        let arena = Arena::new();
        let mut mapped = arena.hold(data);
        dir.observable_state(&mut mapped);
        let used: usize = mapped.node_ids().map(|node| mapped.out_edges(node).count()).sum();
        assert!(used <= mapped.data.ids.len() && mapped.dyndeps().count() <= file.len());
        mapped.is_intact();
    }
}

#[test]
fn forged_file_is_harmless() {
    let arena = Arena::new();
    let mut graph = random::graph(&arena, 3, 30);
    let (dir, sound) = Dir::built(&mut graph, 3);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let file = forged(&sound, |table, file| {
            for _ in 0..=random.below(4) {
                let range = table.ranges[random.below(SECTIONS)].clone();
                let Some(words) = file.get_mut(range).filter(|words| !words.is_empty()) else { continue };
                let at = random.below(words.len()) / 4 * 4;
                let number: u32 = *random.pick(&[0, 1, 2, 7, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX]);
                let number = if random.chance(30) { random.number() as u32 } else { number };
                words.iter_mut().skip(at).zip(number.to_ne_bytes()).for_each(|(byte, new)| *byte = new);
            }
        });
        query_all(&file, &graph, &dir);
    }
}

#[test]
fn forged_sections_are_harmless() {
    let arena = Arena::new();
    let mut graph = random::graph(&arena, 4, 30);
    let (dir, sound) = Dir::built(&mut graph, 4);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let file = forged(&sound, |table, _| {
            let number = random.below(SECTIONS);
            let range = &mut table.ranges[number];
            match random.below(4) {
                0 => range.end = range.start + random.below(range.len() + 1),
                1 => range.start += random.below(range.len() + 1),
                2 => range.end += random.below(64),
                _ => *range = random.below(1000)..1000 + random.below(1000),
            }
            range.end = range.end.max(range.start);
        });
        query_all(&file, &graph, &dir);
    }
}
