//! Memory that is needed soon. Does not know what for.
//!
//! A load that misses holds up what comes after it sooner or later; these do not. They change nothing but the time.

use std::arch::asm;

/// Asks for the line of memory in which this begins, to be read soon.
#[inline(always)]
pub fn for_read<T>(place: &T) {
    let place: *const T = place;
    // SAFETY: a hint about an address, which need not even be valid.
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

/// Asks for the line of memory in which this begins, to be written soon: other processors have to forget it.
#[inline(always)]
pub fn for_write<T>(place: &T) {
    let place: *const T = place;
    // SAFETY: a hint about an address, which need not even be valid; where there is no such hint, the processor takes
    // it for nothing.
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
