//! A thread that writes files while commands run, so that the loop does not wait for disks.
//!
//! Data gathers for a moment, so that the thread wakes up a few times a second, not for each event. A killed build
//! loses no more than that moment.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time for which data gathers. A shorter one disturbs builds of many small commands; with a longer one, a killed build
/// loses more of its record.
const MOMENT: Duration = Duration::from_millis(100);

/// Amount that is written at once.
const ENOUGH: usize = 64 << 10;

/// Limit of pending bytes; beyond it, `append` waits for the disk.
const MOST: usize = 8 << 20;

/// Runs when all data of a file is written.
pub type Last = Box<dyn FnOnce() -> io::Result<()> + Send>;

type Open = Box<dyn FnOnce() -> io::Result<Box<dyn Write>> + Send>;

/// The thread. It starts with the first file, and ends with the last clone of this value.
#[derive(Default)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: OnceCell<JoinHandle<()>>,
}

pub struct Stream {
    writer: Rc<Writer>,
    number: u64,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or the file is complete.
    filled: Condvar,
    /// There is room again, or a file is written.
    drained: Condvar,
}

#[derive(Default)]
struct Queue {
    streams: BTreeMap<u64, Waiting>,
    /// Number of the next file.
    next: u64,
    /// Pending bytes of all files.
    length: usize,
    /// Data arrived since the thread last took some.
    has_news: bool,
    /// Data is to be written at once.
    is_urgent: bool,
    is_closed: bool,
    /// The thread sleeps.
    is_idle: bool,
}

/// Pending work of one file, and its result.
#[derive(Default)]
struct Waiting {
    open: Option<Open>,
    bytes: Vec<u8>,
    /// Set when no more data will come.
    last: Option<Vec<Last>>,
    /// Writing failed; further data is dropped.
    has_failed: bool,
    /// Nobody waits for the result.
    is_forgotten: bool,
    ended: Option<io::Result<()>>,
}

