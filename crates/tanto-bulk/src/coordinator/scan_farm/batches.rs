//! Which client has which directories of a scan. No I/O and no clock.

use std::collections::BTreeMap;

use tanto_protocol::{InstanceId, Refusal, RefusalCode, ScanAnswer, ScanRequest};

/// Most directories of a batch: enough for some seconds.
const MOST_DIRECTORIES: usize = 64;
/// Most processes that take part.
const MAX_CLIENTS: usize = 10_000;
/// Most relayed requests that wait for the same answer.
const MAX_REPEATS: usize = 8;
/// If so many directories in a row could not be scanned, a client gets no more.
const MAX_FAILURES: usize = 64;

/// The clients of a scan, by process.
#[derive(Default)]
pub(super) struct ScanBatches {
    clients: BTreeMap<InstanceId, ScanningClient>,
    /// Answers to relayed requests.
    answers: Vec<(u64, ScanAnswer)>,
    /// Records need the settings of packages.
    options: bool,
}

struct ScanningClient {
    token: String,
    slots: usize,
    /// The number of its last request.
    number: u64,
    /// The numbers of the relayed requests that wait.
    waiting: Vec<u64>,
    until_ms: i64,
    answer: Option<ScanAnswer>,
    /// The directories that it has not reported.
    directories: Vec<String>,
    given_ms: i64,
    /// Directories in a row that it could not scan.
    failures: usize,
}

impl ScanBatches {
    pub fn new(options: bool) -> ScanBatches {
        ScanBatches { options, ..ScanBatches::default() }
    }

    /// Handles a request; `relayed` is the number of its message. Returns the directories that its results are about, if it
    /// is not a repeat.
    pub fn request(
        &mut self,
        now_ms: i64,
        token: &str,
        request: &ScanRequest,
        relayed: u64,
    ) -> Result<Vec<String>, Refusal> {
        if self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&request.instance) {
            return Err(refusal(RefusalCode::Busy, "the scan has too many clients"));
        }
        let new = || ScanningClient::new(token);
        let client = self.clients.entry(request.instance).or_insert_with(new);
        if client.token != token {
            return Err(refusal(RefusalCode::NameTaken, "another client has this instance"));
        }
        if request.number < client.number {
            return Err(refusal(RefusalCode::Invalid, "a later request has been made"));
        }
        if request.number == client.number {
            match &client.answer {
                Some(answer) => self.answers.push((relayed, answer.clone())),
                None if client.waiting.len() >= MAX_REPEATS => {
                    return Err(refusal(RefusalCode::Busy, "the same request waits already"));
                }
                None => client.waiting.push(relayed),
            }
            return Ok(Vec::new());
        }
        let late = client.waiting.drain(..).map(|relayed| (relayed, ScanAnswer::default()));
        self.answers.extend(late);
        client.slots = request.slots.clamp(1, 4_096) as usize;
        client.number = request.number;
        client.until_ms = now_ms.saturating_add_unsigned(request.wait_ms);
        (client.waiting, client.answer) = (vec![relayed], None);
        Ok(std::mem::take(&mut client.directories))
    }

    /// Notes how many of a client's directories were scanned.
    pub fn reported(&mut self, instance: InstanceId, scanned: usize, failed: usize) {
        let Some(client) = self.clients.get_mut(&instance) else { return };
        client.failures = if scanned > 0 { 0 } else { client.failures + failed };
    }

    /// Returns the share of the next client that waits; 0 if none does. `here`: directories at a time on this machine.
    pub fn wanted(&self, ready: usize, here: usize) -> usize {
        let Some((_, client)) = self.next() else { return 0 };
        let slots = here + self.clients.values().filter(|client| client.takes_part()).map(|it| it.slots).sum::<usize>();
        // Half of what is left, so that all end at the same time.
        let share = ready * client.slots / (2 * slots);
        ready.min(share.clamp(1, MOST_DIRECTORIES).max(client.slots.min(MOST_DIRECTORIES)))
    }

    fn next(&self) -> Option<(&InstanceId, &ScanningClient)> {
        self.clients.iter().find(|(_, client)| client.takes_part() && !client.waiting.is_empty())
    }

    /// Gives directories to the client of `wanted`.
    pub fn give(&mut self, now_ms: i64, directories: Vec<String>) {
        let Some(instance) = self.next().map(|(instance, _)| *instance) else { return };
        let Some(client) = self.clients.get_mut(&instance) else { return };
        client.directories.clone_from(&directories);
        client.given_ms = now_ms;
        client.answer(ScanAnswer { directories, options: self.options }, &mut self.answers);
    }

    /// Returns a directory that its client has had for this time.
    pub fn take_back(&mut self, now_ms: i64, patience_ms: i64) -> Option<String> {
        let is_late = |client: &&mut ScanningClient| {
            !client.directories.is_empty() && now_ms.saturating_sub(client.given_ms) >= patience_ms
        };
        let late = self.clients.values_mut().filter(is_late);
        late.min_by_key(|client| client.given_ms)?.directories.pop()
    }

    /// The server can no longer deliver the answer to a relayed request.
    pub fn gone(&mut self, relayed: u64) {
        self.clients.values_mut().for_each(|client| client.waiting.retain(|it| *it != relayed));
    }

    /// The server has gone, and with it all requests that wait.
    pub fn link_down(&mut self) {
        self.clients.values_mut().for_each(|client| client.waiting.clear());
        self.answers.clear();
    }

    /// Returns answers, also those to requests that have waited for long enough.
    pub fn take_answers(&mut self, now_ms: i64) -> Vec<(u64, ScanAnswer)> {
        for client in self.clients.values_mut() {
            if !client.waiting.is_empty() && client.until_ms <= now_ms {
                client.answer(ScanAnswer::default(), &mut self.answers);
            }
        }
        std::mem::take(&mut self.answers)
    }
}

