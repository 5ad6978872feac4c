//! Requests that wait for their answers.

use std::collections::HashMap;

use tanto_protocol::ClientAnswer;
use tokio::sync::oneshot;

use super::MAX_PENDING;

/// Numbers are never used again, also over several connections.
#[derive(Default)]
pub(super) struct Pending {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<ClientAnswer>>,
}

impl Pending {
    /// `None` if too many wait.
    pub(super) fn add(&mut self) -> Option<(u64, oneshot::Receiver<ClientAnswer>)> {
        if self.waiting.len() >= MAX_PENDING {
            return None;
        }
        self.last += 1;
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(self.last, sender);
        Some((self.last, receiver))
    }

    pub(super) fn answer(&mut self, number: u64, answer: ClientAnswer) {
        if let Some(waiting) = self.waiting.remove(&number) {
            // The client may have gone.
            let _ = waiting.send(answer);
        }
    }

    /// Returns whether it was waiting.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.waiting.remove(&number).is_some()
    }

    /// Returns how many requests wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
