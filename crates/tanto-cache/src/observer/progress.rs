//! How far the digest of a list has come. Most lists of a build begin with the same names, those of the compiler and of
//! system headers: the next list continues where it differs from the last one.

use tanto_cas::{ContentDigest, Hasher};

use super::lines::{Identity, Line, NameId};
use super::list::Evaluation;
use super::{Aspect, InputName, Map};

/// Names after which a point is kept from which another list can continue.
const STEP: usize = 32;

#[derive(Default)]
pub(super) struct Progress {
    /// The round, and the set of hidden places.
    valid_in: (u64, usize),
    /// The names of the last list; `None` for one that has to be looked up again.
    names: Vec<Option<(NameId, Aspect)>>,
    /// After each `STEP` names.
    points: Vec<State>,
    state: State,
    paths: Paths,
    contents: SameContent,
}

/// What the names up to some point amount to.
#[derive(Clone)]
struct State {
    hasher: Hasher,
    seen_at: i64,
    newest: i64,
    /// How many entries the other two have.
    paths: usize,
    contents: usize,
}

impl Default for State {
    fn default() -> State {
        State { hasher: Hasher::default(), seen_at: i64::MAX, newest: i64::MIN, paths: 0, contents: 0 }
    }
}

impl Progress {
    /// Prepares for a list. Returns how many of its names are done.
    pub(super) fn begin(&mut self, names: &[InputName<'_>], valid_in: (u64, usize)) -> usize {
        let same = match self.valid_in == valid_in {
            true => self
                .names
                .iter()
                .zip(names)
                .take_while(|(before, name)| before.is_some() && **before == key(name))
                .count(),
            false => 0,
        };
        self.valid_in = valid_in;
        self.points.truncate(same / STEP);
        let done = self.points.len() * STEP;
        self.names.truncate(done);
        self.state = self.points.last().cloned().unwrap_or_default();
        self.paths.truncate(self.state.paths);
        self.contents.truncate(self.state.contents);
        done
    }

    /// Adds the next name. If it is not `lasting`, it is looked up again for each list.
    pub(super) fn add(&mut self, name: &InputName<'_>, line: &Line, is_lasting: bool) {
        let Progress { state, paths, contents, .. } = self;
        state.seen_at = state.seen_at.min(line.at);
        state.hasher.update(&line.digest.0);
        match line.identity {
            Identity::None => {}
            // Compilers search a directory with two names once.
            Identity::Name(file) => state.hasher.update(&paths.number(file).to_le_bytes()),
            Identity::File { content, device_and_inode, mtime } => {
                state.newest = state.newest.max(mtime);
                state.hasher.update(&contents.classify(content, device_and_inode, mtime));
            }
        }
        (state.paths, state.contents) = (paths.order.len(), contents.order.len());
        self.names.push(key(name).filter(|_| is_lasting));
        if self.names.len().is_multiple_of(STEP) {
            self.points.push(self.state.clone());
        }
    }

    /// Returns what all names that were added amount to.
    pub(super) fn evaluation(&self) -> Evaluation {
        let State { hasher, seen_at, newest, .. } = &self.state;
        Evaluation { digest: hasher.clone().finish().digest, seen_at: *seen_at, newest: *newest }
    }
}

fn key(name: &InputName<'_>) -> Option<(NameId, Aspect)> {
    Some((name.id?, name.aspect))
}

/// Directories, and files that were not read, by device and inode.
#[derive(Default)]
struct Paths {
    numbers: Map<(u64, u64), u32>,
    order: Vec<(u64, u64)>,
}

impl Paths {
    /// Returns the same number for a second name of one directory.
    fn number(&mut self, file: (u64, u64)) -> u32 {
        let new = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(file).or_insert_with(|| {
            self.order.push(file);
            new
        })
    }

    fn truncate(&mut self, length: usize) {
        for file in self.order.drain(length..) {
            self.numbers.remove(&file);
        }
    }
}

/// Files with equal content. Compilers treat them as one if they are the same file (clang) or have the same mtime in
/// seconds (gcc's `#pragma once`).
#[derive(Default)]
struct SameContent {
    files: Map<ContentDigest, Vec<FileAndTime>>,
    order: Vec<ContentDigest>,
}

struct FileAndTime {
    file: (u64, u64),
    second: i64,
}

impl SameContent {
    /// Returns which earlier file is the same one, and which has the same mtime; 0 if none.
    fn classify(&mut self, content: ContentDigest, file: (u64, u64), mtime: i64) -> [u8; 2] {
        let new = FileAndTime { file, second: mtime.div_euclid(1_000_000_000) };
        let before = self.files.entry(content).or_default();
        let place = |is_same: &dyn Fn(&FileAndTime) -> bool| {
            before.iter().position(is_same).map_or(0, |at| u8::try_from(at + 1).unwrap_or(u8::MAX))
        };
        let classes = [place(&|it| it.file == new.file), place(&|it| it.second == new.second)];
        before.push(new);
        self.order.push(content);
        classes
    }

    fn truncate(&mut self, length: usize) {
        if length == 0 {
            self.files.clear();
        }
        for content in self.order.drain(length..) {
            self.files.get_mut(&content).and_then(Vec::pop);
        }
    }
}
