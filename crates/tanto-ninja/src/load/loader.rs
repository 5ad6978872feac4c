//! Reads and parses manifests on several threads: chunks of a file in parallel, and included files as soon as their
//! names are known.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Scope};

use super::chunk::{Chunk, ChunkParser, StatementKind, parts};
use super::{LoadOptions, MAX_MANIFEST_BYTES};
use crate::disk::{Disk, Source};
use crate::hash::Map;
use crate::paths::Interner;

pub(super) struct File {
    pub(super) path: Vec<u8>,
    /// The error if the file could not be read.
    pub(super) source: io::Result<Arc<Source>>,
    pub(super) chunks: Vec<Chunk>,
    /// Whether evaluation has reached the file.
    pub(super) used: bool,
}

impl File {
    /// Returns the end of the text: the first NUL, as in ninja, or its length.
    pub(super) fn end(&self) -> usize {
        let text = self.source.as_ref().map_or(&[][..], |source| source.bytes());
        let last = self.chunks.iter().find_map(|chunk| chunk.nul.or(chunk.broken));
        // The statement may be broken by a NUL.
        let nul = last.and_then(|at| Some(at as usize + memchr::memchr(0, text.get(at as usize..)?)?));
        nul.unwrap_or(text.len())
    }
}

enum Task {
    /// Open this file and split it.
    Open(usize, Vec<u8>),
    /// Parse a part: file number, chunk number, text, range.
    Read(usize, usize, Arc<Source>, Range<usize>),
}

/// Assumed size of a file that is not open yet, in bytes.
const UNOPENED_WEIGHT: usize = 16 << 10;

impl Task {
    fn weight(&self) -> usize {
        match self {
            Task::Open(..) => UNOPENED_WEIGHT,
            Task::Read(.., part) => part.len(),
        }
    }
}

#[derive(Default)]
struct State {
    files: Vec<Option<File>>,
    by_path: Map<Vec<u8>, usize>,
    tasks: VecDeque<Task>,
    /// Sum of the weights of `tasks`.
    waiting: usize,
    /// Number of running tasks, which may add more.
    busy: usize,
    threads: usize,
    /// Largest value of `threads` so far.
    max_threads: usize,
}

impl State {
    fn add(&mut self, task: Task) {
        self.waiting += task.weight();
        self.tasks.push_back(task);
    }

    /// Returns the number of a file; schedules reading of a new one.
    fn number(&mut self, path: &[u8]) -> usize {
        if let Some(&number) = self.by_path.get(path) {
            return number;
        }
        let number = self.files.len();
        self.files.push(None);
        self.by_path.insert(path.into(), number);
        self.add(Task::Open(number, path.into()));
        number
    }
}

pub(super) struct Loader<'c> {
    disk: &'c dyn Disk,
    interner: &'c Interner,
    options: LoadOptions,
    /// Maximum number of threads.
    max_threads: OnceLock<usize>,
    /// Parse text early that may turn out not to belong to the manifests.
    pub(super) speculative: bool,
    state: Mutex<State>,
    changed: Condvar,
}