impl Writer {
    /// Begins a file, which `open` opens on the thread. Fails if the thread cannot be started.
    pub fn begin<W: Write + 'static>(
        self: &Rc<Self>,
        open: impl FnOnce() -> io::Result<W> + Send + 'static,
    ) -> io::Result<Stream> {
        if self.thread.get().is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("writer".into()).spawn(move || shared.run())?;
            // No other thread sets it.
            let _ = self.thread.set(thread);
        }
        let open: Open = Box::new(|| Ok(Box::new(open()?) as Box<dyn Write>));
        let mut queue = self.shared.queue();
        let number = queue.next;
        queue.next += 1;
        queue.streams.insert(number, Waiting { open: Some(open), ..Waiting::default() });
        self.shared.tell(queue, false);
        Ok(Stream { writer: Rc::clone(self), number })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        self.shared.tell(queue, true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Stream {
    /// Appends data. Waits if too much is pending.
    pub fn append(&self, bytes: &[u8]) {
        let shared = &self.writer.shared;
        let mut queue = shared.queue();
        while queue.length >= MOST && !queue.of(self.number).has_failed {
            queue = shared.drained.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let mine = queue.of(self.number);
        if mine.has_failed {
            return;
        }
        mine.bytes.extend_from_slice(bytes);
        queue.length += bytes.len();
        let is_enough = queue.length >= ENOUGH;
        shared.tell(queue, is_enough);
    }

    /// Waits until everything is written and `last` has run, which happens even after errors. Returns the first error.
    pub fn end(self, last: Vec<Last>) -> io::Result<()> {
        let shared = &self.writer.shared;
        let mut queue = shared.queue();
        queue.of(self.number).last = Some(last);
        shared.tell(queue, true);
        let mut queue = shared.queue();
        loop {
            if let Some(ended) = queue.of(self.number).ended.take() {
                return ended;
            }
            queue = shared.drained.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut queue = self.writer.shared.queue();
        let mine = queue.of(self.number);
        if mine.last.is_some() {
            queue.streams.remove(&self.number);
        } else {
            (mine.last, mine.is_forgotten) = (Some(Vec::new()), true);
            self.writer.shared.tell(queue, false);
        }
    }
}

impl Queue {
    fn of(&mut self, number: u64) -> &mut Waiting {
        self.streams.entry(number).or_default()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread if it would otherwise be late.
    fn tell(&self, mut queue: MutexGuard<'_, Queue>, urgent: bool) {
        let wakes = queue.is_idle || (urgent && !queue.is_urgent);
        queue.has_news = true;
        queue.is_urgent |= urgent;
        queue.is_idle = false;
        drop(queue);
        if wakes {
            self.filled.notify_one();
        }
    }

    fn run(&self) {
        let mut files = BTreeMap::new();
        while let Some(portions) = self.take() {
            for (number, portion) in portions {
                let ended = write(&mut files, number, portion);
                self.record_end(number, matches!(files.get(&number), Some(Err(_))), ended);
            }
        }
    }

    /// Waits for work and takes it; `None` if no more will come.
    fn take(&self) -> Option<Vec<(u64, Waiting)>> {
        let mut queue = self.queue();
        queue.is_idle = true;
        let sleeps = |queue: &mut Queue| !queue.has_news && !queue.is_closed;
        queue = self.filled.wait_while(queue, sleeps).unwrap_or_else(PoisonError::into_inner);
        let gathers = |queue: &mut Queue| !queue.is_urgent && !queue.is_closed;
        let waited = self.filled.wait_timeout_while(queue, MOMENT, gathers);
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        (queue.has_news, queue.is_urgent, queue.is_idle, queue.length) = (false, false, false, 0);
        let is_closed = queue.is_closed;
        let take = |(&number, its): (&u64, &mut Waiting)| {
            let is_new = its.open.is_some() || !its.bytes.is_empty() || (its.last.is_some() && its.ended.is_none());
            is_new.then(|| (number, its.taken()))
        };
        let portions: Vec<_> = queue.streams.iter_mut().filter_map(take).collect();
        drop(queue);
        self.drained.notify_one();
        (!is_closed || !portions.is_empty()).then_some(portions)
    }

    /// Records the result of a portion.
    fn record_end(&self, number: u64, has_failed: bool, ended: Option<io::Result<()>>) {
        if !has_failed && ended.is_none() {
            return;
        }
        let mut queue = self.queue();
        let its = queue.of(number);
        its.has_failed = has_failed;
        if its.is_forgotten && ended.is_some() {
            queue.streams.remove(&number);
        } else {
            its.ended = ended;
        }
        drop(queue);
        self.drained.notify_one();
    }
}

impl Waiting {
    /// Takes the pending work of a file; the end of the file is remembered here.
    fn taken(&mut self) -> Waiting {
        let last = self.last.as_mut().map(std::mem::take);
        Waiting { open: self.open.take(), bytes: std::mem::take(&mut self.bytes), last, ..Waiting::default() }
    }
}

/// Writes a portion. Returns the result of the file with its last one.
fn write(
    files: &mut BTreeMap<u64, io::Result<Box<dyn Write>>>,
    number: u64,
    portion: Waiting,
) -> Option<io::Result<()>> {
    if let Some(open) = portion.open {
        files.insert(number, open());
    }
    let file = files.get_mut(&number)?;
    if let Ok(out) = file
        && let Err(error) = out.write_all(&portion.bytes)
    {
        *file = Err(error);
    }
    let last = portion.last?;
    let written = files.remove(&number)?.map(|_| ());
    Some(last.into_iter().fold(written, |done, last| {
        let this = last();
        done.and(this)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Records the portions in which data was written; full after this many bytes.
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

    fn stream(writer: &Rc<Writer>, room: usize) -> (Stream, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel();
        (writer.begin(move || Ok(Portions(sender, room))).unwrap(), receiver)
    }

    fn alone(room: usize) -> (Stream, mpsc::Receiver<Vec<u8>>) {
        stream(&Rc::default(), room)
    }

    #[test]
    fn data_is_written_in_order() {
        let (stream, written) = alone(usize::MAX);
        let mut expected = Vec::new();
        for number in 0..50_000 {
            let line = format!("{number}\n").into_bytes();
            expected.extend_from_slice(&line);
            stream.append(&line);
        }
        stream.end(Vec::new()).unwrap();
        assert!(written.iter().flatten().eq(expected));
    }

    #[test]
    fn queued_data_is_written_before_the_end() {
        let (stream, written) = alone(usize::MAX);
        stream.append(b"a");
        assert_eq!(written.recv().unwrap(), b"a");
        stream.append(b"b");
        assert_eq!(written.recv().unwrap(), b"b");
        stream.end(Vec::new()).unwrap();
    }

    #[test]
    fn data_beyond_the_queue_limit_is_written() {
        let (stream, written) = alone(usize::MAX);
        for _ in 0..5 {
            stream.append(&vec![b'x'; MOST]);
        }
        stream.end(Vec::new()).unwrap();
        assert_eq!(written.iter().map(|portion| portion.len()).sum::<usize>(), 5 * MOST);
    }

    #[test]
    fn files_are_independent() {
        let writer = Rc::default();
        let (a, in_a) = stream(&writer, usize::MAX);
        let (b, in_b) = stream(&writer, usize::MAX);
        a.append(b"a");
        b.append(b"b");
        a.append(b"A");
        a.end(Vec::new()).unwrap();
        b.append(b"B");
        b.end(Vec::new()).unwrap();
        assert_eq!([in_a, in_b].map(|file| file.iter().flatten().collect::<Vec<u8>>()), [b"aA", b"bB"]);
    }

    #[test]
    fn dropped_streams_are_written() {
        let (stream, written) = alone(usize::MAX);
        stream.append(b"a");
        drop(stream);
        assert_eq!(written.iter().flatten().collect::<Vec<u8>>(), b"a", "and the writer has ended");
        let writer = Rc::default();
        let (first, written) = self::stream(&writer, usize::MAX);
        first.append(b"b");
        drop(first);
        assert_eq!(written.iter().flatten().collect::<Vec<u8>>(), b"b", "and its file was closed");
    }

    #[test]
    fn a_full_disk_ends_only_its_stream() {
        let writer = Rc::default();
        let (full, written) = stream(&writer, MOST);
        let (other, in_other) = stream(&writer, usize::MAX);
        for _ in 0..5 {
            full.append(&vec![b'x'; MOST]);
        }
        let (done, is_done) = mpsc::channel();
        let ended = full.end(vec![Box::new(move || done.send(()).map_err(io::Error::other))]);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(is_done.recv().is_ok(), "what is last is done all the same");
        assert!(written.iter().count() <= 1);
        other.append(b"a");
        other.end(Vec::new()).unwrap();
        assert_eq!(in_other.iter().flatten().collect::<Vec<u8>>(), b"a");
    }

    #[test]
    fn open_errors_are_returned_at_the_end() {
        let open = || Err::<Vec<u8>, _>(io::ErrorKind::PermissionDenied.into());
        let stream = Rc::<Writer>::default().begin(open).unwrap();
        stream.append(b"a");
        assert_eq!(stream.end(Vec::new()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_first_error_is_returned() {
        let (stream, _) = alone(usize::MAX);
        let fail = |kind: io::ErrorKind| -> Last { Box::new(move || Err(kind.into())) };
        let last = vec![fail(io::ErrorKind::StorageFull), fail(io::ErrorKind::NotFound)];
        assert_eq!(stream.end(last).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
