//! Hashes the sources of this crate: a snapshot is valid only for the version that wrote it.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    add(Path::new("src"), &mut files);
    files.sort();
    let mut hash = Fnv1a(0xcbf2_9ce4_8422_2325);
    for file in files {
        hash.add(file.as_os_str().as_encoded_bytes());
        hash.add(&fs::read(&file).expect("a source can be read"));
    }
    println!("cargo:rustc-env=TANTO_SOURCES={:016x}", hash.0);
}

/// Adds the sources below a directory.
fn add(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources can be read") {
        let path = entry.expect("a directory of sources can be read").path();
        if path.is_dir() {
            add(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

struct Fnv1a(u64);

impl Fnv1a {
    fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