impl<'c> Loader<'c> {
    pub(super) fn new(disk: &'c dyn Disk, interner: &'c Interner, options: LoadOptions, speculative: bool) -> Self {
        Loader {
            disk,
            interner,
            options,
            max_threads: OnceLock::new(),
            speculative,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Reads files and everything they include by names without variables, and waits for the end. Returns the number
    /// of the first file.
    pub(super) fn read(&self, paths: &[Vec<u8>]) -> usize {
        let mut state = self.lock();
        let numbers: Vec<usize> = paths.iter().map(|path| state.number(path)).collect();
        state.threads = 1;
        drop(state);
        thread::scope(|scope| self.work(scope));
        numbers[0]
    }

    pub(super) fn number(&mut self, path: &[u8]) -> Option<usize> {
        self.state().by_path.get(path).copied()
    }

    pub(super) fn file(&mut self, number: usize) -> &mut File {
        self.state().files[number].as_mut().expect("it was read")
    }

    /// Number of threads that were worth their cost.
    pub(super) fn threads(&mut self) -> usize {
        self.state().max_threads.max(1)
    }

    /// Returns true if anything was parsed that does not belong to the manifests. Its paths are already nodes.
    pub(super) fn has_unused(&mut self) -> bool {
        let is_unused = |file: &File| {
            let end = file.chunks.iter().position(|chunk| chunk.nul.is_some());
            !file.used || end.is_some_and(|end| end + 1 < file.chunks.len())
        };
        self.state().files.iter().flatten().any(is_unused)
    }

    pub(super) fn into_files(self) -> Vec<File> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.files.into_iter().map(|file| file.expect("it was read")).collect()
    }

    fn state(&mut self) -> &mut State {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let _guard = PanicGuard(self);
        let mut parser = ChunkParser::new(self.interner);
        while let Some(task) = self.next() {
            match task {
                Task::Open(number, path) => self.open(number, path, &mut parser),
                Task::Read(number, at, source, part) => {
                    let chunk = parser.read(number as u32, source.bytes(), part.clone());
                    source.release(part);
                    self.finish_chunk(number, at, chunk);
                }
            }
            self.add_thread(scope);
        }
        self.changed.notify_all();
    }

    /// Returns the next task; blocks while other tasks may add some. `None` when all is done.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                state.waiting -= task.weight();
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, number: usize, path: Vec<u8>, parser: &mut ChunkParser<'_>) {
        let source = self.disk.open(&path, MAX_MANIFEST_BYTES).map(Arc::new);
        let cut = |source: &Arc<Source>| match self.speculative {
            true => parts(source.bytes(), self.options.parallel.chunk_size),
            false => std::iter::once(0..source.bytes().len()).collect(),
        };
        let parts = source.as_ref().map_or_else(|_| Vec::new(), cut);
        let chunks = parts.iter().map(|_| Chunk::default()).collect();
        let opened = source.as_ref().ok().map(Arc::clone);
        let mut state = self.lock();
        state.files[number] = Some(File { path, source, chunks, used: false });
        match (opened, parts.as_slice()) {
            (Some(source), [part]) => {
                drop(state);
                let chunk = parser.read(number as u32, source.bytes(), part.clone());
                self.finish_chunk(number, 0, chunk);
            }
            (source, parts) => {
                for (at, part) in parts.iter().enumerate() {
                    state.add(Task::Read(number, at, Arc::clone(source.as_ref().expect("it has parts")), part.clone()));
                }
                self.finish_task(state);
            }
        }
    }

    fn finish_chunk(&self, number: usize, at: usize, chunk: Chunk) {
        let mut state = self.lock();
        for statement in &chunk.statements {
            if let StatementKind::Include { path: Some(path) } = &statement.kind {
                state.number(chunk.text(path));
            }
        }
        if let Some(file) = &mut state.files[number] {
            file.chunks[at] = chunk;
        }
        self.finish_task(state);
    }

    fn finish_task(&self, mut state: MutexGuard<'_, State>) {
        state.busy -= 1;
        if state.threads > 1 {
            self.changed.notify_all();
        }
    }

    /// Starts another thread if there is enough work. Continues without it if that fails, for example because of a
    /// process limit.
    fn add_thread<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let mut state = self.lock();
        let is_worth_it = state.waiting >= state.threads.saturating_mul(self.options.parallel.bytes_per_thread);
        if is_worth_it && state.threads < *self.max_threads.get_or_init(|| self.options.max_threads()) {
            let started = thread::Builder::new().spawn_scoped(scope, move || self.work(scope));
            state.threads += usize::from(started.is_ok());
            state.max_threads = state.max_threads.max(state.threads);
        }
    }
}

/// On a panic in a test, accounts for the unfinished task, so that other threads do not wait for it.
struct PanicGuard<'a, 'c>(&'a Loader<'c>);

impl Drop for PanicGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut state = self.0.lock();
            state.busy = state.busy.saturating_sub(1);
            self.0.changed.notify_all();
        }
    }
}
