//! A fast checksum of a block of bytes.
//!
//! It detects accidental changes, not forgeries.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// The checksum.
    pub sum: u64,
    /// The block contains a NUL byte.
    pub has_nul: bool,
}

/// Words that are mixed in at a time, each into its own lane.
const LANES: usize = 16;

const STRIPE: usize = LANES * size_of::<u64>();

/// Initial values of the lanes: the fractional parts of the square roots of the first primes.
const KEYS: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The keys grow by this from stripe to stripe, so that the order of stripes counts. The fractional part of the golden
/// ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the checksum of a block and whether the block contains a NUL. The value depends on the features of the
/// processor: compare it only on the machine that computed it.
pub fn of(block: &[u8]) -> Checksum {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AES and AVX2.
        return unsafe { aes::of(block) };
    }
    lane_by_lane(block)
}

fn lane_by_lane(block: &[u8]) -> Checksum {
    let mut keys: [u64; LANES] = std::array::from_fn(|lane| KEYS[lane % 8] ^ ((lane / 8) as u64 * STEP));
    let mut lanes = keys;
    let (stripes, rest) = block.as_chunks::<STRIPE>();
    for stripe in stripes.iter().chain([&padded(rest)]) {
        let (words, _) = stripe.as_chunks();
        let words: [u64; LANES] = std::array::from_fn(|lane| u64::from_le_bytes(words[lane]));
        for lane in 0..LANES {
            let mixed = words[lane] ^ keys[lane];
            let product = (mixed & u64::from(u32::MAX)).wrapping_mul(mixed >> 32);
            // A product can lose bits of its factors, so the word itself is added to the neighbouring lane.
            lanes[lane] = lanes[lane].wrapping_add(product).wrapping_add(words[lane ^ 1]);
            keys[lane] = keys[lane].wrapping_add(STEP);
        }
    }
    Checksum { sum: finish(&lanes, block.len()), has_nul: block.contains(&0) }
}

/// Pads the last bytes to a stripe with zeros. The length of the block, which is mixed in, keeps them apart from real
/// zeros.
fn padded(rest: &[u8]) -> [u8; STRIPE] {
    let mut last = [0; STRIPE];
    last[..rest.len()].copy_from_slice(rest);
    last
}

fn finish(lanes: &[u64; LANES], length: usize) -> u64 {
    lanes.iter().fold(length as u64, |sum, lane| {
        let product = u128::from(lane ^ KEYS[0]) * u128::from(sum ^ STEP);
        sum.rotate_left(29) ^ lane ^ product as u64 ^ (product >> 64) as u64
    })
}

/// Each lane holds 16 bytes and mixes in 16 more by one round of AES, so that a changed bit changes everything after
/// it.
#[cfg(target_arch = "x86_64")]
mod aes {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_aesenc_si128, _mm256_cmpeq_epi8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8,
        _mm256_setzero_si256,
    };

    use super::{Checksum, KEYS, STEP, STRIPE, padded};

    type Lanes = [__m128i; STRIPE / size_of::<__m128i>()];
    type Halves = [__m256i; STRIPE / size_of::<__m256i>()];

    #[target_feature(enable = "aes,avx2")]
    pub(super) fn of(block: &[u8]) -> Checksum {
        let mut lanes: Lanes = bytemuck::cast([KEYS, KEYS.map(|key| key ^ STEP)]);
        let mut least = _mm256_set1_epi8(-1);
        let (stripes, rest) = block.as_chunks::<STRIPE>();
        for stripe in stripes {
            add(&mut lanes, stripe);
            let halves: Halves = bytemuck::cast(*stripe);
            least = halves.into_iter().fold(least, |least, half| _mm256_min_epu8(least, half));
        }
        if !rest.is_empty() {
            add(&mut lanes, &padded(rest));
        }
        let nuls = _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256()));
        Checksum { sum: finish(lanes, block.len()), has_nul: nuls != 0 || rest.contains(&0) }
    }

    #[inline]
    #[target_feature(enable = "aes,avx2")]
    fn add(lanes: &mut Lanes, stripe: &[u8; STRIPE]) {
        for (lane, bytes) in lanes.iter_mut().zip(bytemuck::cast::<_, Lanes>(*stripe)) {
            *lane = _mm_aesenc_si128(*lane, bytes);
        }
    }

    #[inline]
    #[target_feature(enable = "aes,avx2")]
    fn finish(lanes: Lanes, length: usize) -> u64 {
        let mix = |all, lane| _mm_aesenc_si128(_mm_aesenc_si128(all, lane), lane);
        let all = lanes.into_iter().fold(bytemuck::cast([length as u64, STEP]), mix);
        // After two rounds, a changed bit has spread over the whole state.
        let all: [u64; 2] = bytemuck::cast(mix(mix(all, all), all));
        all[0] ^ all[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 13) as u8 | 1).collect()
    }

    const WAYS: [fn(&[u8]) -> Checksum; 2] = [of, lane_by_lane];

    #[test]
    fn a_nul_is_found() {
        for (way, length) in
            WAYS.into_iter().flat_map(|way| (0..300).chain([4096, 4097]).map(move |length| (way, length)))
        {
            let mut text = text(length);
            assert!(!way(&text).has_nul);
            for at in 0..length.min(300) {
                let before = std::mem::take(&mut text[at]);
                assert!(way(&text).has_nul, "{at} of {length}");
                text[at] = before;
            }
        }
    }

    #[test]
    fn small_changes_change_the_checksum() {
        WAYS.into_iter().for_each(check_small_changes);
    }

    fn check_small_changes(way: fn(&[u8]) -> Checksum) {
        let mut seen = HashSet::new();
        let mut is_new = |text: &[u8]| assert!(seen.insert(way(text).sum));
        let text = text(1024);
        (0..=text.len()).for_each(|length| is_new(&text[..length]));
        (0..200).for_each(|length| is_new(&vec![0; length + 1]));
        for bit in 0..8 * text.len() {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            is_new(&other);
        }
        // Swapped stripes, words and halves of words.
        for length in [128, 64, 16, 8, 4] {
            for at in (0..text.len() - length).step_by(length) {
                let mut other = text.clone();
                other[at..at + 2 * length].rotate_left(length);
                is_new(&other);
            }
        }
    }
}
