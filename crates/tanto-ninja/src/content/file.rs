//! The file of a table: blocks, each with a head and a checksum.
//!
//! ```text
//! head:  MAGIC, kind, length of the payload, build, time, checksum
//! entries:  file (1), key, fingerprint, trust, digest, changed
//!           command (2), key, hash and mtime of its log entry, inputs, outputs, side effects, made
//!           void (3), key: the command has no record any more
//! sums:  4 numbers
//! ```
//!
//! Numbers are little-endian. New entries are appended. A reader stops at the first damaged block, which a killed build may
//! have left, and the next writer continues there. If a block is from the future, the machine's clock was set back, and
//! files could get times once more that they had with other content: then the whole file is ignored.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tanto_cas::ContentDigest;
use tanto_sys::fs::file::write_atomically;
use tanto_sys::fs::fingerprint::{Fingerprint, Trust};
use tanto_sys::fs::private_files;

use crate::hash::rapidhash;
use crate::logs::LoggedCommand;

use super::table::{Change, CommandRecord, ContentTable, FileEntry, SideEffects};
use super::{ContentId, PathKey};

const MAGIC: &[u8; 4] = b"TCT2";
const ENTRIES: u32 = 1;
const SUMS: u32 = 2;
/// MAGIC, kind, length, build, time, checksum.
const HEAD: usize = 4 + 4 + 4 + 4 + 8 + 8;
const SUM_COUNT: usize = 4;
const SUMS_BLOCK: usize = HEAD + 8 * SUM_COUNT;

/// Longest file, in bytes. A longer one is ignored, and replaced.
const MAX_BYTES: u64 = 1 << 30;
/// Longest payload that is written, in bytes.
const MAX_PAYLOAD: usize = 1 << 20;
/// Superseded entries that are tolerated beside as many as there are others.
const MIN_SUPERSEDED: usize = 1 << 12;

const FILE: u8 = 1;
const COMMAND: u8 = 2;
const VOID: u8 = 3;

/// The state of the file that a table came from.
#[derive(Default, Debug)]
pub(super) struct ContentFile {
    /// Where it is; `None` if it must be written anew.
    path: Option<PathBuf>,
    /// Length up to the first damaged block.
    length: u64,
    /// Entries in the file, superseded ones included.
    entries: usize,
    /// The file, if it was opened to append.
    open: Option<File>,
}

/// Reads the first table that exists. A missing or unusable one is empty.
pub(super) fn load(paths: &[PathBuf], now: i64) -> (ContentTable, ContentFile) {
    paths.iter().find_map(|path| read(path, now)).unwrap_or_else(|| (ContentTable::after(0), ContentFile::default()))
}

/// Reads only the sums at the end of the first table that exists.
pub(super) fn clean_sums(paths: &[PathBuf], now: i64) -> Vec<u64> {
    paths.iter().find_map(|path| read_sums(path, now)).unwrap_or_default()
}

fn read(path: &Path, now: i64) -> Option<(ContentTable, ContentFile)> {
    let file = private_files::open(path).ok()?;
    let mut bytes = Vec::with_capacity(file.metadata().ok()?.len().min(MAX_BYTES) as usize);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_BYTES {
        return None;
    }
    parse(&bytes, now).map(|(table, length, entries)| {
        (table, ContentFile { path: Some(path.into()), length: length as u64, entries, open: None })
    })
}

/// Returns the table, the length of the undamaged part, and the number of entries. `None` if it is from the future, or has
/// an unknown entry.
fn parse(bytes: &[u8], now: i64) -> Option<(ContentTable, usize, usize)> {
    let last_build = blocks(bytes).map(|block| block.build).max().unwrap_or(0);
    let mut table = ContentTable::after(last_build);
    let (mut length, mut entries) = (0, 0);
    for block in blocks(bytes) {
        if block.time > now {
            return None;
        }
        match block.kind {
            ENTRIES => entries += parse_entries(block.payload, &mut table)?,
            _ => table.load_sums(parse_sums(block.payload)),
        }
        length += HEAD + block.payload.len();
    }
    Some((table, length, entries))
}

struct Block<'b> {
    kind: u32,
    build: u32,
    time: i64,
    payload: &'b [u8],
}

/// Returns the blocks up to the first damaged one.
fn blocks(bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let block = block(rest)?;
        rest = &rest[HEAD + block.payload.len()..];
        Some(block)
    })
}

