//! Hash functions: those of commands in ninja's log (MurmurHash64A in versions 5 and 6, rapidhash from 7 on),
//! checksums of text, and hash maps.

use hashbrown::{HashMap, HashSet};
use tanto_sys::bytes::checksum;

pub type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

pub type Set<T> = HashSet<T, foldhash::fast::FixedState>;

/// Ninja's seed.
const MURMUR_SEED: u64 = 0xDECA_FBAD_DECA_FBAD;
const MURMUR_M: u64 = 0xc6a4_a793_5bd1_e995;

const RAPID_SEED: u64 = 0xbdd8_9aa9_8270_4029;
const RAPID_SECRET: [u64; 3] = [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3];

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")).into()
}

/// MurmurHash64A with ninja's seed.
pub(crate) fn murmur64a(bytes: &[u8]) -> u64 {
    let scramble = |h: u64| h ^ (h >> 47);
    let mut h = MURMUR_SEED ^ (bytes.len() as u64).wrapping_mul(MURMUR_M);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let k = scramble(u64_at(word, 0).wrapping_mul(MURMUR_M)).wrapping_mul(MURMUR_M);
        h = (h ^ k).wrapping_mul(MURMUR_M);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        h = (h ^ last).wrapping_mul(MURMUR_M);
    }
    scramble(scramble(h).wrapping_mul(MURMUR_M))
}

/// Returns the low and high half of the product.
fn multiply(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

fn mix(a: u64, b: u64) -> u64 {
    let (low, high) = multiply(a, b);
    low ^ high
}

/// Rapidhash, version 1, with the default seed and secret.
pub fn rapidhash(bytes: &[u8]) -> u64 {
    let [s0, s1, _] = RAPID_SECRET;
    let length = bytes.len() as u64;
    let seed = RAPID_SEED ^ mix(RAPID_SEED ^ s0, s1) ^ length;
    let (a, b, seed) = if bytes.len() <= 16 {
        let (a, b) = rapid_short(bytes);
        (a, b, seed)
    } else {
        rapid_long(bytes, seed)
    };
    let (a, b) = multiply(a ^ s1, b ^ seed);
    mix(a ^ s0 ^ length, b ^ s1)
}

/// Returns two words of an input of at most 16 bytes.
fn rapid_short(bytes: &[u8]) -> (u64, u64) {
    let n = bytes.len();
    match n {
        0 => (0, 0),
        1..=3 => (u64::from(bytes[0]) << 56 | u64::from(bytes[n / 2]) << 32 | u64::from(bytes[n - 1]), 0),
        _ => {
            let step = (n & 24) >> (n >> 3);
            let pair = |first, last| u32_at(bytes, first) << 32 | u32_at(bytes, last);
            (pair(0, n - 4), pair(step, n - 4 - step))
        }
    }
}

/// Returns the last two words, and the seed with all previous input folded in.
fn rapid_long(bytes: &[u8], mut seed: u64) -> (u64, u64, u64) {
    let [s0, s1, s2] = RAPID_SECRET;
    let fold =
        |rest: &[u8], at: usize, secret: u64, seed: u64| mix(u64_at(rest, at) ^ secret, u64_at(rest, at + 8) ^ seed);
    let mut rest = bytes;
    if rest.len() > 48 {
        let (mut one, mut two) = (seed, seed);
        while rest.len() >= 48 {
            seed = fold(rest, 0, s0, seed);
            one = fold(rest, 16, s1, one);
            two = fold(rest, 32, s2, two);
            rest = &rest[48..];
        }
        seed ^= one ^ two;
    }
    if rest.len() > 16 {
        seed = fold(rest, 0, s2, seed ^ s1);
        if rest.len() > 32 {
            seed = fold(rest, 16, s2, seed);
        }
    }
    // The last 16 bytes may overlap bytes that were folded already.
    (u64_at(bytes, bytes.len() - 16), u64_at(bytes, bytes.len() - 8), seed)
}

/// Bytes per checksum. Smaller: large manifests need many checksums. Larger: to read one command, more bytes have to
/// be read and hashed.
pub(crate) const TEXT_BLOCK: usize = 4 << 10;

pub(crate) fn block_checksum(block: &[u8]) -> u64 {
    checksum::of(block).sum
}

/// Returns the checksums of all blocks.
pub(crate) fn block_checksums(text: &[u8]) -> impl Iterator<Item = u64> {
    text.chunks(TEXT_BLOCK).map(block_checksum)
}

/// Returns the hash of a whole text.
pub(crate) fn text_hash(text: &[u8]) -> u64 {
    rapidhash(bytemuck::cast_slice(&block_checksums(text).collect::<Vec<u64>>()))
}
