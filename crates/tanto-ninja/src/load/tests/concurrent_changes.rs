//! Manifests that change while they are read: the result is one of their states or an error.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, SystemTime};

use tanto_sys::memory::map::MIN_MAPPED_SIZE;
use tanto_testing::{Random, Scratch};

use crate::disk::{Disk, Mtime, RealDisk, Source};
use crate::error::Error;
use crate::graph::{Arena, Escape, Graph};
use crate::ids::EdgeId;
use crate::load::{LoadOptions, MAX_ATTEMPTS, ParallelOptions, load};

/// Length of an edge's text in bytes.
const EDGE: usize = 45;

/// Edges in a manifest that is large enough to be mapped.
const EDGES: usize = MIN_MAPPED_SIZE as usize / EDGE + 1;

/// Small enough for several threads.
const FINE: ParallelOptions =
    ParallelOptions { chunk_size: 50_000, bytes_per_thread: 10_000, max_threads: Some(4), speculative: true };

/// A manifest of many edges. Any sequence of whole blocks of the texts of two letters is a manifest too.
fn text(letter: char) -> Vec<u8> {
    let edge = |number| format!("build {letter}{number:08}: phony x{letter}\n  name = {letter}{number:08}\n");
    let text = (0..EDGES).map(edge).collect::<String>().into_bytes();
    assert_eq!(text.len(), EDGES * EDGE);
    text
}

/// Returns the letter whose text the graph was loaded from; more if it is a mixture.
fn letters(graph: &Graph<'_>) -> String {
    let letters: BTreeSet<String> = graph.edge_ids().map(|id| letter(graph, id)).collect();
    letters.into_iter().collect::<Vec<_>>().join("; ")
}

fn letter(graph: &Graph<'_>, id: EdgeId) -> String {
    let edge = graph.edge(id);
    let [outs, ins] = [edge.outs, edge.ins].map(|nodes| nodes.iter().map(|node| graph.path(*node)).collect::<Vec<_>>());
    let is_of = |letter: u8| outs.len() == 1 && outs[0].starts_with(&[letter]) && ins == [&[b'x', letter]];
    let letter = b"ab".iter().find(|letter| is_of(**letter)).map_or('?', |letter| *letter as char);
    // Evaluating all bindings takes too long.
    let is_asked = id.index().is_multiple_of(5000);
    let name = if is_asked { format!("{letter}{:08}", id.index()) } else { String::new() };
    let binding = if is_asked { graph.binding(id, b"name", Escape::None) } else { Ok(Vec::new()) };
    match binding {
        Ok(value) if value == name.as_bytes() => letter.to_string(),
        Ok(value) => format!("{} is not {name}", value.escape_ascii()),
        Err(Error::ManifestChanged { .. }) => letter.to_string(),
        Err(error) => error.to_string(),
    }
}

/// A real disk that calls a function after a file is opened.
struct HookedDisk<F>(F);

impl<F: Fn(&[u8]) + Sync> Disk for HookedDisk<F> {
    fn mtime(&mut self, path: &[u8]) -> io::Result<Mtime> {
        RealDisk.mtime(path)
    }

    fn read(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        RealDisk.read(path)
    }

    fn open(&self, path: &[u8], limit: u64) -> io::Result<Source> {
        let source = RealDisk.open(path, limit);
        (self.0)(path);
        source
    }

    fn write(&mut self, path: &[u8], content: &[u8]) -> io::Result<()> {
        RealDisk.write(path, content)
    }

    fn make_parents(&mut self, path: &[u8]) -> io::Result<()> {
        RealDisk.make_parents(path)
    }

    fn remove(&mut self, path: &[u8]) -> io::Result<bool> {
        RealDisk.remove(path)
    }
}

fn try_load(disk: &dyn Disk, manifest: &[u8]) -> Result<String, String> {
    let arena = Arena::new();
    let options = LoadOptions { parallel: FINE, ..LoadOptions::default() };
    let graph = load(&arena, disk, manifest, options, &mut |_| {});
    graph.map(|graph| letters(&graph)).map_err(|error| error.to_string())
}

/// Loads `build.ninja`, which changes once after it was opened.
fn load_with_change(change: impl Fn(&Path) + Sync) -> Result<String, String> {
    let scratch = Scratch::new("change");
    scratch.write("build.ninja", text('a'));
    let path = scratch.at("build.ninja");
    let is_changed = AtomicBool::new(false);
    let disk = HookedDisk(|_: &[u8]| {
        if !is_changed.swap(true, Ordering::Relaxed) {
            change(&path);
        }
    });
    try_load(&disk, &scratch.bytes("build.ninja"))
}

/// Sets a distinct time in the past.
fn date(file: &File, number: u64) {
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number)).unwrap();
}

/// Writes a file in place and sets its time.
fn write_at(path: &Path, text: &[u8], number: u64) {
    fs::write(path, text).unwrap();
    date(&OpenOptions::new().write(true).open(path).unwrap(), number);
}

