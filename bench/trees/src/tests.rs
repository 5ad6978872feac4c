//! The same options always give the same trees: figures of different days can be compared.

use std::fs;
use std::path::Path;

use super::{hashes, parse, write};

/// The hash of some files of a tree.
fn hash_of(arguments: &str, files: &[&str]) -> u64 {
    let out = std::env::temp_dir().join(format!("tanto-trees-{}-{}", std::process::id(), &arguments[..4]));
    let words = format!("{arguments} --out {}", out.display());
    let options = parse(words.split(' ').map(str::to_owned)).expect("good options");
    write(&options).expect("a tree");
    let read = |file: &&str| fs::read(out.join(Path::new(file))).expect("a file of the tree");
    let text: Vec<Vec<u8>> = files.iter().map(read).collect();
    fs::remove_dir_all(&out).expect("a tree to remove");
    hashes::rapidhash(&text.concat())
}

#[test]
fn aosp_is_always_the_same() {
    let files = [
        "build-v7.ninja",
        "out/soong.ninja",
        "out/kati.ninja",
        "out/package.ninja",
        ".b/v5/.ninja_log",
        ".b/v7/.ninja_log",
        ".b/v7/.ninja_deps",
        ".b/n2/.n2_db",
    ];
    assert_eq!(hash_of("aosp --scale 0.002 --headers 50 --seed 2", &files), 12617571855723188013);
}

#[test]
fn chromium_is_always_the_same() {
    let manifest = "obj/chrome/browser/component_0/target_3/target_3.ninja";
    let files =
        ["build-v5.ninja", "toolchain.ninja", manifest, ".b/v5/.ninja_deps", ".b/v7/.ninja_log", ".b/n2/.n2_db"]
            .map(|file| format!("out/Default/{file}"));
    assert_eq!(
        hash_of("chromium --scale 0.001 --headers 50", &files.each_ref().map(String::as_str)),
        14451377133166343020
    );
}

#[test]
fn bad_options_are_named() {
    let message = |words: &str| parse(words.split(' ').map(str::to_owned)).err().expect("an error");
    assert!(message("aosp --scale big --out x").starts_with("bad value for --scale: big"));
    assert!(message("aosp --out").starts_with("--out needs a value"));
    assert!(message("aosp --size 1").starts_with("unknown option --size"));
    assert!(message("aosp").starts_with("--out is missing"));
}
