//! Delays between attempts at a request.

use std::time::Duration;

/// Doubles from half a second to 10 s. Each delay is between its half and its whole, so that clients that lost their server
/// at once do not return at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
}

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// Begins again, after a success.
    pub fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// Returns the next delay. `random` chooses it in its range.
    pub fn delay(&mut self, random: u16) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        whole / 2 + (whole / 2).mul_f64(f64::from(random) / f64::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_limit() {
        for random in [0, u16::MAX] {
            let mut backoff = Backoff::default();
            let delays: Vec<Duration> = (0..20).map(|_| backoff.delay(random)).collect();
            assert!(delays.is_sorted() && delays[0] >= FIRST / 2 && delays[0] <= FIRST, "{delays:?}");
            assert!(delays[19] >= LONGEST / 2 && delays[19] <= LONGEST);
            backoff.reset();
            assert_eq!(backoff.delay(random), delays[0]);
        }
    }
}
