//! Time within a build.

pub trait Clock {
    /// Returns milliseconds since the start of the program.
    fn now_ms(&self) -> i64;
}

/// The monotonic clock.
pub struct RealClock(std::time::Instant);

impl RealClock {
    pub fn start() -> Self {
        RealClock(std::time::Instant::now())
    }
}

impl Clock for RealClock {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock for tests, which is set by hand.
#[derive(Default)]
pub struct FakeClock(pub std::cell::Cell<i64>);

impl Clock for FakeClock {
    fn now_ms(&self) -> i64 {
        self.0.get()
    }
}
