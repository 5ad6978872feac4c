//! The monotonic clock.

/// Returns milliseconds since a fixed moment before the program started.
pub fn monotonic_ms() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer; the call writes nothing else.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(rc, 0, "Linux always has CLOCK_MONOTONIC");
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_goes_back() {
        let first = super::monotonic_ms();
        assert!(first > 0);
        assert!(super::monotonic_ms() >= first);
    }
}
