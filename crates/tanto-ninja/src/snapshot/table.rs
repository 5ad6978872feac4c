//! The table of contents of a snapshot, its key, and checksums of manifests.

use std::io;
use std::ops::Range;

use tanto_sys::fs::file_stamp::FileStamp;

use super::encoding::{Decoder, Encoder};
use crate::disk::SourceState;
use crate::flat::Slab;
use crate::graph::env::Env;
use crate::graph::lazy_text::Manifests;
use crate::graph::manifest_data::Notice;
use crate::hash::{self, rapidhash};
use crate::load::LoadOptions;

/// Sections before those of `Env`.
pub(super) const ROWS: usize = 18;

/// Alignment of sections: a cache line.
pub(super) const ALIGNMENT: usize = 64;

#[derive(Clone, Copy)]
pub(super) enum Section {
    Text,
    Spans,
    Index,
    InEdges,
    Edges,
    Texts,
    Ids,
    DyndepEdges,
    DyndepFiles,
    Defaults,
    CommandHashes,
    LogLast,
    LogSide,
    LogMade,
    DepsNodes,
    DepsIds,
    DepsRecords,
    /// Checksums of the manifests' blocks.
    Sums,
    /// The first section of `Env`.
    Env,
}

pub(super) const SECTIONS: usize = ROWS + Env::ROWS;

/// Byte ranges of the sections.
pub(super) type Ranges = [Range<usize>; SECTIONS];

pub(super) struct ManifestRecord {
    pub(super) path: Vec<u8>,
    pub(super) state: SourceState,
}

/// Header words of the logs' sections; `None` without a log.
#[derive(Clone, Copy, Default)]
pub(super) struct LogHeaders {
    pub(super) build: Option<[u64; 8]>,
    pub(super) deps: Option<[u64; 7]>,
}

/// The table, which follows the sections.
pub(super) struct Table {
    pub(super) key: Key,
    pub(super) manifests: Vec<ManifestRecord>,
    pub(super) notices: Vec<Notice>,
    pub(super) sets_reserved: bool,
    /// Hash function of the commands.
    pub(super) hash_kind: u32,
    pub(super) headers: LogHeaders,
    pub(super) ranges: Ranges,
    /// Checksums of the blocks of all sections.
    pub(super) checksums: Vec<u64>,
}

/// Length of the foot: start of the table, checksum, magic number.
const FOOT: usize = 3 * size_of::<u64>();

/// Its value depends on the byte order, so that files of other machines are rejected.
const MAGIC: u64 = u64::from_be_bytes(*b"tanto\0\x01s");

impl Table {
    /// Encodes the table and the foot, which follow sections of `start` bytes.
    pub(super) fn encode(&self, start: usize) -> Vec<u8> {
        let mut out = Encoder::default();
        out.text(&self.key.0);
        out.number(self.manifests.len() as u64);
        self.manifests.iter().for_each(|record| record.encode(&mut out));
        out.number(self.notices.len() as u64);
        self.notices.iter().for_each(|notice| encode_notice(notice, &mut out));
        out.number(self.sets_reserved.into());
        out.number(self.hash_kind.into());
        out.numbers(self.headers.build.as_ref().map_or(&[], |headers| headers));
        out.numbers(self.headers.deps.as_ref().map_or(&[], |headers| headers));
        for range in &self.ranges {
            out.number(range.start as u64);
            out.number(range.len() as u64);
        }
        out.numbers(&self.checksums);
        out.number(start as u64);
        out.number(rapidhash(&out.0));
        out.number(MAGIC);
        out.0
    }

    /// Decodes the table of a file and returns its start.
    pub(super) fn decode(file: &[u8]) -> Option<(Table, usize)> {
        let (head, foot) = file.split_at_checked(file.len().checked_sub(FOOT)?)?;
        let mut foot = Decoder(foot);
        let start = usize::try_from(foot.number()?).ok()?;
        let table = file.get(start..head.len() + size_of::<u64>())?;
        if foot.number()? != rapidhash(table) || foot.number()? != MAGIC || head.len() < start {
            return None;
        }
        let mut table = Decoder(&file[start..head.len()]);
        let decoded = Table {
            key: Key(table.text()?.into()),
            manifests: table.list(ManifestRecord::decode)?,
            notices: table.list(decode_notice)?,
            sets_reserved: table.number()? != 0,
            hash_kind: u32::try_from(table.number()?).ok()?,
            headers: LogHeaders { build: table.numbers()?.try_into().ok(), deps: table.numbers()?.try_into().ok() },
            ranges: ranges(&mut table)?,
            checksums: table.numbers()?,
        };
        table.0.is_empty().then_some((decoded, start))
    }
}

