//! Hashes of ninja's logs, and the pseudo-random numbers that decide the shape of a tree.
//!
//! The log hashes are a second implementation on purpose: a fault in Tanto's own shows as a tree that is not up to date.

/// MurmurHash64A as in logs of version 5.
pub fn murmur64a(key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4a7935bd1e995;
    const SHIFT: u32 = 47;
    let mut hash = 0xDECAFBADDECAFBAD_u64 ^ (key.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u64::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

const SECRETS: [u64; 3] = [0x2d358dccaa6c78a5, 0x8bb84b93962eacc9, 0x4b33a62ed433d4a3];

/// rapidhash as in logs of version 7.
pub fn rapidhash(key: &[u8]) -> u64 {
    let length = key.len();
    let mut seed: u64 = 0xbdd89aa982704029;
    seed ^= fold(seed ^ SECRETS[0], SECRETS[1]) ^ length as u64;
    let (a, b) = if length <= 16 {
        short_ends(key)
    } else {
        seed = fold_middle(key, seed);
        (word64(key, length - 16), word64(key, length - 8))
    };
    let product = u128::from(a ^ SECRETS[1]) * u128::from(b ^ seed);
    fold(product as u64 ^ SECRETS[0] ^ length as u64, (product >> 64) as u64 ^ SECRETS[1])
}

/// The two words of a key of at most 16 bytes.
fn short_ends(key: &[u8]) -> (u64, u64) {
    let length = key.len();
    if length >= 4 {
        let delta = (length & 24) >> (length >> 3);
        let a = word32(key, 0) << 32 | word32(key, length - 4);
        (a, word32(key, delta) << 32 | word32(key, length - 4 - delta))
    } else if length > 0 {
        (u64::from(key[0]) << 56 | u64::from(key[length >> 1]) << 32 | u64::from(key[length - 1]), 0)
    } else {
        (0, 0)
    }
}

/// Mixes all but the last 16 bytes of a longer key into the seed.
fn fold_middle(key: &[u8], mut seed: u64) -> u64 {
    let (mut at, mut left) = (0, key.len());
    if left > 48 {
        let (mut second, mut third) = (seed, seed);
        loop {
            seed = fold(word64(key, at) ^ SECRETS[0], word64(key, at + 8) ^ seed);
            second = fold(word64(key, at + 16) ^ SECRETS[1], word64(key, at + 24) ^ second);
            third = fold(word64(key, at + 32) ^ SECRETS[2], word64(key, at + 40) ^ third);
            at += 48;
            left -= 48;
            if left < 48 {
                break;
            }
        }
        seed ^= second ^ third;
    }
    if left > 16 {
        seed = fold(word64(key, at) ^ SECRETS[2], word64(key, at + 8) ^ seed ^ SECRETS[1]);
    }
    if left > 32 {
        seed = fold(word64(key, at + 16) ^ SECRETS[2], word64(key, at + 24) ^ seed);
    }
    seed
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn word64(key: &[u8], at: usize) -> u64 {
    key[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn word32(key: &[u8], at: usize) -> u64 {
    key[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A number that looks random, the same for the same three. `fakecc.c` has the same function.
pub fn random(seed: u64, a: u64, b: u64) -> u64 {
    splitmix(splitmix(seed ^ a.wrapping_mul(0x1000003)) ^ b)
}

fn splitmix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d049bb133111eb);
    mixed ^ (mixed >> 31)
}