fn block(bytes: &[u8]) -> Option<Block<'_>> {
    let mut fields = Fields(bytes);
    let magic: [u8; 4] = fields.take()?;
    let (kind, length, build) = (fields.word()?, fields.word()?, fields.word()?);
    let (time, sum) = (i64::from_le_bytes(fields.take()?), u64::from_le_bytes(fields.take()?));
    let payload = fields.0.get(..length as usize)?;
    let is_known = &magic == MAGIC && (kind == ENTRIES || (kind == SUMS && payload.len() == 8 * SUM_COUNT));
    (is_known && sum == checksum(&bytes[..HEAD - 8], payload)).then_some(Block { kind, build, time, payload })
}

fn checksum(head: &[u8], payload: &[u8]) -> u64 {
    rapidhash(payload).wrapping_add(rapidhash(head).rotate_left(1))
}

/// Appends a block.
fn put_block(to: &mut Vec<u8>, kind: u32, build: u32, time: i64, payload: &[u8]) {
    let start = to.len();
    to.extend_from_slice(MAGIC);
    for word in [kind, u32::try_from(payload.len()).expect("a payload is limited"), build] {
        to.extend_from_slice(&word.to_le_bytes());
    }
    to.extend_from_slice(&time.to_le_bytes());
    let sum = checksum(&to[start..], payload);
    to.extend_from_slice(&sum.to_le_bytes());
    to.extend_from_slice(payload);
}

fn parse_entries(payload: &[u8], table: &mut ContentTable) -> Option<usize> {
    let mut fields = Fields(payload);
    let mut count = 0;
    while !fields.0.is_empty() {
        let [tag] = fields.take()?;
        let key = PathKey(u128::from_le_bytes(fields.take()?));
        match tag {
            FILE => {
                let fingerprint = Fingerprint(u64::from_le_bytes(fields.take()?));
                let trust = trust(fields.take()?)?;
                let entry =
                    FileEntry { fingerprint, trust, digest: ContentDigest(fields.take()?), changed: fields.word()? };
                table.load_file(key, entry);
            }
            COMMAND => {
                let log = LoggedCommand {
                    command_hash: u64::from_le_bytes(fields.take()?),
                    mtime: i64::from_le_bytes(fields.take()?),
                };
                let (inputs, outputs) = (ContentId(fields.take()?), ContentId(fields.take()?));
                let side_effects = side_effects(fields.take()?)?;
                table.load_command(key, CommandRecord { log, inputs, outputs, side_effects, made: fields.word()? });
            }
            VOID => table.load_void(key),
            _ => return None,
        }
        count += 1;
    }
    Some(count)
}

fn trust([code]: [u8; 1]) -> Option<Trust> {
    [Trust::Known, Trust::Racy, Trust::Never].into_iter().find(|trust| *trust as u8 == code)
}

fn side_effects([code]: [u8; 1]) -> Option<SideEffects> {
    [SideEffects::None, SideEffects::Possible].into_iter().find(|it| *it as u8 == code)
}

fn put_file(to: &mut Vec<u8>, key: PathKey, entry: &FileEntry) {
    to.push(FILE);
    to.extend_from_slice(&key.0.to_le_bytes());
    to.extend_from_slice(&entry.fingerprint.0.to_le_bytes());
    to.push(entry.trust as u8);
    to.extend_from_slice(&entry.digest.0);
    to.extend_from_slice(&entry.changed.to_le_bytes());
}

fn put_command(to: &mut Vec<u8>, key: PathKey, record: &CommandRecord) {
    to.push(COMMAND);
    to.extend_from_slice(&key.0.to_le_bytes());
    to.extend_from_slice(&record.log.command_hash.to_le_bytes());
    to.extend_from_slice(&record.log.mtime.to_le_bytes());
    to.extend_from_slice(&record.inputs.0);
    to.extend_from_slice(&record.outputs.0);
    to.push(record.side_effects as u8);
    to.extend_from_slice(&record.made.to_le_bytes());
}

fn void_entry(key: PathKey) -> Vec<u8> {
    [&[VOID][..], &key.0.to_le_bytes()].concat()
}

fn parse_sums(payload: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = payload.as_chunks();
    words.iter().map(|&word| u64::from_le_bytes(word)).filter(|&sum| sum != 0)
}

fn read_sums(path: &Path, now: i64) -> Option<Vec<u64>> {
    let file = private_files::open(path).ok()?;
    let at = file.metadata().ok()?.len().checked_sub(SUMS_BLOCK as u64)?;
    let mut bytes = [0; SUMS_BLOCK];
    file.read_exact_at(&mut bytes, at).ok()?;
    let block = block(&bytes).filter(|block| block.kind == SUMS && block.time <= now)?;
    Some(parse_sums(block.payload).collect())
}