fn ranges(from: &mut Decoder<'_>) -> Option<Ranges> {
    let mut ranges = [const { 0..0 }; SECTIONS];
    for range in &mut ranges {
        let start = usize::try_from(from.number()?).ok()?;
        let length = usize::try_from(from.number()?).ok()?;
        *range = start..start.checked_add(length)?;
    }
    Some(ranges)
}

impl ManifestRecord {
    fn encode(&self, out: &mut Encoder) {
        let SourceState { stamp, text_hash } = self.state;
        out.text(&self.path);
        [stamp.device, stamp.inode, stamp.size].into_iter().for_each(|number| out.number(number));
        [stamp.mtime_ns, stamp.ctime_ns].into_iter().for_each(|time| out.number(time as u64));
        out.number(text_hash.is_some().into());
        out.number(text_hash.unwrap_or(0));
    }

    fn decode(from: &mut Decoder<'_>) -> Option<ManifestRecord> {
        let path = from.text()?.into();
        let stamp = FileStamp {
            device: from.number()?,
            inode: from.number()?,
            size: from.number()?,
            mtime_ns: from.number()? as i64,
            ctime_ns: from.number()? as i64,
            is_regular: true,
        };
        let is_racy = from.number()? != 0;
        let text_hash = Some(from.number()?).filter(|_| is_racy);
        Some(ManifestRecord { path, state: SourceState { stamp, text_hash } })
    }
}

fn encode_notice(notice: &Notice, out: &mut Encoder) {
    let (kind, text) = match notice {
        Notice::Warning(text) => (0, text),
        Notice::Requires(stamp) => (1, stamp),
    };
    out.number(kind);
    out.text(text);
}

fn decode_notice(from: &mut Decoder<'_>) -> Option<Notice> {
    match (from.number()?, from.text()?.into()) {
        (0, text) => Some(Notice::Warning(text)),
        (1, stamp) => Some(Notice::Requires(stamp)),
        _ => None,
    }
}

/// Conditions besides the manifests that must be equal for a snapshot to be valid. Byte order is part of all numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) Vec<u8>);

impl Key {
    /// The key for loading `manifest`, relative to `dir`.
    pub(super) fn new(dir: &[u8], manifest: &[u8], options: LoadOptions) -> io::Result<Key> {
        let here = FileStamp::at(dir)?;
        let mut key = Encoder::default();
        key.text(env!("CARGO_PKG_VERSION").as_bytes());
        // The layout and the meaning of the sections depend on the sources.
        key.text(env!("TANTO_SOURCES").as_bytes());
        key.number(usize::BITS.into());
        // Checksums may depend on the CPU.
        key.number(hash::block_checksum(&[1; 200]));
        key.number(here.device);
        key.number(here.inode);
        key.text(manifest);
        key.number(flags(options));
        Ok(Key(key.0))
    }
}

/// The file name of a snapshot, a hash of manifest and options.
pub(super) fn file_name(manifest: &[u8], options: LoadOptions) -> String {
    let flags = flags(options).to_le_bytes();
    format!("{:016x}", rapidhash(&[&flags, manifest].concat()))
}

/// Options that change the graph. The number of threads does not.
fn flags(options: LoadOptions) -> u64 {
    options.phony_cycle_is_error.into()
}

/// Number of blocks of a manifest.
pub(super) fn block_count(record: &ManifestRecord) -> usize {
    (record.state.stamp.size as usize).div_ceil(hash::TEXT_BLOCK)
}

/// Concatenates the checksums of all manifests.
pub(super) fn all_checksums(manifests: &Manifests) -> Vec<u64> {
    let all: Vec<&[u64]> = manifests.list.iter().map(|manifest| manifest.checksums.all()).collect();
    all.concat()
}

/// Splits the checksums of all manifests.
pub(super) fn split_checksums<'s>(
    records: &'s [ManifestRecord],
    mut start: usize,
    part: impl Fn(Range<usize>) -> Slab<u64> + 's,
) -> impl Iterator<Item = Slab<u64>> + 's {
    records.iter().map(move |record| {
        let end = start.saturating_add(block_count(record).saturating_mul(size_of::<u64>()));
        part(std::mem::replace(&mut start, end)..end)
    })
}