impl ScanningClient {
    fn new(token: &str) -> ScanningClient {
        ScanningClient {
            token: token.to_owned(),
            slots: 1,
            number: 0,
            waiting: Vec::new(),
            until_ms: 0,
            answer: None,
            directories: Vec::new(),
            given_ms: 0,
            failures: 0,
        }
    }

    fn takes_part(&self) -> bool {
        self.failures < MAX_FAILURES
    }

    fn answer(&mut self, answer: ScanAnswer, answers: &mut Vec<(u64, ScanAnswer)>) {
        answers.extend(self.waiting.drain(..).map(|relayed| (relayed, answer.clone())));
        self.answer = Some(answer);
    }
}

pub(super) fn refusal(code: RefusalCode, message: &str) -> Refusal {
    Refusal { code, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_protocol::ConnectionId;

    fn request(instance: u8, number: u64) -> ScanRequest {
        ScanRequest {
            scan: ConnectionId([1; 16]),
            instance: InstanceId([instance; 16]),
            number,
            slots: 2,
            wait_ms: 1_000,
            makeconf: String::new(),
            results: None,
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn answer(relayed: u64, directories: &[&str]) -> (u64, ScanAnswer) {
        (relayed, ScanAnswer { directories: names(directories), options: false })
    }

    #[test]
    fn a_repeat_gets_the_same_answer() {
        let mut batches = ScanBatches::default();
        assert_eq!(batches.request(0, "a", &request(1, 1), 10), Ok(vec![]));
        assert_eq!(batches.request(0, "a", &request(1, 1), 11), Ok(vec![]));
        batches.give(0, names(&["a/b", "a/c"]));
        assert_eq!(batches.take_answers(0), [answer(10, &["a/b", "a/c"]), answer(11, &["a/b", "a/c"])]);
        assert_eq!(batches.request(1, "a", &request(1, 1), 12), Ok(vec![]));
        assert_eq!(batches.take_answers(1), [answer(12, &["a/b", "a/c"])]);
        assert_eq!(batches.request(2, "a", &request(1, 2), 13), Ok(names(&["a/b", "a/c"])));
        assert_eq!(batches.request(3, "a", &request(1, 3), 14), Ok(vec![]), "they are reported once");
        assert_eq!(batches.take_answers(3), [answer(13, &[])], "its answer is of no use any more");
        assert!(batches.request(4, "a", &request(1, 2), 15).is_err());
        assert!(batches.request(4, "b", &request(1, 4), 16).is_err(), "the instance is of another token");
    }

    #[test]
    fn requests_wait_for_a_limited_time() {
        let mut batches = ScanBatches::default();
        assert_eq!(batches.wanted(9, 1), 0);
        batches.request(0, "a", &request(1, 1), 10).unwrap();
        assert_eq!(batches.take_answers(999), []);
        assert_eq!(batches.take_answers(1_000), [answer(10, &[])]);
        assert_eq!(batches.wanted(9, 1), 0, "nobody waits");
        batches.request(0, "a", &request(1, 2), 11).unwrap();
        batches.gone(11);
        assert_eq!((batches.wanted(9, 1), batches.take_answers(5_000)), (0, vec![]));
    }

    #[test]
    fn batches_shrink_towards_the_end() {
        let mut batches = ScanBatches::default();
        batches.request(0, "a", &request(1, 1), 10).unwrap();
        let sizes = [1_000, 100, 40, 3, 1, 0].map(|ready| batches.wanted(ready, 2));
        assert_eq!(sizes, [64, 25, 10, 2, 1, 0]);
    }

    #[test]
    fn directories_are_taken_back_from_the_client_that_has_had_them_longest() {
        let mut batches = ScanBatches::default();
        for instance in [1, 2] {
            batches.request(0, "a", &request(instance, 1), u64::from(instance)).unwrap();
            batches.give(i64::from(instance), names(&[["x/1", "x/2"][usize::from(instance) - 1], "y/1"]));
        }
        assert_eq!(batches.take_back(10, 10), None);
        let taken = [batches.take_back(12, 10), batches.take_back(12, 10), batches.take_back(12, 10)];
        assert_eq!(taken, ["y/1", "x/1", "y/1"].map(|name| Some(name.to_owned())));
        assert_eq!(batches.request(13, "a", &request(2, 2), 3), Ok(names(&["x/2"])), "others do not count");
        assert_eq!(batches.take_back(99, 10), None);
    }

    #[test]
    fn a_client_that_cannot_scan_gets_no_more() {
        let mut batches = ScanBatches::default();
        batches.request(0, "a", &request(1, 1), 10).unwrap();
        batches.reported(InstanceId([1; 16]), 0, MAX_FAILURES - 1);
        assert_eq!(batches.wanted(9, 1), 3);
        batches.reported(InstanceId([1; 16]), 1, 5);
        batches.reported(InstanceId([1; 16]), 0, MAX_FAILURES);
        assert_eq!(batches.wanted(9, 1), 0);
    }
}
