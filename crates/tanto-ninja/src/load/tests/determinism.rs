//! The result of a load does not depend on threads and chunk sizes.

use std::num::NonZeroUsize;

use tanto_sys::threads::ThreadLimit;
use tanto_testing::{Random, manifests, seeds};

use super::{Files, dump};
use crate::graph::Arena;
use crate::load::{LoadOptions, ParallelOptions, load};

/// One chunk per file, one thread, no speculative reading.
const PLAIN: ParallelOptions =
    ParallelOptions { chunk_size: usize::MAX, bytes_per_thread: usize::MAX, max_threads: Some(1), speculative: false };

/// Everything a load emits: warnings, then the graph or the error.
fn output(files: &Files, options: LoadOptions) -> String {
    let arena = Arena::new();
    let mut output = String::new();
    let mut warn = |text: &[u8]| output += &format!("warning: {}\n", text.escape_ascii());
    match load(&arena, files, b"build.ninja", options, &mut warn) {
        Ok(graph) => output += &dump::dump(&graph),
        Err(error) => output += &format!("error, fatal: {}: {}\n", error.is_fatal(), error.text().escape_ascii()),
    }
    output
}

/// Random options.
fn any(random: &mut Random, phony_cycle_is_error: bool) -> LoadOptions {
    let longest = *random.pick(&[2, 20, 200, 2000]);
    let fitting = 1 + random.below(8);
    let allowed = NonZeroUsize::new(random.below(8)).map_or(ThreadLimit::Auto, ThreadLimit::AtMost);
    let parallel = ParallelOptions {
        chunk_size: 1 + random.below(longest),
        bytes_per_thread: random.below(2) * random.below(200),
        max_threads: Some(fitting),
        speculative: random.chance(80),
    };
    LoadOptions { phony_cycle_is_error, threads: allowed, parallel }
}

#[test]
fn result_is_independent_of_threads_and_chunks() {
    for seed in seeds(1000) {
        let mut random = Random::new(seed);
        let texts = manifests(&mut random);
        let files = Files(texts.into_iter().map(|(name, text)| (name.into_bytes(), text)).collect());
        let phony_cycle_is_error = random.chance(10);
        let plain = output(&files, LoadOptions { phony_cycle_is_error, threads: ThreadLimit::ONE, parallel: PLAIN });
        for _ in 0..3 {
            let options = any(&mut random, phony_cycle_is_error);
            let other = output(&files, options);
            assert!(other == plain, "seed {seed}, {options:?}\n{}", first_difference(&plain, &other, &files));
        }
    }
}

/// The first different line, and the manifests.
fn first_difference(plain: &str, other: &str, files: &Files) -> String {
    let at = plain.lines().zip(other.lines()).position(|(one, other)| one != other);
    let at = at.unwrap_or(plain.lines().count().min(other.lines().count()));
    let [plain, other] = [plain, other].map(|text| text.lines().nth(at).unwrap_or("(nothing)"));
    let text = |(name, text): (&Vec<u8>, &Vec<u8>)| format!("{}:\n{}\n", name.escape_ascii(), text.escape_ascii());
    let texts: String = files.0.iter().map(text).collect();
    format!("plain: {plain}\nother: {other}\n{}", texts.replace("\\n", "\n"))
}

/// Ensures that the random manifests cover enough: many are valid, and errors are diverse.
#[test]
fn random_manifests_are_diverse() {
    let mut errors = std::collections::BTreeMap::new();
    let (mut sound, mut edges, mut warned) = (0, 0, 0);
    for seed in 0..1000 {
        let texts = manifests(&mut Random::new(seed));
        let files = Files(texts.into_iter().map(|(name, text)| (name.into_bytes(), text)).collect());
        let output =
            output(&files, LoadOptions { threads: ThreadLimit::ONE, parallel: PLAIN, ..LoadOptions::default() });
        warned += usize::from(output.contains("warning: "));
        match output.lines().find_map(|line| line.strip_prefix("error, fatal: ")) {
            Some(error) => *errors.entry(kind(error)).or_insert(0) += 1,
            None => sound += 1,
        }
        edges += output.lines().filter(|line| line.starts_with("EdgeId")).count();
    }
    println!("{sound} sound, {edges} edges, {warned} warned, {errors:#?}");
    assert!(sound > 300 && edges > 3000 && warned > 50 && errors.len() > 25);
}

/// An error without names and places.
fn kind(error: &str) -> String {
    let first = error.split("\\n").next().unwrap_or(error);
    let words = first.split([' ', ':']).filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '$'));
    words.collect::<Vec<_>>().join(" ")
}
