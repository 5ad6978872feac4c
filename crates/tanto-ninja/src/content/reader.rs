//! Reads the files of finished commands on a thread of its own while others run.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tanto_cas::{FileDigest, RecentDigests};
use tanto_sys::fs::file;
use tanto_sys::fs::fingerprint::{FileSystems, time_until_known};
use tanto_sys::fs::stat::stat;

use crate::hash::Map;
use crate::ids::NodeId;

/// Batches that may wait. Files of others are read when the build ends.
const MAX_WAITING: usize = 64;

pub(crate) struct BackgroundReader {
    batches: SyncSender<Batch>,
    thread: JoinHandle<Map<NodeId, FileDigest>>,
    /// The next batch.
    pending: Vec<QueuedFile>,
    /// When the first file of it was queued.
    began: Instant,
}

type QueuedFile = (NodeId, Vec<u8>);

/// Files that are read together.
struct Batch {
    files: Vec<QueuedFile>,
    /// Earlier, a file could change again without a new fingerprint, so that its digest could not be trusted.
    due: Instant,
}

impl BackgroundReader {
    /// Starts the thread. Files in `recent` are not read.
    pub(crate) fn start(recent: RecentDigests) -> io::Result<BackgroundReader> {
        let (batches, queue) = mpsc::sync_channel(MAX_WAITING);
        let thread = thread::Builder::new().name("contents".into()).spawn(move || read_all(&queue, &recent))?;
        Ok(BackgroundReader { batches, thread, pending: Vec::new(), began: Instant::now() })
    }

    /// Queues a file, which was written before.
    pub(crate) fn queue(&mut self, node: NodeId, path: &[u8]) {
        let now = Instant::now();
        if self.pending.is_empty() {
            self.began = now;
        }
        self.pending.push((node, path.to_vec()));
        if now - self.began >= time_until_known() {
            let files = std::mem::take(&mut self.pending);
            let _ = self.batches.try_send(Batch { files, due: now + time_until_known() });
        }
    }

    /// Reads all queued files, also those that are not due.
    pub(crate) fn finish(self) -> Map<NodeId, FileDigest> {
        let _ = self.batches.try_send(Batch { files: self.pending, due: Instant::now() });
        drop(self.batches);
        self.thread.join().unwrap_or_default()
    }
}

fn read_all(queue: &Receiver<Batch>, recent: &RecentDigests) -> Map<NodeId, FileDigest> {
    let systems = FileSystems::default();
    let mut digests = Map::default();
    let mut waiting = VecDeque::new();
    let mut read = |(node, path): QueuedFile| {
        let known = stat(&path).ok().flatten().and_then(|stat| recent.find(&stat));
        if let Some(found) = known.or_else(|| FileDigest::of(file::path(&path), &systems).ok().flatten()) {
            digests.insert(node, found);
        }
    };
    loop {
        match next_event(queue, &waiting) {
            Ok(new) => waiting.push_back(new),
            Err(RecvTimeoutError::Disconnected) if waiting.is_empty() => return digests,
            // The first batch is due, or the build ends.
            Err(_) => waiting.pop_front().into_iter().flat_map(|batch| batch.files).for_each(&mut read),
        }
    }
}

/// Waits for another batch, until the first one that waits is due.
fn next_event(queue: &Receiver<Batch>, waiting: &VecDeque<Batch>) -> Result<Batch, RecvTimeoutError> {
    let Some(first) = waiting.front() else { return queue.recv().map_err(|_| RecvTimeoutError::Disconnected) };
    match first.due.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(RecvTimeoutError::Timeout),
        left => queue.recv_timeout(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_cas::ContentDigest;
    use tanto_sys::fs::fingerprint::Trust;
    use tanto_testing::Scratch;

    #[test]
    fn queued_files_are_read() {
        let dir = Scratch::new("content-reader");
        let mut reader = BackgroundReader::start(RecentDigests::default()).unwrap();
        for number in 0..2000 {
            dir.write(&number.to_string(), number.to_string());
            reader.queue(NodeId(number), &dir.bytes(&number.to_string()));
        }
        reader.queue(NodeId(3000), &dir.bytes("none"));
        let found = reader.finish();
        assert_eq!(found.len(), 2000);
        assert!(found.iter().all(|(node, found)| found.digest == ContentDigest::of(node.0.to_string().as_bytes())));
    }

    #[test]
    fn files_are_trusted_if_the_build_goes_on_and_only_with_their_last_content() {
        let dir = Scratch::new("content-reader-changes");
        let mut pause = Duration::from_millis(50);
        let found = loop {
            let mut reader = BackgroundReader::start(RecentDigests::default()).unwrap();
            for number in 0..20 {
                dir.write(&number.to_string(), "before");
                reader.queue(NodeId(number), &dir.bytes(&number.to_string()));
                // Often in the same tick of the clock.
                thread::sleep(Duration::from_millis(1));
                dir.write(&number.to_string(), "after!");
            }
            thread::sleep(pause);
            let found = reader.finish();
            if found.values().any(|found| found.trust == Trust::Known) {
                break found;
            }
            pause *= 2;
        };
        let last = ContentDigest::of(b"after!");
        assert!(found.values().all(|found| found.digest == last || found.trust == Trust::Racy));
    }
}
