//! Delays between attempts at a request.

use std::time::Duration;

use crate::secret;

/// Doubles from half a second to 30 s. Each delay is random between its half and its whole, so that clients that lost
/// their server at once do not return at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);

    pub fn new() -> Backoff {
        Backoff { next: Backoff::FIRST }
    }

    /// Begins again, after a success.
    pub fn reset(&mut self) {
        self.next = Backoff::FIRST;
    }

    pub fn delay(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(Backoff::LONGEST);
        // Without random numbers, the delay is the whole.
        let random = secret::random::<2>().map_or(u16::MAX, u16::from_le_bytes);
        whole / 2 + (whole / 2).mul_f64(f64::from(random) / f64::from(u16::MAX))
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new()
    }
}
