//! The times of leases, and the clock that measures them.

use crate::config::Config;

/// Times of leases, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTimes {
    /// The interval of heartbeats.
    pub heartbeat_ms: i64,
    /// A client without a heartbeat for this long is silent, and its leases are missing.
    pub silent_ms: i64,
    /// An offer that is not confirmed for this long returns.
    pub confirm_ms: i64,
    /// Longest wait of a work request.
    pub wait_ms: i64,
    /// A package whose lease is missing is open again after a quarter of the time spent on it, but not before this.
    pub reopen_min_ms: i64,
    /// Nor after this.
    pub reopen_max_ms: i64,
    /// A client that has been connected for this long is long-lived.
    pub long_lived_ms: i64,
    /// A package that smaller ones overtake for this long gets a client reserved.
    pub reserve_ms: i64,
}

impl Default for LeaseTimes {
    fn default() -> LeaseTimes {
        const MINUTE: i64 = 60_000;
        LeaseTimes {
            heartbeat_ms: 10_000,
            silent_ms: MINUTE,
            confirm_ms: 30_000,
            wait_ms: MINUTE / 2,
            reopen_min_ms: 5 * MINUTE,
            reopen_max_ms: 30 * MINUTE,
            long_lived_ms: 60 * MINUTE,
            reserve_ms: 10 * MINUTE,
        }
    }
}

impl LeaseTimes {
    /// The times that the configuration sets.
    pub fn of(config: &Config) -> LeaseTimes {
        let default = LeaseTimes::default();
        let silent_ms = config.client_lost_after.unwrap_or(default.silent_ms);
        LeaseTimes {
            heartbeat_ms: config.client_heartbeat.unwrap_or(default.heartbeat_ms),
            silent_ms,
            // A heartbeat confirms an offer, and comes at least once in this time.
            confirm_ms: silent_ms / 2,
            reopen_min_ms: config.client_restart_min.unwrap_or(default.reopen_min_ms),
            reopen_max_ms: config.client_restart_max.unwrap_or(default.reopen_max_ms),
            ..default
        }
    }

    /// How long a package waits for its missing client.
    pub(super) fn reopen_after(&self, spent_ms: i64) -> i64 {
        (spent_ms / 4).clamp(self.reopen_min_ms, self.reopen_max_ms)
    }
}

/// A clock that stands still while the link to the server is down: clients cannot be heard then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkClock {
    down_since_ms: Option<i64>,
    /// How long it was down before.
    down_ms: i64,
}

impl LinkClock {
    /// The link is down at first.
    pub fn new(now_ms: i64) -> LinkClock {
        LinkClock { down_since_ms: Some(now_ms), down_ms: 0 }
    }

    pub fn is_up(&self) -> bool {
        self.down_since_ms.is_none()
    }

    /// Converts a time of the coordinator's clock.
    pub fn at(&self, now_ms: i64) -> i64 {
        self.down_since_ms.unwrap_or(now_ms) - self.down_ms
    }

    /// Converts a time of this clock back, if the link stays up.
    pub fn real(&self, link_ms: i64) -> i64 {
        link_ms.saturating_add(self.down_ms)
    }

    pub fn down(&mut self, now_ms: i64) {
        self.down_since_ms.get_or_insert(now_ms);
    }

    pub fn up(&mut self, now_ms: i64) {
        self.down_ms += self.down_since_ms.take().map_or(0, |since| now_ms - since);
    }
}
