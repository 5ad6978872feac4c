//! Sixteen bytes at once: which of them are what. Does not know what the bytes mean.

use std::ops::BitOr;

/// How many bytes are looked at together.
pub const COUNT: usize = 16;

/// Some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(imp::Vector);

/// Which of some bytes are something.
#[derive(Clone, Copy, Debug)]
pub struct Marks(imp::Vector);

impl Bytes {
    /// These.
    #[inline]
    pub fn new(bytes: [u8; COUNT]) -> Self {
        Bytes(imp::new(bytes))
    }

    /// Those that equal `byte`.
    #[inline]
    pub fn equal_to(self, byte: u8) -> Marks {
        Marks(imp::equal(self.0, byte))
    }

    /// Each byte with these bits of it alone.
    #[inline]
    pub fn masked(self, bits: u8) -> Self {
        Bytes(imp::masked(self.0, bits))
    }
}

impl BitOr for Marks {
    type Output = Marks;

    #[inline]
    fn bitor(self, other: Marks) -> Marks {
        Marks(imp::either(self.0, other.0))
    }
}

impl Marks {
    /// A bit for each byte, the lowest for the first.
    #[inline]
    pub fn bits(self) -> u32 {
        imp::bits(self.0)
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::x86_64::{__m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};

    pub(super) type Vector = __m128i;

    #[inline]
    pub(super) fn new(bytes: [u8; super::COUNT]) -> Vector {
        bytemuck::cast(bytes)
    }

    #[inline]
    pub(super) fn equal(bytes: Vector, byte: u8) -> Vector {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed())) }
    }

    #[inline]
    pub(super) fn masked(bytes: Vector, bits: u8) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_and_si128(bytes, _mm_set1_epi8(bits.cast_signed())) }
    }

    #[inline]
    pub(super) fn either(one: Vector, other: Vector) -> Vector {
        // SAFETY: as above.
        unsafe { _mm_or_si128(one, other) }
    }

    #[inline]
    pub(super) fn bits(marks: Vector) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(marks) }.cast_unsigned()
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    pub(super) type Vector = [u8; super::COUNT];

    pub(super) fn new(bytes: Vector) -> Vector {
        bytes
    }

    pub(super) fn equal(bytes: Vector, byte: u8) -> Vector {
        bytes.map(|it| if it == byte { 1 } else { 0 })
    }

    pub(super) fn masked(bytes: Vector, bits: u8) -> Vector {
        bytes.map(|it| it & bits)
    }

    pub(super) fn either(one: Vector, other: Vector) -> Vector {
        std::array::from_fn(|at| one[at] | other[at])
    }

    pub(super) fn bits(marks: Vector) -> u32 {
        marks.iter().enumerate().fold(0, |bits, (at, mark)| bits | u32::from(*mark) << at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_where_the_bytes_are() {
        let bytes = Bytes::new(*b"a/b/\xff/......../x");
        assert_eq!(bytes.equal_to(b'/').bits(), 1 << 1 | 1 << 3 | 1 << 5 | 1 << 14);
        assert_eq!((bytes.equal_to(b'a') | bytes.equal_to(0xff)).bits(), 1 | 1 << 4);
        assert_eq!(bytes.masked(!1).equal_to(b'.').bits(), 0b0111_1111_1110_1010);
    }
}
