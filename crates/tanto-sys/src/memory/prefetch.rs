//! Prefetches memory into the cache.

use std::arch::asm;

/// Prefetches the cache line at `place` for reading.
#[inline(always)]
pub fn for_read<T>(place: &T) {
    let place: *const T = place;
    // SAFETY: a hint about an address, which need not be valid.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("prefetcht0 [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
}

/// Prefetches the cache line at `place` for writing.
#[inline(always)]
pub fn for_write<T>(place: &T) {
    let place: *const T = place;
    // SAFETY: a hint about an address, which need not be valid; processors without it treat it as a no-op.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hint_changes_nothing() {
        let place = [7_u8; 100];
        super::for_read(&place[99]);
        super::for_write(&place);
        assert_eq!(place, [7; 100]);
    }
}
