//! Computes one digest of all inputs in a list.

use std::thread;
use std::time::Duration;

use tanto_cas::Digest;
use tanto_sys::fs::file_stamp::{coarse_now, fine_now};
use tanto_sys::fs::stat::{FileKind, Stat};

use super::{Aspect, Map, Observer, Seen, SeenFile};
use crate::places::Places;

/// A name in a list of inputs, with placeholders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct InputName<'n> {
    pub(crate) aspect: Aspect,
    pub(crate) name: &'n [u8],
}

/// The state of all inputs in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Evaluation {
    pub(crate) digest: Digest,
    /// Nothing has changed since then.
    pub(crate) seen_at: i64,
    /// The newest mtime of all files.
    pub(crate) newest: i64,
}

/// Buffers.
#[derive(Default)]
pub(super) struct Scratch {
    paths: Map<(u64, u64), u32>,
    text: Vec<u8>,
    path: Vec<u8>,
    value: Vec<u8>,
    same: SameContent,
}

/// Files with equal content. Compilers treat them as one if they are the same file (clang) or have the same mtime in
/// seconds (gcc's `#pragma once`).
#[derive(Default)]
struct SameContent(Map<Digest, Vec<Identity>>);

struct Identity {
    file: (u64, u64),
    second: i64,
}

impl SameContent {
    /// Returns which earlier file is the same one, and which has the same mtime; 0 if none.
    fn classify(&mut self, file: &SeenFile) -> [u8; 2] {
        let new =
            Identity { file: (file.stat.device, file.stat.inode), second: file.stat.mtime.div_euclid(1_000_000_000) };
        let before = self.0.entry(file.digest).or_default();
        let place = |is_same: &dyn Fn(&Identity) -> bool| {
            before.iter().position(is_same).map_or(0, |at| u8::try_from(at + 1).unwrap_or(u8::MAX))
        };
        let classes = [place(&|it| it.file == new.file), place(&|it| it.second == new.second)];
        before.push(new);
        classes
    }
}

impl Observer {
    /// Looks at all names of a list; `None` if one cannot be compared. Files that are newer than the moment at which others
    /// were seen would look changed to the next build, so then the others are confirmed.
    pub(crate) fn evaluate(&mut self, names: &[InputName<'_>], places: &Places) -> Option<Evaluation> {
        let first = self.evaluate_as_seen(names, places)?;
        if first.newest <= first.seen_at {
            return Some(first);
        }
        // A file from the future would be waited for in vain.
        while first.newest <= fine_now() && first.newest > coarse_now() {
            thread::sleep(Duration::from_millis(1));
        }
        self.distrust_all();
        self.evaluate_as_seen(names, places).filter(|second| second.newest <= second.seen_at)
    }

    /// Like `evaluate`, but never confirms valid sightings.
    pub(crate) fn evaluate_as_seen(&mut self, names: &[InputName<'_>], places: &Places) -> Option<Evaluation> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.text.clear();
        scratch.same.0.clear();
        scratch.paths.clear();
        let (mut seen_at, mut newest) = (i64::MAX, i64::MIN);
        let mut is_known = true;
        for &InputName { aspect, name } in names {
            let path = places.show_in_path(name, &mut scratch.path);
            let sighting = self.see(aspect, path);
            if aspect != Aspect::Variable {
                seen_at = seen_at.min(sighting.at);
            }
            if let Seen::File(file) = &sighting.seen {
                newest = newest.max(file.stat.mtime);
            }
            scratch.text.push(aspect as u8);
            put(&mut scratch.text, name);
            is_known &= append(&sighting.seen, places, &mut scratch);
            if !is_known {
                break;
            }
        }
        let digest = Digest::of(&scratch.text);
        self.scratch = scratch;
        is_known.then_some(Evaluation { digest, seen_at, newest })
    }
}

fn put(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    text.extend_from_slice(bytes);
}

/// Compilers search a directory with two names once.
fn put_first_name(stat: &Stat, text: &mut Vec<u8>, paths: &mut Map<(u64, u64), u32>) {
    let new = u32::try_from(paths.len()).unwrap_or(u32::MAX);
    let first = *paths.entry((stat.device, stat.inode)).or_insert(new);
    text.extend_from_slice(&first.to_le_bytes());
}

/// Returns false if it cannot be compared.
fn append(seen: &Seen, places: &Places, scratch: &mut Scratch) -> bool {
    let Scratch { text, value, same, paths, .. } = scratch;
    match seen {
        Seen::File(file) => {
            text.push(if file.stat.is_executable { b'x' } else { b'f' });
            text.extend_from_slice(&file.digest.0);
            text.extend_from_slice(&same.classify(file));
        }
        Seen::Directory { names, stat } => {
            text.push(b'd');
            text.extend_from_slice(&names.0);
            put_first_name(stat, text, paths);
        }
        Seen::Present(stat) => {
            text.push(match stat.kind {
                FileKind::File if stat.is_executable => b'X',
                FileKind::File => b'F',
                FileKind::Directory => b'D',
                FileKind::Other => b'O',
            });
            put_first_name(stat, text, paths);
        }
        Seen::Text(found) => {
            text.push(b't');
            put(text, places.hide_in_path(found, value));
        }
        Seen::Device => text.push(b'c'),
        Seen::Nothing => text.push(b'-'),
        Seen::Unknown => return false,
    }
    true
}
