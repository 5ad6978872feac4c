//! What is known about the content of files, and what each command was last run with.
//!
//! The knowledge is a table, kept in `.tanto/contents`. It has the digest of each file, with the fingerprint that the file
//! had when it was read, and a record of each command: the inputs that it used and the outputs that it made, as one number
//! each. A record belongs to one entry of `.ninja_log`. If another program has added an entry since, the record is void,
//! and times decide.

mod content_id;
mod file;
mod reader;
mod side_effects;
mod table;

use std::path::PathBuf;

use tanto_cas::{ContentDigest, FileDigest};
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::fs::fingerprint::{FileState, Trust};

use crate::hash::Map;
use crate::ids::NodeId;

use self::file::ContentFile;

pub use self::content_id::{ContentId, PathKey};
pub(crate) use self::reader::BackgroundReader;
pub use self::table::{CommandRecord, ContentTable, FileEntry, SideEffects};

/// A file as several threads found it before a walk.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PreparedFile {
    /// `None` if its content is unknown.
    pub(crate) id: Option<ContentId>,
    /// Whether its times may be set; `None` if that was not determined.
    pub(crate) may_renew: Option<bool>,
}

/// The content of files, as far as a run needs it.
pub struct Contents {
    /// Where the table is read, the first that has one.
    read_from: Vec<PathBuf>,
    table: Option<(ContentTable, ContentFile)>,
    /// By node; `ContentId::UNKNOWN` if it was not determined yet.
    ids: Vec<ContentId>,
    /// By node: 1 more than the number of the build that found its content first; 0 if that was not determined yet.
    last_changes: Vec<u32>,
    /// Files with another fingerprint but the content of the table.
    pub retimed: usize,
    /// All prefetched files have the fingerprints that they had when everything was up to date.
    pub(crate) is_unchanged: bool,
    /// The sum of the fingerprints of all prefetched files, if the content of all is known.
    pub(crate) sum: Option<u64>,
    /// Racy files that were read at the end of the build, to record what commands were run with.
    just_read: Map<NodeId, FileDigest>,
    /// By node; empty outside of walks.
    prepared: Vec<PreparedFile>,
}

impl Contents {
    pub fn new(read_from: Vec<PathBuf>) -> Contents {
        Contents {
            read_from,
            table: None,
            ids: Vec::new(),
            last_changes: Vec::new(),
            retimed: 0,
            is_unchanged: false,
            sum: None,
            just_read: Map::default(),
            prepared: Vec::new(),
        }
    }

    /// Forgets what was determined about files since the table was read.
    pub fn reset(&mut self) {
        self.ids.clear();
        self.last_changes.clear();
        self.just_read.clear();
        self.begin_walk();
    }

    /// Forgets what was determined about the files of an earlier walk as a whole.
    pub(crate) fn begin_walk(&mut self) {
        (self.is_unchanged, self.sum) = (false, None);
        self.end_walk();
    }

    /// Forgets what was determined about files only for a walk. Commands may change them from now on.
    pub(crate) fn end_walk(&mut self) {
        self.prepared = Vec::new();
    }

    /// Keeps what was determined about files for the next walk.
    pub(crate) fn set_prepared(&mut self, count: usize, found: impl Iterator<Item = (NodeId, PreparedFile)>) {
        self.prepared = vec![PreparedFile::default(); count];
        found.for_each(|(node, found)| self.prepared[node.index()] = found);
    }

    /// Returns the table, and what was determined about files for the next walk, by node.
    pub(crate) fn table_and_prepared(&mut self) -> (&ContentTable, &[PreparedFile]) {
        self.table();
        let table = self.table.as_ref().map(|(table, _)| table);
        (table.expect("it was read just now"), &self.prepared)
    }

    pub(crate) fn prepared(&self, node: NodeId) -> PreparedFile {
        self.prepared.get(node.index()).copied().unwrap_or_default()
    }

    /// Returns the table; reads it at the first call.
    pub fn table(&mut self) -> &mut ContentTable {
        let Contents { table, read_from, .. } = self;
        &mut table.get_or_insert_with(|| file::load(read_from, coarse_now())).0
    }

    /// Removes the record of a command that is about to run, also from the file.
    pub(crate) fn void(&mut self, key: PathKey) {
        if self.table().forget_command(key)
            && let Some((table, file)) = &mut self.table
        {
            file.void(key, table.build(), coarse_now());
        }
    }

    /// Notes that everything is up to date.
    pub fn note_clean(&mut self) {
        if let (Some(sum), false) = (self.sum, self.is_unchanged) {
            self.table().note_clean_sum(sum);
        }
    }

    /// Returns the sums of fingerprints at the times when everything was up to date. Does not read the table.
    pub(crate) fn clean_sums(&self) -> Vec<u64> {
        match &self.table {
            Some((table, _)) => table.clean_sums().to_vec(),
            None => file::clean_sums(&self.read_from, coarse_now()),
        }
    }

    /// Writes what is new to the table's file, `path`.
    pub fn save(&mut self, path: &std::path::Path) -> std::io::Result<()> {
        match &mut self.table {
            Some((table, file)) => file.save(path, table, coarse_now()),
            None => Ok(()),
        }
    }

    /// Notes the content of a file that was read. Returns the number of the build that found it first.
    pub(crate) fn note_read(&mut self, key: PathKey, found: &FileDigest, is_source: bool) -> u32 {
        let (entry, before) = self.table().note_file(key, found);
        let is_retimed = |before: FileEntry| before.digest == entry.digest && before.fingerprint != entry.fingerprint;
        self.retimed += usize::from(is_source && before.is_some_and(is_retimed));
        entry.changed
    }

    /// Notes that a file was read for the records of commands, so that a racy one is not read again for each record.
    pub(crate) fn note_read_for_records(&mut self, node: NodeId, key: PathKey, found: &FileDigest, is_source: bool) {
        self.note_read(key, found, is_source);
        if found.trust != Trust::Known {
            self.just_read.insert(node, *found);
        }
    }

    /// Returns the digest of a file in this state that was read for the records of commands.
    pub(crate) fn just_read(&self, node: NodeId, state: FileState) -> Option<ContentDigest> {
        self.just_read.get(&node).filter(|found| found.state == state).map(|found| found.digest)
    }

    pub(crate) fn last_change(&self, node: NodeId) -> Option<u32> {
        self.last_changes.get(node.index()).and_then(|found| found.checked_sub(1))
    }

    pub(crate) fn set_last_change(&mut self, node: NodeId, build: u32) {
        if node.index() >= self.last_changes.len() {
            self.last_changes.resize(node.index() + 1, 0);
        }
        self.last_changes[node.index()] = build.saturating_add(1);
    }

    /// Forgets what was determined about a file, which a command has written.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.ids.get_mut(node.index()).into_iter().for_each(|id| *id = ContentId::UNKNOWN);
        self.last_changes.get_mut(node.index()).into_iter().for_each(|found| *found = 0);
    }

    pub(crate) fn id(&self, node: NodeId) -> Option<ContentId> {
        self.ids.get(node.index()).copied().filter(|&id| id != ContentId::UNKNOWN)
    }

    pub(crate) fn set_id(&mut self, node: NodeId, id: ContentId) {
        if node.index() >= self.ids.len() {
            self.ids.resize(node.index() + 1, ContentId::UNKNOWN);
        }
        self.ids[node.index()] = id;
    }
}
