//! What a finished build of the tree would have left: `.ninja_log` of versions 5 and 7, `.ninja_deps`, and n2's database.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::compiler;
use crate::hashes::{murmur64a, rapidhash};

/// The mtime of sources and headers, in seconds.
pub const SOURCE_TIME: u64 = 1_600_000_000;
/// The mtime of outputs, in seconds.
pub const OUTPUT_TIME: u64 = 1_700_000_000;

const OUTPUT_NS: u64 = OUTPUT_TIME * 1_000_000_000;
const BUFFER: usize = 4 << 20;

/// The entry manifests and the build directories that they name: each engine has its own, so that none disturbs another.
const ENTRIES: [(&str, &str); 6] = [
    ("build-v5", "v5"),
    ("build-v7", "v7"),
    ("build-n2", "n2"),
    ("build-siso", "siso"),
    ("build-x", "x"),
    ("build", "0"),
];

/// Writes the entry manifests, which differ only in `builddir`.
pub fn write_entries(dir: &Path, body: &str) -> Result<()> {
    for (name, build) in ENTRIES {
        fs::write(dir.join(format!("{name}.ninja")), format!("builddir = .b/{build}\n{body}"))?;
    }
    Ok(())
}

/// A build step that has run.
pub struct Edge<'a> {
    pub outputs: &'a [String],
    /// Explicit and implicit inputs; `true` marks the output of another edge.
    pub inputs: &'a [(String, bool)],
    pub command: &'a str,
    /// Path and content.
    pub rspfile: Option<(String, String)>,
    /// Numbers of the headers that were read.
    pub headers: Option<&'a [u32]>,
}

impl Edge<'_> {
    /// The text that ninja's log hashes.
    fn hashed(&self) -> String {
        match &self.rspfile {
            Some((_, content)) => format!("{};rspfile={content}", self.command),
            None => self.command.to_owned(),
        }
    }
}

/// All logs of a tree.
pub struct State {
    v5: BufWriter<File>,
    v7: BufWriter<File>,
    deps: DepsLog,
    n2: N2Database,
    /// Paths of the headers, by number.
    pub headers: Vec<String>,
    clock: u64,
    pub edges: u64,
}

impl State {
    /// Creates the logs in `dir`, which know this many headers.
    pub fn create(dir: &Path, prefix: &str, headers: u64) -> Result<State> {
        for (_, build) in ENTRIES {
            fs::create_dir_all(dir.join(build))?;
        }
        let mut state = State {
            v5: create(&dir.join("v5/.ninja_log"))?,
            v7: create(&dir.join("v7/.ninja_log"))?,
            deps: DepsLog::create(&dir.join("v5/.ninja_deps"))?,
            n2: N2Database::create(&dir.join("n2/.n2_db"))?,
            headers: (0..headers).map(|number| compiler::header_path(prefix, number)).collect(),
            clock: 0,
            edges: 0,
        };
        state.v5.write_all(b"# ninja log v5\n")?;
        state.v7.write_all(b"# ninja log v7\n")?;
        for header in &state.headers {
            state.deps.path(header)?;
            state.n2.path(header)?;
        }
        Ok(state)
    }

    /// Records that the edge has run.
    pub fn record(&mut self, edge: &Edge<'_>) -> Result<()> {
        self.edges += 1;
        let command = edge.hashed();
        let (hash5, hash7) = (murmur64a(command.as_bytes()), rapidhash(command.as_bytes()));
        self.clock += 3;
        let (start, end) = (self.clock, self.clock + 40 + hash5 % 4000);
        for output in edge.outputs {
            writeln!(self.v5, "{start}\t{end}\t{OUTPUT_NS}\t{output}\t{hash5:x}")?;
            writeln!(self.v7, "{start}\t{end}\t{OUTPUT_NS}\t{output}\t{hash7:x}")?;
        }
        if let Some(headers) = edge.headers {
            let output = self.deps.path(&edge.outputs[0])?;
            self.deps.record(output, headers)?;
        }
        self.n2.record(edge, &self.headers)
    }

    /// Writes what is still in memory; version 7 gets a copy of the deps log.
    pub fn finish(mut self, dir: &Path) -> Result<()> {
        self.v5.flush()?;
        self.v7.flush()?;
        self.deps.file.flush()?;
        self.n2.file.flush()?;
        fs::copy(dir.join("v5/.ninja_deps"), dir.join("v7/.ninja_deps")).map(|_| ())
    }
}

