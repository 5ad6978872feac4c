//! The one thread of a build that writes to disks while commands run: nobody who starts commands waits for a disk, as
//! long as that keeps up. Does not know what it writes.
//!
//! What is handed over gathers for a moment, so that the thread is woken a few times a second and not for each event. It
//! is in the kernel's hands soon after: a killed build loses no more than that moment.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long bytes gather. Shorter, and a build of many small commands is disturbed more often; longer, and a killed
/// build loses more of its record.
const MOMENT: Duration = Duration::from_millis(100);

/// So many bytes are written at once, however soon they came.
const ENOUGH: usize = 64 << 10;

/// With so many bytes waiting, whoever has more waits for the disk: memory has an end too.
const MOST: usize = 8 << 20;

/// Something to do when all bytes are written.
pub type Last = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// The thread, and what waits for it.
pub struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<io::Result<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or nothing more will come.
    filled: Condvar,
    /// There is room again.
    drained: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    last: Vec<Last>,
    is_closed: bool,
    /// Writing has failed: all that still comes is dropped.
    has_failed: bool,
    /// The thread sleeps until something comes.
    is_idle: bool,
}

impl Writer {
    /// Starts the thread. It writes to what `open` opens; that is called there too.
    pub fn start<W: Write>(open: impl FnOnce() -> io::Result<W> + Send + 'static) -> io::Result<Writer> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("writer".into()).spawn(move || theirs.run(open))?;
        Ok(Writer { shared, thread })
    }

    /// Hands over bytes to write behind all that came before; `bytes` is empty afterwards. Waits if there is far more
    /// than the disk can take.
    pub fn append(&self, bytes: &mut Vec<u8>) {
        let mut queue = self.shared.queue();
        while queue.bytes.len() >= MOST && !queue.has_failed {
            queue = self.shared.drained.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if !queue.has_failed {
            queue.bytes.append(bytes);
        }
        bytes.clear();
        if queue.is_idle || queue.bytes.len() >= ENOUGH {
            self.shared.filled.notify_one();
        }
    }

    /// Waits until all is written and `last` is done. The error is the first that there was; `last` is done even then.
    pub fn end(self, last: Vec<Last>) -> io::Result<()> {
        let mut queue = self.shared.queue();
        queue.last = last;
        queue.is_closed = true;
        drop(queue);
        self.shared.filled.notify_one();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer's thread ended early")))
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<W: Write>(&self, open: impl FnOnce() -> io::Result<W>) -> io::Result<()> {
        let written = open().and_then(|mut out| self.write(&mut out));
        if written.is_err() {
            self.fail();
        }
        let last = self.last();
        last.into_iter().fold(written, |done, last| {
            let this = last();
            done.and(this)
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        while self.wait(&mut bytes) {
            out.write_all(&bytes)?;
            bytes.clear();
        }
        Ok(())
    }

    /// Waits for bytes and takes them; false if no more will come.
    fn wait(&self, bytes: &mut Vec<u8>) -> bool {
        let mut queue = self.queue();
        queue.is_idle = true;
        while queue.bytes.is_empty() && !queue.is_closed {
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_idle = false;
        if !queue.is_closed && queue.bytes.len() < ENOUGH {
            let gathers = |queue: &mut Queue| queue.bytes.len() < ENOUGH && !queue.is_closed;
            let waited = self.filled.wait_timeout_while(queue, MOMENT, gathers);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut queue.bytes, bytes);
        drop(queue);
        self.drained.notify_one();
        !bytes.is_empty()
    }

    fn fail(&self) {
        let mut queue = self.queue();
        queue.has_failed = true;
        queue.bytes = Vec::new();
        drop(queue);
        self.drained.notify_one();
    }

    /// Waits for the end, and takes what is to be done then.
    fn last(&self) -> Vec<Last> {
        let mut queue = self.queue();
        while !queue.is_closed {
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut queue.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// What was written, in the portions in which it was; full after so many bytes.
    struct Portions(mpsc::Sender<Vec<u8>>, usize);

    impl Write for Portions {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1 -= bytes.len();
            let _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(room: usize) -> (Writer, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel();
        (Writer::start(move || Ok(Portions(sender, room))).unwrap(), receiver)
    }

    #[test]
    fn all_is_written_in_order() {
        let (writer, written) = writer(usize::MAX);
        let mut expected = Vec::new();
        for number in 0..50_000 {
            let mut line = format!("{number}\n").into_bytes();
            expected.extend_from_slice(&line);
            writer.append(&mut line);
            assert!(line.is_empty());
        }
        writer.end(Vec::new()).unwrap();
        assert!(written.iter().flatten().eq(expected));
    }

    #[test]
    fn what_waits_is_written_before_the_end() {
        let (writer, written) = writer(usize::MAX);
        writer.append(&mut b"a".to_vec());
        assert_eq!(written.recv().unwrap(), b"a");
        writer.append(&mut b"b".to_vec());
        assert_eq!(written.recv().unwrap(), b"b");
        writer.end(Vec::new()).unwrap();
    }

    #[test]
    fn more_than_may_wait_is_written_too() {
        let (writer, written) = writer(usize::MAX);
        for _ in 0..5 {
            writer.append(&mut vec![b'x'; MOST]);
        }
        writer.end(Vec::new()).unwrap();
        assert_eq!(written.iter().map(|portion| portion.len()).sum::<usize>(), 5 * MOST);
    }

    #[test]
    fn a_full_disk_ends_the_writing_and_nothing_else() {
        let (writer, written) = writer(MOST);
        for _ in 0..5 {
            writer.append(&mut vec![b'x'; MOST]);
        }
        let (done, is_done) = mpsc::channel();
        let ended = writer.end(vec![Box::new(move || done.send(()).map_err(io::Error::other))]);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(is_done.recv().is_ok(), "what is last is done all the same");
        assert!(written.iter().count() <= 1);
    }

    #[test]
    fn what_cannot_be_opened_is_told_at_the_end() {
        let open = || Err::<Vec<u8>, _>(io::ErrorKind::PermissionDenied.into());
        let writer = Writer::start(open).unwrap();
        writer.append(&mut b"a".to_vec());
        assert_eq!(writer.end(Vec::new()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_first_error_is_told() {
        let (writer, _) = writer(usize::MAX);
        let fail = |kind: io::ErrorKind| -> Last { Box::new(move || Err(kind.into())) };
        let last = vec![fail(io::ErrorKind::StorageFull), fail(io::ErrorKind::NotFound)];
        assert_eq!(writer.end(last).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
