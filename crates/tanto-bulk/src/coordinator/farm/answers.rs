//! Answers to clients. They wait until the records before them are durable: no client may have a lease that is not in
//! the database.

use std::collections::VecDeque;

use tanto_protocol::ClientAnswer;

/// Answers in the order in which they were given.
#[derive(Default)]
pub struct HeldAnswers {
    /// The number of the last record of a lease, or of a stage that a client has reported.
    recorded: u64,
    /// The number of the request, and the answer.
    new: Vec<(u64, ClientAnswer)>,
    /// With the number of the record that each waits for.
    held: VecDeque<(u64, u64, ClientAnswer)>,
}

impl HeldAnswers {
    /// Adds the answer to a request. It waits for the records that are made until the next `take`.
    pub fn add(&mut self, request: u64, answer: ClientAnswer) {
        self.new.push((request, answer));
    }

    /// Has new answers wait for the records up to this number.
    pub fn wait_for(&mut self, recorded: u64) {
        self.recorded = recorded;
    }

    /// Takes the answers that wait for none but committed records.
    pub fn take(&mut self, committed: u64) -> Vec<(u64, ClientAnswer)> {
        let recorded = self.recorded;
        self.held.extend(self.new.drain(..).map(|(request, answer)| (recorded, request, answer)));
        let ready = self.held.partition_point(|(recorded, ..)| *recorded <= committed);
        self.held.drain(..ready).map(|(_, request, answer)| (request, answer)).collect()
    }

    /// Nobody waits for answers any more.
    pub fn clear(&mut self) {
        self.new.clear();
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_wait_for_the_records_before_them() {
        let mut answers = HeldAnswers::default();
        let take = |answers: &mut HeldAnswers, committed: u64| -> Vec<u64> {
            answers.take(committed).into_iter().map(|(request, _)| request).collect()
        };
        answers.add(1, ClientAnswer::Bye);
        assert_eq!(take(&mut answers, 0), [1], "nothing was recorded");
        answers.add(2, ClientAnswer::Bye);
        answers.wait_for(5);
        assert_eq!(take(&mut answers, 4), [0; 0]);
        answers.add(3, ClientAnswer::Bye);
        answers.wait_for(7);
        assert_eq!(take(&mut answers, 4), [0; 0]);
        assert_eq!(take(&mut answers, 6), [2]);
        answers.add(4, ClientAnswer::Bye);
        assert_eq!(take(&mut answers, 7), [3, 4]);
        answers.add(5, ClientAnswer::Bye);
        answers.wait_for(8);
        assert_eq!(take(&mut answers, 7), [0; 0]);
        answers.clear();
        assert_eq!(take(&mut answers, 9), [0; 0]);
    }
}
