//! How a client reaches the coordinator and its blobs.

use std::path::Path;
use std::time::Duration;

use tanto_protocol::{ClientAnswer, ClientRequest, Digest, Refusal};
use thiserror::Error;

/// Sends requests and moves blobs. The threads of a client share it.
pub trait Transport: Send + Sync {
    /// Sends a request. The answer is the one of the same name.
    fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError>;

    /// Returns those of the digests that the server lacks.
    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError>;

    /// Downloads a blob to a file that does not exist, and verifies it.
    fn download(&self, digest: Digest, to: &Path) -> Result<(), TransportError>;

    /// Uploads a file as a blob.
    fn upload(&self, digest: Digest, from: &Path) -> Result<(), TransportError>;
}

/// Why a request failed.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The server refuses the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Trying again may help.
    #[error("{0}")]
    Unreachable(String),
    /// Trying again does not help.
    #[error("{0}")]
    Failed(String),
}

/// The wait before the first repetition, and the longest one.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Grows with each failure in a row.
#[derive(Clone, Copy, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns how long to wait after another failure. Clients that failed together do not repeat together: `salt`
    /// differs between them.
    pub fn next(&mut self, salt: u64) -> Duration {
        let longest = FIRST_WAIT.saturating_mul(1 << self.failures.min(8)).min(LONGEST_WAIT);
        self.failures += 1;
        let parts = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(u64::from(self.failures)) % 64;
        longest / 2 + longest / 2 * parts as u32 / 64
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..20).map(|_| backoff.next(7)).collect();
        assert!(waits[0] >= FIRST_WAIT / 2 && waits[0] <= FIRST_WAIT);
        assert!(waits.iter().all(|&wait| wait <= LONGEST_WAIT));
        assert!(waits[19] >= LONGEST_WAIT / 2);
        backoff.reset();
        assert!(backoff.next(7) <= FIRST_WAIT);
    }
}
