//! Reads the files of finished commands on a thread of its own while others run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use tanto_cas::{FileDigest, RecentDigests};
use tanto_sys::fs::file;
use tanto_sys::fs::fingerprint::{FileSystems, Trust, wait_for_known_files};
use tanto_sys::fs::stat::stat;

use crate::hash::Map;
use crate::ids::NodeId;

/// Files that may wait. Others are read when the build ends.
const MAX_WAITING: usize = 4096;

/// Files that are read before the next look whether they have changed since.
const MAX_BATCH: usize = 256;

pub(crate) struct BackgroundReader {
    files: SyncSender<(NodeId, Vec<u8>)>,
    is_ending: Arc<AtomicBool>,
    thread: JoinHandle<Map<NodeId, FileDigest>>,
}

impl BackgroundReader {
    /// Starts the thread. Files in `recent` are not read.
    pub(crate) fn start(recent: RecentDigests) -> io::Result<BackgroundReader> {
        let (files, queue) = mpsc::sync_channel(MAX_WAITING);
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread =
            thread::Builder::new().name("contents".into()).spawn(move || read_all(&queue, &recent, &ending))?;
        Ok(BackgroundReader { files, is_ending, thread })
    }

    /// Queues a file, unless too many wait.
    pub(crate) fn read(&self, node: NodeId, path: &[u8]) {
        let _ = self.files.try_send((node, path.to_vec()));
    }

    /// Waits for all queued files.
    pub(crate) fn finish(self) -> Map<NodeId, FileDigest> {
        self.is_ending.store(true, Ordering::Relaxed);
        drop(self.files);
        self.thread.join().unwrap_or_default()
    }
}

fn read_all(
    queue: &Receiver<(NodeId, Vec<u8>)>,
    recent: &RecentDigests,
    is_ending: &AtomicBool,
) -> Map<NodeId, FileDigest> {
    let systems = FileSystems::default();
    let mut digests = Map::default();
    while let Ok(first) = queue.recv() {
        let batch: Vec<_> = std::iter::once(first).chain(queue.try_iter()).take(MAX_BATCH).collect();
        for (node, path) in &batch {
            let known = stat(path).ok().flatten().and_then(|stat| recent.find(&stat));
            if let Some(found) = known.or_else(|| FileDigest::of(file::path(path), &systems).ok().flatten()) {
                digests.insert(*node, found);
            }
        }
        // The next build would read files again that were changed just before they were read.
        if !is_ending.load(Ordering::Relaxed) {
            wait_for_known_files();
            batch.iter().for_each(|(node, path)| settle(&systems, path, digests.get_mut(node)));
        }
    }
    digests
}

fn settle(systems: &FileSystems, path: &[u8], found: Option<&mut FileDigest>) {
    if let Some(found) = found.filter(|found| found.trust == Trust::Racy)
        && systems.observe(path).is_ok_and(|state| state == found.state)
    {
        found.trust = Trust::Known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tanto_cas::Digest;
    use tanto_testing::Scratch;

    #[test]
    fn queued_files_are_read_and_trusted() {
        let dir = Scratch::new("content-reader");
        let reader = BackgroundReader::start(RecentDigests::default()).unwrap();
        for number in 0..2000 {
            dir.write(&number.to_string(), number.to_string());
            reader.read(NodeId(number), &dir.bytes(&number.to_string()));
        }
        reader.read(NodeId(3000), &dir.bytes("none"));
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            thread::sleep(Duration::from_millis(1));
        }
        let found = reader.finish();
        assert_eq!(found.len(), 2000);
        assert!(found.iter().all(|(node, found)| found.digest == Digest::of(node.0.to_string().as_bytes())));
        assert!(found.values().any(|found| found.trust == Trust::Known));
    }
}
