//! Computes one digest of all inputs in a list.

use std::thread;
use std::time::Duration;

use tanto_cas::Digest;
use tanto_sys::fs::file_stamp::{coarse_now, fine_now};
use tanto_sys::fs::stat::FileKind;

use super::lines::{Identity, Line, NameId};
use super::{Aspect, Map, Observer, Seen};
use crate::places::Places;

/// A name in a list of inputs, with placeholders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct InputName<'n> {
    pub(crate) aspect: Aspect,
    pub(crate) name: &'n [u8],
    /// `None` if it was not looked up.
    pub(crate) id: Option<NameId>,
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
    /// Lines, and how files are related to earlier ones.
    text: Vec<u8>,
    line: Vec<u8>,
    path: Vec<u8>,
    value: Vec<u8>,
    paths: Map<(u64, u64), u32>,
    same: SameContent,
}

/// Files with equal content. Compilers treat them as one if they are the same file (clang) or have the same mtime in
/// seconds (gcc's `#pragma once`).
#[derive(Default)]
struct SameContent(Map<Digest, Vec<FileAndTime>>);

struct FileAndTime {
    file: (u64, u64),
    second: i64,
}

impl SameContent {
    /// Returns which earlier file is the same one, and which has the same mtime; 0 if none.
    fn classify(&mut self, content: Digest, file: (u64, u64), mtime: i64) -> [u8; 2] {
        let new = FileAndTime { file, second: mtime.div_euclid(1_000_000_000) };
        let before = self.0.entry(content).or_default();
        let place = |is_same: &dyn Fn(&FileAndTime) -> bool| {
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
        self.lines.begin(places);
        scratch.text.clear();
        scratch.same.0.clear();
        scratch.paths.clear();
        let (mut seen_at, mut newest) = (i64::MAX, i64::MIN);
        let mut is_known = true;
        for input in names {
            let Some(line) = self.line(input, places, &mut scratch) else {
                is_known = false;
                break;
            };
            seen_at = seen_at.min(line.at);
            if let Identity::File { mtime, .. } = line.identity {
                newest = newest.max(mtime);
            }
            scratch.append(&line);
        }
        let digest = Digest::of(&scratch.text);
        self.scratch = scratch;
        is_known.then_some(Evaluation { digest, seen_at, newest })
    }

    /// Returns `None` if the input cannot be compared.
    fn line(&mut self, input: &InputName<'_>, places: &Places, scratch: &mut Scratch) -> Option<Line> {
        if let Some(line) = self.lines.find(input, self.round) {
            return Some(line);
        }
        let &InputName { aspect, name, .. } = input;
        let path = places.show_in_path(name, &mut scratch.path);
        let sighting = self.see(aspect, path);
        let text = &mut scratch.line;
        text.clear();
        text.push(aspect as u8);
        put(text, name);
        put_seen(text, &sighting.seen, places, &mut scratch.value)?;
        let at = if aspect == Aspect::Variable { i64::MAX } else { sighting.at };
        let line = Line { digest: Digest::of(text), identity: Identity::of(&sighting.seen), at };
        let sighting = sighting.clone();
        if self.is_valid(aspect, &sighting) {
            self.lines.insert(input, self.round, line);
        }
        Some(line)
    }
}

impl Scratch {
    fn append(&mut self, line: &Line) {
        let Scratch { text, same, paths, .. } = self;
        text.extend_from_slice(&line.digest.0);
        match line.identity {
            Identity::None => {}
            Identity::Name(file) => {
                // Compilers search a directory with two names once.
                let new = u32::try_from(paths.len()).unwrap_or(u32::MAX);
                text.extend_from_slice(&paths.entry(file).or_insert(new).to_le_bytes());
            }
            Identity::File { content, device_and_inode, mtime } => {
                text.extend_from_slice(&same.classify(content, device_and_inode, mtime));
            }
        }
    }
}

fn put(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    text.extend_from_slice(bytes);
}

/// Returns `None` if it cannot be compared.
fn put_seen(text: &mut Vec<u8>, seen: &Seen, places: &Places, buffer: &mut Vec<u8>) -> Option<()> {
    match seen {
        Seen::File(file) => {
            text.push(if file.stat.is_executable { b'x' } else { b'f' });
            text.extend_from_slice(&file.digest.0);
        }
        Seen::Directory { names, .. } => {
            text.push(b'd');
            text.extend_from_slice(&names.0);
        }
        Seen::Present(stat) => text.push(match stat.kind {
            FileKind::File if stat.is_executable => b'X',
            FileKind::File => b'F',
            FileKind::Directory => b'D',
            FileKind::Other => b'O',
        }),
        Seen::Text(found) => {
            text.push(b't');
            put(text, places.hide_in_path(found, buffer));
        }
        Seen::Device => text.push(b'c'),
        Seen::Nothing => text.push(b'-'),
        Seen::Unknown => return None,
    }
    Some(())
}