#[test]
fn changed_manifest_is_read_again() {
    let is_b = Ok("b".to_owned());
    assert_eq!(load_with_change(|path| write_at(path, &text('b'), 1)), is_b);
    assert_eq!(load_with_change(|path| fs::write(path, b"").unwrap()), Ok(String::new()));
    let replace = |path: &Path| {
        fs::write(path.with_extension("new"), text('b')).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    assert_eq!(load_with_change(replace), is_b);
    let gone = |path: &Path| fs::remove_file(path).unwrap();
    assert!(load_with_change(gone).unwrap_err().ends_with("No such file or directory"));
    let half = EDGE * (EDGES / 2);
    let cut = |path: &Path| OpenOptions::new().write(true).open(path).unwrap().set_len(half as u64).unwrap();
    assert_eq!(load_with_change(cut), Ok("a".to_owned()));
    let spoilt = |path: &Path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
    assert!(load_with_change(spoilt).unwrap_err().contains("expected '=', got eof"));
}

#[test]
fn mixture_of_two_states_is_never_loaded() {
    let scratch = Scratch::new("change");
    scratch.write("build.ninja", text('a'));
    let path = scratch.at("build.ninja");
    let opened = AtomicU64::new(0);
    let disk = HookedDisk(|_: &[u8]| {
        let (count, text) = (opened.fetch_add(1, Ordering::Relaxed), text('b'));
        let half = EDGE * (EDGES / 2);
        let (part, at) = if count == 0 { (&text[half..], half) } else { (&text[..half], 0) };
        if count < 2 {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(part, at as u64).unwrap();
            date(&file, count);
        }
    });
    assert_eq!(try_load(&disk, &scratch.bytes("build.ninja")), Ok("b".to_owned()));
    assert_eq!(opened.into_inner(), 3);
}

#[test]
fn constant_changes_are_an_error() {
    let scratch = Scratch::new("change");
    scratch.write("build.ninja", text('a'));
    let path = scratch.at("build.ninja");
    let opened = AtomicU64::new(0);
    let disk = HookedDisk(|_: &[u8]| {
        let count = opened.fetch_add(1, Ordering::Relaxed);
        write_at(&path, &text(if count.is_multiple_of(2) { 'b' } else { 'a' }), count);
    });
    let error = try_load(&disk, &scratch.bytes("build.ninja")).unwrap_err();
    assert!(error.starts_with("loading '") && error.ends_with("': it changed while it was being read"), "{error}");
    assert_eq!(opened.into_inner(), MAX_ATTEMPTS as u64);
}

/// Changes a file at random.
struct Writer {
    path: PathBuf,
    random: Random,
    texts: [Vec<u8>; 2],
    /// Index of the text written last.
    last: usize,
    /// Number of changes.
    changes: u64,
}

impl Writer {
    fn new(path: PathBuf) -> Self {
        Writer { path, random: Random::new(1), texts: [text('a'), text('b')], last: 0, changes: 0 }
    }

    /// May change the file each time it was opened. At the end, writes the last text.
    fn run(&mut self, opened: Receiver<()>, change: impl Fn(&mut Self)) {
        while opened.recv().is_ok() {
            if self.random.chance(60) {
                self.last = 1 - self.last;
                change(self);
            }
        }
        self.write();
    }

    /// Truncates and rewrites the file.
    fn write(&mut self) {
        fs::write(&self.path, &self.texts[self.last]).unwrap();
        self.date(&self.open());
    }

    fn replace(&mut self) {
        let new = self.path.with_extension("new");
        fs::write(&new, &self.texts[self.last]).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    /// Overwrites the file in place, block by block.
    fn write_over(&mut self) {
        let (file, block) = (self.open(), EDGE * 1024);
        for (number, part) in self.texts[self.last].chunks(block).enumerate() {
            file.write_all_at(part, (number * block) as u64).unwrap();
        }
        self.date(&file);
    }

    /// Truncates the file at random, and may extend it with zeros.
    fn cut(&mut self) {
        let length = self.texts[0].len();
        let (file, cut) = (self.open(), self.random.below(length));
        file.set_len(cut as u64).unwrap();
        if self.random.chance(50) {
            file.set_len(length as u64).unwrap();
        }
        self.date(&file);
    }

    /// Sets a distinct time, independent of the resolution of the file system's clock.
    fn date(&mut self, file: &File) {
        self.changes += 1;
        date(file, self.changes);
    }

    fn open(&self) -> File {
        OpenOptions::new().write(true).open(&self.path).unwrap()
    }
}

/// Loads repeatedly while an included file changes, and once after the last change.
fn while_it_changes(change: impl Fn(&mut Writer) + Send, judge: impl Fn(Result<String, String>)) {
    let scratch = Scratch::new("change");
    scratch.write("inner.ninja", text('a'));
    let path = scratch.at("inner.ninja");
    scratch.write("build.ninja", format!("subninja {}\n", path.display()));
    let manifest = scratch.bytes("build.ninja");
    let mut writer = Writer::new(path);
    let (sender, opened) = mpsc::channel();
    thread::scope(|scope| {
        let writer = &mut writer;
        scope.spawn(move || writer.run(opened, change));
        // Dropped with this closure, also on a panic, which ends the writer.
        let sender = sender;
        let disk = HookedDisk(|path: &[u8]| {
            if path != manifest {
                let _ = sender.send(());
            }
        });
        (0..40).for_each(|_| judge(try_load(&disk, &manifest)));
    });
    assert_eq!(try_load(&RealDisk, &manifest).as_deref(), Ok(["a", "b"][writer.last]));
}

#[test]
fn replaced_manifest_is_loaded_old_or_new() {
    while_it_changes(Writer::replace, |loaded| match loaded {
        Ok(letters) => assert!(["a", "b"].contains(&letters.as_str()), "{letters}"),
        Err(error) => assert!(error.contains("': it changed while it was being read"), "{error}"),
    });
}

/// Intermediate states are not valid. The test only requires that loading ends with a result or an error.
#[test]
fn writing_in_place_is_harmless() {
    let change = |writer: &mut Writer| match writer.random.below(3) {
        0 => writer.write(),
        1 => writer.write_over(),
        _ => writer.cut(),
    };
    while_it_changes(change, |_| {});
}
