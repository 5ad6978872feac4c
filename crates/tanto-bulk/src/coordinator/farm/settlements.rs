//! Requests with results. Each is answered when its result is settled, so that a client need not ask again.

use tanto_protocol::{LeaseId, ResultAnswer};

/// Longest time without an answer. Servers and clients wait longer.
const PATIENCE_MS: i64 = 10_000;

/// Requests whose results are being accepted.
#[derive(Default)]
pub struct Settlements {
    waiting: Vec<Waiting>,
}

struct Waiting {
    request: u64,
    lease: LeaseId,
    until_ms: i64,
}

impl Settlements {
    /// Adds the number of a request.
    pub fn add(&mut self, now_ms: i64, request: u64, lease: LeaseId) {
        self.waiting.push(Waiting { request, lease, until_ms: now_ms.saturating_add(PATIENCE_MS) });
    }

    /// Nobody waits for the answer any more.
    pub fn remove(&mut self, request: u64) {
        self.waiting.retain(|it| it.request != request);
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns when the next request is answered at the latest.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.waiting.iter().map(|it| it.until_ms).min()
    }

    /// Takes the requests that can be answered, or have waited long enough. `answer`: the answer for a lease now.
    pub fn take(&mut self, now_ms: i64, answer: impl Fn(LeaseId) -> ResultAnswer) -> Vec<(u64, ResultAnswer)> {
        let mut answers = Vec::new();
        self.waiting.retain(|it| {
            let answer = answer(it.lease);
            let waits = answer == ResultAnswer::Pending && now_ms < it.until_ms;
            if !waits {
                answers.push((it.request, answer));
            }
            waits
        });
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_when_settled_or_late() {
        let mut settlements = Settlements::default();
        let [pending, settled] = [1, 2].map(|number| LeaseId([number; 16]));
        let answer = |lease| if lease == settled { ResultAnswer::Settled } else { ResultAnswer::Pending };
        settlements.add(0, 1, pending);
        settlements.add(5, 2, settled);
        settlements.add(5, 3, pending);
        assert_eq!(settlements.take(6, answer), [(2, ResultAnswer::Settled)]);
        assert_eq!(settlements.deadline_ms(), Some(PATIENCE_MS));
        assert_eq!(settlements.take(PATIENCE_MS, answer), [(1, ResultAnswer::Pending)]);
        settlements.remove(3);
        assert_eq!(settlements.deadline_ms(), None);
    }
}
