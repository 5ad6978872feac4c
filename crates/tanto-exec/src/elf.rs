//! ELF files: the build-id and the dynamic loader of a program.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// No program has more segments, or longer notes.
const MOST_SEGMENTS: u16 = 256;
const LONGEST_NOTES: u64 = 64 << 10;
/// The kernel accepts no longer path of a loader.
const LONGEST_PATH: u64 = 4096;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const GNU: &[u8] = b"GNU\0";

/// Reads the GNU build-id, in hexadecimal digits; `None` if the file is no 64-bit little-endian ELF file or has none.
pub fn build_id(path: &Path) -> Option<Vec<u8>> {
    segments(path, PT_NOTE, LONGEST_NOTES)?.iter().find_map(|notes| in_notes(notes))
}

/// Reads the path of the dynamic loader that the kernel starts for a program; `None` if the file is no 64-bit
/// little-endian ELF file or is linked statically.
pub fn loader(path: &Path) -> Option<PathBuf> {
    let mut path = segments(path, PT_INTERP, LONGEST_PATH)?.pop()?;
    (path.pop() == Some(0) && !path.contains(&0)).then(|| OsString::from_vec(path).into())
}

/// Reads all segments of this kind; `None` if one cannot be read or is longer than `longest`.
fn segments(path: &Path, kind: u32, longest: u64) -> Option<Vec<Vec<u8>>> {
    let file = File::open(path).ok()?;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    // The class is 64 bits, the byte order little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (large(&head, 32)?, small16(&head, 54)?, small16(&head, 56)?);
    if count > MOST_SEGMENTS || size < 56 {
        return None;
    }
    let mut found = Vec::new();
    for number in 0..count {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, table.checked_add(u64::from(number) * u64::from(size))?).ok()?;
        let (at, length) = (large(&segment, 8)?, large(&segment, 32)?);
        if small(&segment, 0)? != kind {
            continue;
        }
        if length > longest {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, at).ok()?;
        found.push(bytes);
    }
    Some(found)
}

/// Each note has three numbers, its name and its content, both padded to four bytes.
fn in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (name, content) = (small(notes, 0)? as usize, small(notes, 4)? as usize);
        let kind = small(notes, 8)?;
        let from = 12 + name.checked_next_multiple_of(4)?;
        let its = notes.get(from..from.checked_add(content)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name)? == GNU && !its.is_empty() {
            return Some(its.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
        }
        notes = notes.get(from + content.checked_next_multiple_of(4)?..)?;
    }
}

fn small16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn large(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::{Material, Random, Scratch};

    /// An ELF file of one segment with these notes.
    fn program(notes: &[u8]) -> Vec<u8> {
        with_segment(PT_NOTE, notes)
    }

    fn with_segment(kind: u32, notes: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(64, 0);
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
        bytes.extend(kind.to_le_bytes());
        bytes.resize(120, 0);
        bytes[72..80].copy_from_slice(&120_u64.to_le_bytes());
        bytes[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(notes);
        bytes
    }

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [name.len() as u32, content.len() as u32, kind] {
            bytes.extend(number.to_le_bytes());
        }
        for part in [name, content] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_read() {
        let dir = Scratch::new("build-id");
        let notes = [note(1, b"Linux\0", b"abc"), note(3, GNU, b"\x01\xab")].concat();
        std::fs::write(dir.at("program"), program(&notes)).unwrap();
        assert_eq!(build_id(&dir.at("program")), Some(b"01ab".to_vec()));
        std::fs::write(dir.at("program"), program(&note(1, GNU, b"\x01"))).unwrap();
        assert_eq!(build_id(&dir.at("program")), None);
        assert_eq!(build_id(&dir.at("nowhere")), None);
    }

    #[test]
    fn the_loader_is_read() {
        let dir = Scratch::new("loader");
        let loader_in = |bytes: &[u8]| {
            std::fs::write(dir.at("program"), bytes).unwrap();
            loader(&dir.at("program"))
        };
        assert_eq!(loader_in(&with_segment(PT_INTERP, b"/lib/ld.so\0")), Some("/lib/ld.so".into()));
        assert_eq!(loader_in(&with_segment(PT_INTERP, b"/lib/ld.so")), None);
        assert_eq!(loader_in(&with_segment(PT_INTERP, b"a\0b\0")), None);
        assert_eq!(loader_in(&program(b"")), None);
        assert_eq!(loader_in(b"#!/bin/sh\n"), None);
        assert!(loader(Path::new("/usr/bin/env")).is_some_and(|path| path.is_absolute()));
    }

    #[test]
    fn arbitrary_files_never_panic() {
        let dir = Scratch::new("build-id-odd");
        let seeds = vec![program(&[note(1, b"Linux\0", b"abc"), note(3, GNU, b"\x01\xab")].concat())];
        let tokens: &[&[u8]] = &[b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\0\0\0\0", GNU];
        let material = Material { seeds, tokens, head: 6 };
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            std::fs::write(dir.at("program"), material.input(&mut random)).unwrap();
            let _ = (build_id(&dir.at("program")), loader(&dir.at("program")));
        }
    }
}
