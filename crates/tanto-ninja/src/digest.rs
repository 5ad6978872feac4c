//! Sums of a file's text, block by block. Does not know what the text means.
//!
//! They tell whether text is still what it was. They find accidents, not forgeries.

use tanto_sys::bytes::checksum;

use crate::log::hash::rapid;

/// Bytes with a sum of their own. Smaller, the sums of large files are many; larger, whoever reads one command reads
/// and sums more that is not part of it.
pub(crate) const BLOCK: usize = 4 << 10;

/// The sum of a block.
pub(crate) fn of_block(block: &[u8]) -> u64 {
    checksum::of(block).sum
}

/// The sums of all blocks.
pub(crate) fn of_blocks(text: &[u8]) -> impl Iterator<Item = u64> {
    text.chunks(BLOCK).map(of_block)
}

/// The sum of a whole text.
pub(crate) fn of(text: &[u8]) -> u64 {
    of_sums(&of_blocks(text).collect::<Vec<u64>>())
}

/// The same, from the sums of its blocks.
pub(crate) fn of_sums(sums: &[u64]) -> u64 {
    rapid(bytemuck::cast_slice(sums))
}