pub fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(BUFFER, File::create(path)?))
}

/// `.ninja_deps`, version 4.
struct DepsLog {
    file: BufWriter<File>,
    next: u32,
}

impl DepsLog {
    fn create(path: &Path) -> Result<DepsLog> {
        let mut file = create(path)?;
        file.write_all(b"# ninjadeps\n")?;
        file.write_all(&4_u32.to_le_bytes())?;
        Ok(DepsLog { file, next: 0 })
    }

    fn path(&mut self, path: &str) -> Result<u32> {
        let padding = (4 - path.len() % 4) % 4;
        self.file.write_all(&((path.len() + padding + 4) as u32).to_le_bytes())?;
        self.file.write_all(path.as_bytes())?;
        self.file.write_all(&[0; 3][..padding])?;
        self.file.write_all(&(!self.next).to_le_bytes())?;
        self.next += 1;
        Ok(self.next - 1)
    }

    fn record(&mut self, output: u32, headers: &[u32]) -> Result<()> {
        let size = (4 * (3 + headers.len())) as u32 | 0x8000_0000;
        self.file.write_all(&size.to_le_bytes())?;
        self.file.write_all(&output.to_le_bytes())?;
        self.file.write_all(&OUTPUT_NS.to_le_bytes())?;
        let ids: Vec<u8> = headers.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.file.write_all(&ids)
    }
}

/// As n2 hashes a response file.
#[derive(Hash)]
struct RspFile {
    path: PathBuf,
    content: String,
}

/// `.n2_db`, version 1: paths, and for each build a hash of names, times, command and response file.
struct N2Database {
    file: BufWriter<File>,
    next: u32,
    source_time: SystemTime,
    output_time: SystemTime,
}

/// Ends each part of an n2 hash.
const SEPARATOR: u8 = 0x1f;

impl N2Database {
    fn create(path: &Path) -> Result<N2Database> {
        let mut file = create(path)?;
        file.write_all(b"n2db")?;
        file.write_all(&1_u32.to_le_bytes())?;
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        Ok(N2Database { file, next: 0, source_time: time(SOURCE_TIME), output_time: time(OUTPUT_TIME) })
    }

    fn path(&mut self, path: &str) -> Result<u32> {
        self.file.write_all(&(path.len() as u16).to_le_bytes())?;
        self.file.write_all(path.as_bytes())?;
        self.next += 1;
        Ok(self.next - 1)
    }

    fn record(&mut self, edge: &Edge<'_>, headers: &[String]) -> Result<()> {
        let mut outputs = Vec::new();
        for output in edge.outputs {
            outputs.push(self.path(output)?);
        }
        self.file.write_all(&(outputs.len() as u16 | 0x8000).to_le_bytes())?;
        self.ids(&outputs)?;
        let read = edge.headers.unwrap_or_default();
        self.file.write_all(&(read.len() as u16).to_le_bytes())?;
        self.ids(read)?;
        self.file.write_all(&self.hash(edge, headers).to_le_bytes())
    }

    fn ids(&mut self, ids: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes().into_iter().take(3)).collect();
        self.file.write_all(&bytes)
    }

    fn hash(&self, edge: &Edge<'_>, headers: &[String]) -> u64 {
        let mut hash = DefaultHasher::new();
        for (path, is_output) in edge.inputs {
            path.as_str().hash(&mut hash);
            let time = if *is_output { self.output_time } else { self.source_time };
            time.hash(&mut hash);
        }
        hash.write_u8(SEPARATOR);
        for &header in edge.headers.unwrap_or_default() {
            headers[header as usize].as_str().hash(&mut hash);
            self.source_time.hash(&mut hash);
        }
        hash.write_u8(SEPARATOR);
        edge.command.hash(&mut hash);
        hash.write_u8(SEPARATOR);
        if let Some((path, content)) = &edge.rspfile {
            RspFile { path: PathBuf::from(path), content: content.clone() }.hash(&mut hash);
        }
        for output in edge.outputs {
            output.as_str().hash(&mut hash);
            self.output_time.hash(&mut hash);
        }
        hash.write_u8(SEPARATOR);
        hash.finish()
    }
}
