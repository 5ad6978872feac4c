//! Threads that write results: into the build directory on hits, into the cache on misses. They own no state of the build.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tanto_cas::{BlobInfo, Digest, FileDigest, RecentDigests};
use tanto_exec::job::{Cost, JobId};
use tanto_sys::fs::file;
use tanto_sys::fs::fingerprint::FileSystems;
use tanto_sys::fs::stat::stat;
use tanto_sys::ipc::event_fd::EventFd;

use crate::action::Fallback;
use crate::cache_dir::{CacheDir, MAX_BLOB_BYTES};
use crate::entry::{ActionFile, ActionResult, Entry, StoredOutput};
use crate::input_names::PackedList;
use crate::places::Places;
use crate::recorded_inputs::NotStored;
use crate::restore::{Restoration, Restored, Written};

/// More threads than this wait for the disk.
const MAX_THREADS: usize = 8;

/// The result of a run, to be stored.
pub(crate) struct NewResult {
    pub(crate) key: Digest,
    /// Keys that hide fewer places.
    pub(crate) fallbacks: Vec<Fallback>,
    /// Keys that hide more places, and must not be used.
    pub(crate) refused_keys: Vec<Digest>,
    pub(crate) list: PackedList,
    pub(crate) inputs: Digest,
    pub(crate) places: Places,
    pub(crate) needs_absent_outputs: bool,
    /// The permissions that new files do not get, if outputs may have others.
    pub(crate) mask: Option<u32>,
    /// Relative to the working directory.
    pub(crate) outputs: Vec<Vec<u8>>,
    pub(crate) depfile: Option<Vec<u8>>,
    /// The printed text.
    pub(crate) text: Vec<u8>,
    pub(crate) cost: Cost,
}

enum Work {
    Restore(JobId, Box<Restoration>),
    Store(JobId, Box<NewResult>),
}

/// Finished work of a thread.
pub(crate) enum Done {
    /// `None`: nothing was written, and the command has to run.
    Restored(JobId, Option<Restored>),
    /// The size of the blobs, in bytes.
    Stored(JobId, Result<u64, NotStored>),
}

pub(crate) struct Workers {
    work: Option<Sender<Work>>,
    done: Receiver<Done>,
    /// Readable when there may be something in `done`.
    event: Arc<EventFd>,
    threads: Vec<JoinHandle<()>>,
}

impl NewResult {
    /// Returns whether another checkout cannot use it although the command looked so.
    pub(crate) fn turned_out_to_depend_on_root(&self) -> bool {
        !self.refused_keys.is_empty() && self.places.root().is_none()
    }
}

impl Workers {
    /// Starts threads. Signals must be blocked.
    pub(crate) fn start(
        dir: &Arc<CacheDir>,
        event: EventFd,
        recent: RecentDigests,
        cpus: usize,
    ) -> io::Result<Workers> {
        let (work, queue) = mpsc::channel();
        let (results, done) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let event = Arc::new(event);
        let written = Arc::new(Written { systems: FileSystems::default(), recent });
        let mut threads = Vec::new();
        for _ in 0..cpus.clamp(1, MAX_THREADS) {
            let (dir, queue, results) = (Arc::clone(dir), Arc::clone(&queue), results.clone());
            let (event, written) = (Arc::clone(&event), Arc::clone(&written));
            let thread = thread::Builder::new().name("cache".into());
            threads.push(thread.spawn(move || serve(&dir, &queue, &results, &event, &written))?);
        }
        Ok(Workers { work: Some(work), done, event, threads })
    }

    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    pub(crate) fn restore(&self, job: JobId, restoration: Restoration) {
        self.send(Work::Restore(job, Box::new(restoration)));
    }

    pub(crate) fn store(&self, job: JobId, new: NewResult) {
        self.send(Work::Store(job, Box::new(new)));
    }

    fn send(&self, work: Work) {
        // The threads end only when this is dropped.
        if let Some(to) = &self.work {
            let _ = to.send(work);
        }
    }

