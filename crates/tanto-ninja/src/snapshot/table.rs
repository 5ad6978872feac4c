//! What a snapshot says of itself: what it is a picture of, and what lies where in it. Does not know what is done with
//! it.

use std::io;
use std::ops::Range;

use tanto_sys::fs::file_stamp::FileStamp;

use super::encoding::{Decoder, Encoder};
use crate::disk::SourceState;
use crate::flat::Slab;
use crate::graph::env::Env;
use crate::graph::lazy_text::Manifests;
use crate::graph::manifest_data::Notice;
use crate::hash;
use crate::hash::rapidhash;
use crate::load::LoadOptions;

/// Rows of the graph besides those of its scopes.
pub(super) const ROWS: usize = 18;

/// Sections begin at multiples of this: a line of the processor's cache.
pub(super) const ALIGNMENT: usize = 64;

/// What there is in a file, section by section.
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
    /// Of the manifests' blocks.
    Sums,
    /// The first row of the scopes.
    Env,
}

pub(super) const SECTIONS: usize = ROWS + Env::ROWS;

/// Where each section is, in bytes.
pub(super) type Ranges = [Range<usize>; SECTIONS];

/// A manifest.
pub(super) struct ManifestRecord {
    pub(super) path: Vec<u8>,
    pub(super) state: SourceState,
}

/// The numbers among the logs' parts; None for a log that there was not.
#[derive(Clone, Copy, Default)]
pub(super) struct LogHeaders {
    pub(super) build: Option<[u64; 8]>,
    pub(super) deps: Option<[u64; 7]>,
}

/// All of it. It lies behind the sections.
pub(super) struct Table {
    pub(super) key: Key,
    pub(super) manifests: Vec<ManifestRecord>,
    pub(super) notices: Vec<Notice>,
    pub(super) sets_reserved: bool,
    /// How commands were hashed.
    pub(super) hash_kind: u32,
    pub(super) facts: LogHeaders,
    pub(super) ranges: Ranges,
    /// Those of the blocks of all sections.
    pub(super) checksums: Vec<u64>,
}

/// The end of the file: where the table begins, the sum of it, and what the file is.
const FOOT: usize = 3 * size_of::<u64>();

/// As a machine reads it that has another order of bytes, it is something else.
const MAGIC: u64 = u64::from_be_bytes(*b"tanto\0\x01s");

impl Table {
    /// The table as it lies behind sections that have so many bytes, and the end of the file.
    pub(super) fn encode(&self, start: usize) -> Vec<u8> {
        let mut out = Encoder::default();
        out.text(&self.key.0);
        out.number(self.manifests.len() as u64);
        self.manifests.iter().for_each(|record| record.encode(&mut out));
        out.number(self.notices.len() as u64);
        self.notices.iter().for_each(|notice| encode_notice(notice, &mut out));
        out.number(self.sets_reserved.into());
        out.number(self.hash_kind.into());
        out.numbers(self.facts.build.as_ref().map_or(&[], |facts| facts));
        out.numbers(self.facts.deps.as_ref().map_or(&[], |facts| facts));
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

    /// The table of a whole file, and where it begins.
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
            facts: LogHeaders { build: table.numbers()?.try_into().ok(), deps: table.numbers()?.try_into().ok() },
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

/// Equal for equal circumstances. The order of the machine's bytes is told by all numbers in a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) Vec<u8>);

impl Key {
    /// That of a load of `manifest`, named as it is by whoever stands in `dir`.
    pub(super) fn new(dir: &[u8], manifest: &[u8], options: LoadOptions) -> io::Result<Key> {
        let here = FileStamp::at(dir)?;
        let mut key = Encoder::default();
        key.text(env!("CARGO_PKG_VERSION").as_bytes());
        // The rows in a snapshot are as the sources lay them out, and mean what those make of them.
        key.text(env!("TANTO_SOURCES").as_bytes());
        key.number(usize::BITS.into());
        // Another processor checksums text in another way.
        key.number(hash::block_checksum(&[1; 200]));
        key.number(here.device);
        key.number(here.inode);
        key.text(manifest);
        key.number(flags(options));
        Ok(Key(key.0))
    }
}

/// The name of the file for such a load: others have others, as far as 64 bits tell.
pub(super) fn file_name(manifest: &[u8], options: LoadOptions) -> String {
    let flags = flags(options).to_le_bytes();
    format!("{:016x}", rapidhash(&[&flags, manifest].concat()))
}

/// What changes the graph. The number of threads does not.
fn flags(options: LoadOptions) -> u64 {
    options.phony_cycle_is_error.into()
}

/// How many blocks a manifest has.
pub(super) fn block_count(record: &ManifestRecord) -> usize {
    (record.state.stamp.size as usize).div_ceil(hash::TEXT_BLOCK)
}

/// The checksums of all blocks of all manifests, one behind the other.
pub(super) fn all_checksums(manifests: &Manifests) -> Vec<u64> {
    let all: Vec<&[u64]> = manifests.list.iter().map(|manifest| manifest.checksums.all()).collect();
    all.concat()
}

/// The checksums of each manifest, out of those of all.
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
