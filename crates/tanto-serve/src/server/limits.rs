//! Limits of a server. Tests use smaller ones.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address that have not shown a valid token.
    pub unverified: usize,
    /// How long a connection may take to show a valid token, from its begin.
    pub unverified_time: Duration,
    /// Failed handshakes and logins of one address, and seconds until one more is permitted.
    pub failures: f64,
    pub failure_seconds: f64,
    /// Requests per second of one connection, and how many may come at once.
    pub requests_per_second: f64,
    pub requests_at_once: f64,
    /// Concurrent requests of one connection.
    pub streams: u32,
    /// How long a transfer may stand still, and a connection may take for the headers of a request.
    pub stall: Duration,
    /// Longest wait for work.
    pub wait: Duration,
    /// How long the coordinator may take to answer, beside that.
    pub answer: Duration,
    /// Bytes of requests and packs in memory.
    pub body_memory: usize,
    /// Largest blob, in bytes.
    pub blob: u64,
    /// Concurrent uploads of one client.
    pub uploads: usize,
    /// Bytes of the disk that stay free.
    pub disk_reserve: u64,
    /// Size of all blobs, in bytes.
    pub store: u64,
    /// Blobs that no build needs are kept for this long after their last use.
    pub keep_blobs: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 8_192,
            unverified: 256,
            unverified_time: Duration::from_secs(30),
            failures: 60.0,
            failure_seconds: 2.0,
            requests_per_second: 20.0,
            requests_at_once: 40.0,
            streams: 64,
            stall: Duration::from_secs(60),
            wait: Duration::from_secs(60),
            answer: Duration::from_secs(60),
            body_memory: 256 << 20,
            blob: 64 << 30,
            uploads: 8,
            disk_reserve: 1 << 30,
            store: u64::MAX,
            keep_blobs: Duration::from_secs(3_600),
        }
    }
}
