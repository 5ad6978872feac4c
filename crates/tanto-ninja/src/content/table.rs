//! The table in memory.

use hashbrown::hash_map::Entry;
use tanto_cas::{ContentDigest, FileDigest};
use tanto_sys::fs::fingerprint::{FileState, Fingerprint, Trust};

use crate::hash::{Map, Set};
use crate::logs::LoggedCommand;

use super::{ContentId, PathKey};

/// The content of a file when it was last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry {
    pub fingerprint: Fingerprint,
    pub trust: Trust,
    pub digest: ContentDigest,
    /// The number of the build that found this content first.
    pub changed: u32,
}

impl FileEntry {
    /// Returns whether a file in this state has the content of the entry.
    pub fn is_of(&self, state: FileState) -> bool {
        self.trust == Trust::Known && self.fingerprint == state.fingerprint
    }

    /// Returns whether nothing shows that a file in this state has other content. On a file system without change times, that
    /// is all there is to know without reading every file in each build.
    pub fn may_be_of(&self, state: FileState) -> bool {
        self.trust != Trust::Racy && self.fingerprint == state.fingerprint
    }
}

/// Whether a command may write files that the manifest does not name as its outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideEffects {
    None,
    Possible,
}

/// What a command was last run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandRecord {
    /// The entry of `.ninja_log` to which the record belongs.
    pub log: LoggedCommand,
    pub inputs: ContentId,
    pub outputs: ContentId,
    pub side_effects: SideEffects,
    /// The number of the build that made the record.
    pub made: u32,
}

/// An entry that is not in the file yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Change {
    File(PathKey),
    Command(PathKey),
}

/// Sums that are kept: builds of different targets alternate.
const MAX_SUMS: usize = 4;

/// Digests of files and records of commands, by path. A command is named by its first output.
#[derive(Default, Debug)]
pub struct ContentTable {
    /// The number of this build.
    build: u32,
    files: Map<PathKey, FileEntry>,
    commands: Map<PathKey, CommandRecord>,
    /// Sums of the fingerprints of all files of a build, at times when everything was up to date. The last one is first.
    clean_sums: Vec<u64>,
    /// Files that were known until their times were set.
    retimed: Set<PathKey>,
    pub(super) changes: Set<Change>,
    pub(super) sums_changed: bool,
}

impl ContentTable {
    /// Creates the table of the build after `build`.
    pub(super) fn after(build: u32) -> ContentTable {
        ContentTable { build: build.saturating_add(1), ..ContentTable::default() }
    }

    pub fn build(&self) -> u32 {
        self.build
    }

    pub fn file(&self, key: PathKey) -> Option<&FileEntry> {
        self.files.get(&key)
    }

    pub fn command(&self, key: PathKey) -> Option<&CommandRecord> {
        self.commands.get(&key)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.files.len() + self.commands.len()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (PathKey, &FileEntry)> {
        self.files.iter().map(|(&key, entry)| (key, entry))
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = (PathKey, &CommandRecord)> {
        self.commands.iter().map(|(&key, record)| (key, record))
    }

    /// Notes the content of a file that was read. Returns the entry, and the one that it replaces.
    pub fn note_file(&mut self, key: PathKey, found: &FileDigest) -> (FileEntry, Option<FileEntry>) {
        let (fingerprint, trust) = (found.state.fingerprint, found.trust);
        let entry = |changed| FileEntry { fingerprint, trust, digest: found.digest, changed };
        let (new, before) = match self.files.entry(key) {
            Entry::Vacant(place) => (*place.insert(entry(self.build)), None),
            Entry::Occupied(mut place) => {
                let before = *place.get();
                let new = entry(if before.digest == found.digest { before.changed } else { self.build });
                place.insert(new);
                (new, Some(before))
            }
        };
        if before != Some(new) {
            self.changes.insert(Change::File(key));
        }
        (new, before)
    }

    /// Notes the new fingerprint of a file whose times were set just now. It may be changed again in the same tick.
    pub fn retime_file(&mut self, key: PathKey, fingerprint: Fingerprint) {
        if let Some(entry) = self.files.get_mut(&key) {
            entry.fingerprint = fingerprint;
            if entry.trust == Trust::Known {
                entry.trust = Trust::Racy;
                self.retimed.insert(key);
            }
            self.changes.insert(Change::File(key));
        }
    }

    /// Notes that a file with this fingerprint, which was known until its times were set, is no longer racy.
    pub fn settle_file(&mut self, key: PathKey, fingerprint: Fingerprint) {
        let is_same = |entry: &&mut FileEntry| entry.trust == Trust::Racy && entry.fingerprint == fingerprint;
        if self.retimed.remove(&key)
            && let Some(entry) = self.files.get_mut(&key).filter(is_same)
        {
            entry.trust = Trust::Known;
            self.changes.insert(Change::File(key));
        }
    }

    pub fn note_command(&mut self, key: PathKey, record: CommandRecord) {
        if self.commands.insert(key, record) != Some(record) {
            self.changes.insert(Change::Command(key));
        }
    }

    /// Removes the record of a command. Returns whether there was one.
    pub(super) fn forget_command(&mut self, key: PathKey) -> bool {
        let was_there = self.commands.remove(&key).is_some();
        if was_there {
            self.changes.insert(Change::Command(key));
        }
        was_there
    }

    pub fn clean_sums(&self) -> &[u64] {
        &self.clean_sums
    }

    /// Notes that everything is up to date while the fingerprints have this sum.
    pub fn note_clean_sum(&mut self, sum: u64) {
        if self.clean_sums.contains(&sum) {
            return;
        }
        self.clean_sums.truncate(MAX_SUMS - 1);
        self.clean_sums.insert(0, sum);
        self.sums_changed = true;
    }

    /// Adds an entry that the file has.
    pub(super) fn load_file(&mut self, key: PathKey, entry: FileEntry) {
        self.files.insert(key, entry);
    }

    pub(super) fn load_command(&mut self, key: PathKey, record: CommandRecord) {
        self.commands.insert(key, record);
    }

    pub(super) fn load_void(&mut self, key: PathKey) {
        self.commands.remove(&key);
    }

    pub(super) fn load_sums(&mut self, sums: impl IntoIterator<Item = u64>) {
        self.clean_sums = sums.into_iter().collect();
    }
}
