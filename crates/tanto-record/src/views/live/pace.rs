//! The current rate of finished commands.

/// Window, in seconds.
const SPAN: usize = 10;

/// Finished commands by second.
#[derive(Default)]
pub(super) struct Pace {
    /// A ring, indexed by the second modulo its length.
    ends: [u32; SPAN],
    second: usize,
}

impl Pace {
    /// A command ended, `at_ms` after the build began.
    pub(super) fn ended(&mut self, at_ms: i64) {
        self.advance(at_ms);
        self.ends[self.second % SPAN] += 1;
    }

    /// Returns the number of finished commands per second.
    pub(super) fn rate(&mut self, at_ms: i64) -> f64 {
        self.advance(at_ms);
        let whole = self.second.min(SPAN - 1) as f64;
        let seconds = whole + (at_ms.max(0) % 1000) as f64 / 1e3;
        let ends: u32 = self.ends.iter().sum();
        if seconds == 0.0 { 0.0 } else { f64::from(ends) / seconds }
    }

    fn advance(&mut self, at_ms: i64) {
        let now = usize::try_from(at_ms / 1000).unwrap_or(0);
        for second in (self.second + 1..=now).rev().take(SPAN) {
            self.ends[second % SPAN] = 0;
        }
        self.second = self.second.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_seconds_count() {
        let mut pace = Pace::default();
        assert_eq!(pace.rate(0), 0.0);
        (0..20).for_each(|end| pace.ended(end * 100));
        assert_eq!(pace.rate(2000), 10.0);
        assert_eq!(pace.rate(4000), 5.0);
        // The first second has left the window.
        assert_eq!(pace.rate(10_000), 10.0 / 9.0);
        assert_eq!(pace.rate(1_000_000_000), 0.0);
        pace.ended(1_000_000_100);
        assert_eq!(pace.rate(1_000_001_000), 1.0 / 9.0);
    }
}