    pub(crate) fn try_next(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// Waits for the next result.
    pub(crate) fn wait(&self) -> Option<Done> {
        self.done.recv().ok()
    }

    /// Waits until all work is done.
    pub(crate) fn finish(mut self) {
        self.work = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn serve(dir: &CacheDir, queue: &Mutex<Receiver<Work>>, results: &Sender<Done>, event: &EventFd, written: &Written) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let done = match next {
            Err(_) => return,
            Ok(Work::Restore(job, restoration)) => Done::Restored(job, restoration.run(dir, written)),
            Ok(Work::Store(job, new)) => Done::Stored(job, store(dir, &new, &written.systems)),
        };
        if results.send(done).is_err() {
            return;
        }
        event.wake();
    }
}

/// Stores a result. No dependent of the command runs yet, so nothing changes its output meanwhile. Returns the size of the
/// blobs, in bytes.
fn store(dir: &CacheDir, new: &NewResult, systems: &FileSystems) -> Result<u64, NotStored> {
    let failed = |error: &dyn ToString| NotStored::Io(error.to_string());
    let depfile = new.depfile.as_ref().map(|path| fs::read(file::path(path))).transpose();
    let depfile = depfile.map_err(|_| NotStored::Output)?;
    let mut outputs = Vec::new();
    let mut size = 0;
    for path in &new.outputs {
        let (output, bytes) = store_output(dir, file::path(path), new.mask, systems)?;
        outputs.push(output);
        size += bytes;
    }
    let refuse = |key: &Digest| {
        let action = ActionFile { depends_on_place: true, ..dir.read_action(key) };
        dir.write_action(key, &action).map_err(|error| failed(&error))
    };
    let texts = |places: &Places| {
        let depfile = depfile.as_deref().map_or(Some(None), |text| places.hide_in_text(text).map(Some));
        depfile
            .zip(places.hide_in_text(&new.text))
            .filter(|_| !new.outputs.iter().any(|output| has_place(file::path(output), places)))
    };
    let Some((depfile, text)) = texts(&new.places) else {
        if new.places.are_none() {
            return Err(NotStored::ControlCharacter);
        }
        // The next run uses the first key without these places.
        refuse(&new.key)?;
        let others = new.fallbacks.iter().filter(|other| !other.places.are_none() && texts(&other.places).is_none());
        others.map(|other| &other.key).try_for_each(refuse)?;
        return Err(NotStored::DependsOnPlace);
    };
    new.refused_keys.iter().try_for_each(refuse)?;
    let size = size + [depfile.as_ref(), Some(&text)].into_iter().flatten().map(|text| text.len() as u64).sum::<u64>();
    let put = |content: Vec<u8>| dir.put(&content).map_err(|error| failed(&error));
    let text = if text.is_empty() { None } else { Some(put(text)?) };
    let result = ActionResult { outputs, depfile: depfile.map(put).transpose()?, text, cost: new.cost };
    let mut action = dir.read_action(&new.key);
    let needs_absent_outputs = new.needs_absent_outputs;
    action.insert(Entry { list: new.list.clone(), inputs: new.inputs, needs_absent_outputs, result });
    dir.write_action(&new.key, &action).map_err(|error| failed(&error))?;
    Ok(size)
}

/// Returns the output and its size.
fn store_output(
    dir: &CacheDir,
    path: &Path,
    mask: Option<u32>,
    systems: &FileSystems,
) -> Result<(StoredOutput, u64), NotStored> {
    let data = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).ok_or(NotStored::Output)?;
    let is_usual = |mask: u32| [0o666 & !mask, 0o777 & !mask].contains(&(data.mode() & 0o7777));
    if !mask.is_none_or(is_usual) {
        return Err(NotStored::Permissions);
    }
    if data.len() > MAX_BLOB_BYTES {
        return Err(NotStored::OutputTooLong);
    }
    let changed = || NotStored::Changed(path.as_os_str().as_bytes().to_vec());
    let found = FileDigest::of(path, systems).ok().flatten().ok_or_else(changed)?;
    let BlobInfo { digest: blob, size } = dir.put_file(path).map_err(|error| NotStored::Io(error.to_string()))?;
    // Both digests are those of the same content.
    if stat(path.as_os_str().as_bytes()).ok().flatten() != Some(found.stat) {
        return Err(changed());
    }
    Ok((StoredOutput { blob, content: found.digest, is_executable: data.mode() & 0o111 != 0 }, size))
}

/// Returns whether a hidden path is in an output that should not depend on it. Compressed sections and wide characters hide it, so
/// this is only a second check, after that of the options.
fn has_place(path: &Path, places: &Places) -> bool {
    !places.are_none() && fs::read(path).map_or(true, |content| places.are_in(&content))
}
