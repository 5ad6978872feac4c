//! The sums of the manifests' blocks, by which late text is known to be what was loaded. Does not know what the text
//! means, nor how it is read later.

use super::table::Record;
use crate::flat::Slab;
use crate::graph::late::Manifests;
use crate::hash;

/// How many blocks a manifest has.
pub(super) fn blocks(record: &Record) -> usize {
    (record.state.version.size as usize).div_ceil(hash::TEXT_BLOCK)
}

/// The sums of all blocks of all manifests, one behind the other.
pub(super) fn sums(manifests: &Manifests) -> Vec<u64> {
    let all: Vec<&[u64]> = manifests.list.iter().map(|manifest| manifest.sums.all()).collect();
    all.concat()
}

/// The sums of each manifest, out of those of all.
pub(super) fn shared_out<'s>(
    records: &'s [Record],
    mut start: usize,
    part: impl Fn(std::ops::Range<usize>) -> Slab<u64> + 's,
) -> impl Iterator<Item = Slab<u64>> + 's {
    records.iter().map(move |record| {
        let end = start.saturating_add(blocks(record).saturating_mul(size_of::<u64>()));
        part(std::mem::replace(&mut start, end)..end)
    })
}
