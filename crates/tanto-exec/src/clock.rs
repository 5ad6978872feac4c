//! What time it is in a build. Does not know dates: only how long ago the program started.

/// Milliseconds since the program started.
pub trait Clock {
    /// Now.
    fn now_ms(&self) -> i64;
}

/// The machine's monotonic clock.
pub struct RealClock(std::time::Instant);

impl RealClock {
    /// Starts at 0.
    pub fn start() -> Self {
        RealClock(std::time::Instant::now())
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock for tests: it stands still until it is set.
#[derive(Default)]
pub struct FakeClock(pub std::cell::Cell<i64>);

impl Clock for FakeClock {
    fn now_ms(&self) -> i64 {
        self.0.get()
    }
}
