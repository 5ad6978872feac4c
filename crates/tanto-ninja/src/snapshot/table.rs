//! What a snapshot says of itself: what it is a picture of, and what lies where in it. Does not know what is done with
//! it.

use std::ops::Range;

use tanto_sys::fs::file_stamp::FileStamp;

use super::code::{Reader, Writer};
use super::key::Key;
use crate::disk::State;
use crate::graph::manifest_data::Notice;
use crate::graph::env::Env;
use crate::hash::rapidhash;

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
    Hashes,
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
pub(super) struct Record {
    pub(super) path: Vec<u8>,
    pub(super) state: State,
}

/// The numbers among the logs' parts; None for a log that there was not.
#[derive(Clone, Copy, Default)]
pub(super) struct LogFacts {
    pub(super) build: Option<[u64; 8]>,
    pub(super) deps: Option<[u64; 7]>,
}

/// All of it. It lies behind the sections.
pub(super) struct Table {
    pub(super) key: Key,
    pub(super) manifests: Vec<Record>,
    pub(super) notices: Vec<Notice>,
    pub(super) sets_reserved: bool,
    /// How commands were hashed.
    pub(super) hash_kind: u32,
    pub(super) facts: LogFacts,
    pub(super) ranges: Ranges,
    /// Those of the blocks of all sections.
    pub(super) sums: Vec<u64>,
}

/// The end of the file: where the table begins, the sum of it, and what the file is.
const FOOT: usize = 3 * size_of::<u64>();

/// As a machine reads it that has another order of bytes, it is something else.
const MAGIC: u64 = u64::from_be_bytes(*b"tanto\0\x01s");

impl Table {
    /// The table as it lies behind sections that have so many bytes, and the end of the file.
    pub(super) fn encode(&self, start: usize) -> Vec<u8> {
        let mut out = Writer::default();
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
        out.numbers(&self.sums);
        out.number(start as u64);
        out.number(rapidhash(&out.0));
        out.number(MAGIC);
        out.0
    }

    /// The table of a whole file, and where it begins.
    pub(super) fn decode(file: &[u8]) -> Option<(Table, usize)> {
        let (head, foot) = file.split_at_checked(file.len().checked_sub(FOOT)?)?;
        let mut foot = Reader(foot);
        let start = usize::try_from(foot.number()?).ok()?;
        let table = file.get(start..head.len() + size_of::<u64>())?;
        if foot.number()? != rapidhash(table) || foot.number()? != MAGIC || head.len() < start {
            return None;
        }
        let mut table = Reader(&file[start..head.len()]);
        let decoded = Table {
            key: Key(table.text()?.into()),
            manifests: table.list(Record::decode)?,
            notices: table.list(decode_notice)?,
            sets_reserved: table.number()? != 0,
            hash_kind: u32::try_from(table.number()?).ok()?,
            facts: LogFacts { build: table.numbers()?.try_into().ok(), deps: table.numbers()?.try_into().ok() },
            ranges: ranges(&mut table)?,
            sums: table.numbers()?,
        };
        table.0.is_empty().then_some((decoded, start))
    }
}

fn ranges(from: &mut Reader<'_>) -> Option<Ranges> {
    let mut ranges = [const { 0..0 }; SECTIONS];
    for range in &mut ranges {
        let start = usize::try_from(from.number()?).ok()?;
        let length = usize::try_from(from.number()?).ok()?;
        *range = start..start.checked_add(length)?;
    }
    Some(ranges)
}

impl Record {
    fn encode(&self, out: &mut Writer) {
        let State { version, digest } = self.state;
        out.text(&self.path);
        [version.device, version.inode, version.size].into_iter().for_each(|number| out.number(number));
        [version.mtime_ns, version.ctime_ns].into_iter().for_each(|time| out.number(time as u64));
        out.number(digest.is_some().into());
        out.number(digest.unwrap_or(0));
    }

    fn decode(from: &mut Reader<'_>) -> Option<Record> {
        let path = from.text()?.into();
        let version = FileStamp {
            device: from.number()?,
            inode: from.number()?,
            size: from.number()?,
            mtime_ns: from.number()? as i64,
            ctime_ns: from.number()? as i64,
            is_regular: true,
        };
        let is_racy = from.number()? != 0;
        let digest = Some(from.number()?).filter(|_| is_racy);
        Some(Record { path, state: State { version, digest } })
    }
}

fn encode_notice(notice: &Notice, out: &mut Writer) {
    let (kind, text) = match notice {
        Notice::Warning(text) => (0, text),
        Notice::Requires(version) => (1, version),
    };
    out.number(kind);
    out.text(text);
}

fn decode_notice(from: &mut Reader<'_>) -> Option<Notice> {
    match (from.number()?, from.text()?.into()) {
        (0, text) => Some(Notice::Warning(text)),
        (1, version) => Some(Notice::Requires(version)),
        _ => None,
    }
}
