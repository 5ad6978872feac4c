//! Classifies 64 bytes at a time.

/// Bytes that are classified together.
pub const BLOCK_SIZE: usize = 64;

/// Three classes of bytes. A byte belongs to a class if the tables for its lower and its upper half have a common bit.
///
/// Bits 0 to 5 are the first class, so it can have six groups of upper halves. Bit 6 is the second class, bit 7 the
/// third.
#[derive(Clone, Copy, Debug)]
pub struct ByteClasses {
    lower: [u8; 16],
    upper: [u8; 16],
}

const FIRST: u8 = 0b0011_1111;

/// The members of each class in a block: a bit per byte, the lowest for the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassMasks {
    /// Members of the first class.
    pub first: u64,
    /// Members of the second class.
    pub second: u64,
    /// Members of the third class.
    pub third: u64,
}

impl ByteClasses {
    /// Builds classes from their members. The first class may have up to six different upper halves, the others one
    /// each.
    ///
    /// # Panics
    ///
    /// If a class has more.
    pub const fn new(first: &[u8], second: &[u8], third: &[u8]) -> Self {
        let mut classes = ByteClasses { lower: [0; 16], upper: [0; 16] };
        let mut at = 0;
        let mut groups = 0;
        while at < first.len() {
            let upper = (first[at] >> 4) as usize;
            if classes.upper[upper] & FIRST == 0 {
                assert!(groups < 6, "too many groups");
                classes.upper[upper] |= 1 << groups;
                groups += 1;
            }
            classes.lower[(first[at] & 15) as usize] |= classes.upper[upper] & FIRST;
            at += 1;
        }
        classes.with(second, 6).with(third, 7)
    }

    const fn with(mut self, members: &[u8], bit: u8) -> Self {
        let mut at = 0;
        while at < members.len() {
            assert!(members[at] >> 4 == members[0] >> 4, "too many groups");
            self.upper[(members[at] >> 4) as usize] |= 1 << bit;
            self.lower[(members[at] & 15) as usize] |= 1 << bit;
            at += 1;
        }
        self
    }

    const fn of(&self, byte: u8) -> u8 {
        self.lower[(byte & 15) as usize] & self.upper[(byte >> 4) as usize]
    }

    /// Calls `each` with the marks of block after block, from byte `at` on, until `each` returns false or the text
    /// ends. The space behind the end counts as members of the first class.
    #[inline]
    pub fn scan(&self, text: &[u8], at: usize, each: impl FnMut(ClassMasks) -> bool) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::scan(self, text, at, each) };
        }
        self.scan_one_by_one(text, at, each);
    }

    fn scan_one_by_one(&self, text: &[u8], at: usize, mut each: impl FnMut(ClassMasks) -> bool) {
        for rest in text.get(at..).unwrap_or_default().chunks(BLOCK_SIZE).chain([&[][..]]) {
            let bits = |of: u8| {
                let mark = |bits, (at, byte): (usize, &u8)| bits | u64::from(self.of(*byte) & of != 0) << at;
                rest.iter().enumerate().fold(0, mark)
            };
            let marks = ClassMasks { first: bits(FIRST), second: bits(1 << 6), third: bits(1 << 7) };
            if !each(ClassMasks { first: marks.first | behind(rest.len()), ..marks }) {
                return;
            }
        }
    }
}

/// The bits from `length` on.
fn behind(length: usize) -> u64 {
    if length < BLOCK_SIZE { u64::MAX << length } else { 0 }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8,
        _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    };

    use super::{BLOCK_SIZE, ByteClasses, ClassMasks, FIRST, behind};

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn scan(classes: &ByteClasses, text: &[u8], at: usize, mut each: impl FnMut(ClassMasks) -> bool) {
        let table = |bytes: [u8; 16]| _mm256_broadcastsi128_si256(bytemuck::cast::<_, __m128i>(bytes));
        let tables = [table(classes.lower), table(classes.upper)];
        let (blocks, rest) = text.get(at..).unwrap_or_default().as_chunks::<BLOCK_SIZE>();
        for block in blocks {
            if !each(marks(tables, bytemuck::cast(*block))) {
                return;
            }
        }
        let mut last = [0; BLOCK_SIZE];
        last[..rest.len()].copy_from_slice(rest);
        let marks = marks(tables, bytemuck::cast(last));
        each(ClassMasks { first: marks.first | behind(rest.len()), ..marks });
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn marks([lower, upper]: [__m256i; 2], [one, other]: [__m256i; 2]) -> ClassMasks {
        let (one, other) = (half(lower, upper, one), half(lower, upper, other));
        let join = |one: u32, other: u32| u64::from(one) | u64::from(other) << 32;
        ClassMasks { first: join(one[0], other[0]), second: join(one[1], other[1]), third: join(one[2], other[2]) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half(lower: __m256i, upper: __m256i, bytes: __m256i) -> [u32; 3] {
        let nibble = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(lower, _mm256_and_si256(bytes, nibble));
        let high = _mm256_shuffle_epi8(upper, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
        let class = _mm256_and_si256(low, high);
        let first = _mm256_and_si256(class, _mm256_set1_epi8(FIRST.cast_signed()));
        let first = _mm256_cmpgt_epi8(first, _mm256_setzero_si256());
        let bits = |marks| _mm256_movemask_epi8(marks).cast_unsigned();
        [bits(first), bits(_mm256_add_epi8(class, class)), bits(class)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: ByteClasses = ByteClasses::new(b"\0\n\r $:|", b".", b"/");

    fn block(seed: u64) -> [u8; BLOCK_SIZE] {
        let mut random = seed;
        let members = b"\0\n\r $:|./abcdefz<{*,\xff\x80\xaf";
        std::array::from_fn(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            members[(random >> 33) as usize % members.len()]
        })
    }

    #[test]
    fn marks_match_the_members() {
        for seed in 0..2000 {
            let block = block(seed);
            let bits =
                |is: &dyn Fn(u8) -> bool| (0..BLOCK_SIZE).fold(0, |bits, at| bits | u64::from(is(block[at])) << at);
            let wanted = ClassMasks {
                first: bits(&|byte| b"\0\n\r $:|".contains(&byte)),
                second: bits(&|byte| byte == b'.'),
                third: bits(&|byte| byte == b'/'),
            };
            let mut seen = [Vec::new(), Vec::new()];
            CLASSES.scan(&block, 0, |marks| {
                seen[0].push(marks);
                true
            });
            CLASSES.scan_one_by_one(&block, 0, |marks| {
                seen[1].push(marks);
                true
            });
            assert_eq!(seen[0][0], wanted, "{block:?}");
            assert_eq!(seen[1][0], wanted, "{block:?}");
            assert!(seen.iter().all(|seen| seen.len() == 2 && seen[1].first == u64::MAX));
        }
    }
}