impl ContentFile {
    /// Writes what is new in the table.
    pub(super) fn save(&mut self, path: &Path, table: &mut ContentTable, now: i64) -> io::Result<()> {
        if table.changes.is_empty() && !table.sums_changed {
            return Ok(());
        }
        let superseded = (self.entries + table.changes.len()).saturating_sub(table.len());
        let is_appended = self.path.as_deref() == Some(path)
            && superseded < table.len() + MIN_SUPERSEDED
            && self.append(table, now).is_ok();
        if !is_appended {
            self.rewrite(path, table, now)?;
        }
        table.changes.clear();
        table.sums_changed = false;
        Ok(())
    }

    fn append(&mut self, table: &ContentTable, now: i64) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut entries = EntryBlocks::new(&mut bytes, table.build(), now);
        for change in &table.changes {
            match *change {
                Change::File(key) => table.file(key).into_iter().for_each(|entry| entries.file(key, entry)),
                Change::Command(key) => match table.command(key) {
                    Some(record) => entries.command(key, record),
                    None => entries.void(key),
                },
            }
        }
        entries.finish();
        put_sums(&mut bytes, table, now);
        self.write(&bytes)?;
        self.entries += table.changes.len();
        Ok(())
    }

    /// Notes in the file that a command has no record, before the command runs: it may fail, or be killed with the build,
    /// and have changed files beside its outputs. If that is impossible, there is no record of any command.
    pub(super) fn void(&mut self, key: PathKey, build: u32, now: i64) {
        let Some(path) = self.path.clone() else { return };
        let mut bytes = Vec::new();
        put_block(&mut bytes, ENTRIES, build, now, &void_entry(key));
        match self.write(&bytes) {
            Ok(()) => self.entries += 1,
            Err(_) => {
                let _ = fs::remove_file(path);
                *self = ContentFile::default();
            }
        }
    }

    /// Appends to the file that was read.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match (&mut self.open, &self.path) {
            (Some(file), _) => file,
            (open, Some(path)) => open.insert(private_files::open_to_append(path)?),
            (_, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        if file.metadata()?.len() < self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.set_len(self.length)?;
        file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn rewrite(&mut self, path: &Path, table: &ContentTable, now: i64) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut entries = EntryBlocks::new(&mut bytes, table.build(), now);
        table.files().for_each(|(key, entry)| entries.file(key, entry));
        table.commands().for_each(|(key, record)| entries.command(key, record));
        entries.finish();
        put_sums(&mut bytes, table, now);
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        write_atomically(path, |file| {
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(&bytes)
        })?;
        *self = ContentFile { path: Some(path.into()), length: bytes.len() as u64, entries: table.len(), open: None };
        Ok(())
    }
}

fn put_sums(to: &mut Vec<u8>, table: &ContentTable, now: i64) {
    let build = table.build();
    let mut sums = [0; SUM_COUNT];
    sums.iter_mut().zip(table.clean_sums()).for_each(|(to, sum)| *to = *sum);
    let payload: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    put_block(to, SUMS, build, now, &payload);
}

/// Collects entries into blocks.
struct EntryBlocks<'b> {
    to: &'b mut Vec<u8>,
    payload: Vec<u8>,
    build: u32,
    time: i64,
}

impl EntryBlocks<'_> {
    fn new(to: &mut Vec<u8>, build: u32, time: i64) -> EntryBlocks<'_> {
        EntryBlocks { to, payload: Vec::new(), build, time }
    }

    fn file(&mut self, key: PathKey, entry: &FileEntry) {
        put_file(&mut self.payload, key, entry);
        self.limit();
    }

    fn command(&mut self, key: PathKey, record: &CommandRecord) {
        put_command(&mut self.payload, key, record);
        self.limit();
    }

    fn void(&mut self, key: PathKey) {
        self.payload.extend_from_slice(&void_entry(key));
        self.limit();
    }

    fn limit(&mut self) {
        if self.payload.len() >= MAX_PAYLOAD {
            self.write();
        }
    }

    fn write(&mut self) {
        put_block(self.to, ENTRIES, self.build, self.time, &self.payload);
        self.payload.clear();
    }

    fn finish(mut self) {
        if !self.payload.is_empty() {
            self.write();
        }
    }
}

/// Bytes that are not yet read.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests;
