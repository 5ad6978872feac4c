//! Independent parsers of ninja's logs, which show them without times.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The precision for comparing times in logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Only whether there is a time.
    Any,
    /// Only whether it is later than the output's: a command may or may not write within one clock tick.
    Loose,
    /// Before, equal or after: the case waits for clock ticks where it matters.
    Exact,
}

/// A line of `.ninja_log`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Milliseconds after the program's start.
    pub start: i64,
    /// Milliseconds after the program's start.
    pub end: i64,
    /// Nanoseconds.
    pub mtime: i64,
    pub output: String,
    /// Hexadecimal.
    pub hash: String,
}

/// A whole `.ninja_log`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NinjaLog {
    /// The first line.
    pub head: String,
    /// All records in file order.
    pub records: Vec<Record>,
    /// Malformed lines.
    pub odd: Vec<String>,
}

impl NinjaLog {
    pub fn parse(bytes: &[u8]) -> NinjaLog {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split_inclusive('\n');
        let head = lines.next().unwrap_or("").to_owned();
        let mut log = NinjaLog { head, ..NinjaLog::default() };
        for line in lines {
            match record(line) {
                Some(record) => log.records.push(record),
                None => log.odd.push(line.to_owned()),
            }
        }
        log
    }

    pub fn last(&self, output: &str) -> Option<&Record> {
        self.records.iter().rev().find(|r| r.output == output)
    }

    /// The parts that must be equal: header, outputs, hashes, number of records, and the relation of each time to its
    /// output's.
    pub fn show(&self, root: &Path, times: Times) -> String {
        let mut lines: Vec<String> = (0..self.records.len()).map(|at| self.show_record(at, root, times)).collect();
        lines.sort();
        // Digits are replaced, since they may be times.
        let odd: Vec<String> = self.odd.iter().map(|line| line.replace(|c: char| c.is_ascii_digit(), "")).collect();
        let good = self.records.iter().all(|r| 0 <= r.start && r.start <= r.end);
        format!("{}{}\nodd {:?}, times {}", self.head, lines.join("\n"), odd, if good { "good" } else { "BAD" })
    }

    fn show_record(&self, at: usize, root: &Path, times: Times) -> String {
        let r = &self.records[at];
        let is_last = self.records[at + 1..].iter().all(|later| later.output != r.output);
        let when = if is_last { relation(r.mtime, root, &r.output, times) } else { "superseded" };
        format!("  {} {} {when}", r.output, r.hash)
    }
}

fn record(line: &str) -> Option<Record> {
    let fields: Vec<&str> = line.strip_suffix('\n')?.split('\t').collect();
    let [start, end, mtime, output, hash] = fields[..] else { return None };
    let number = |text: &str| text.parse::<i64>().ok();
    Some(Record {
        start: number(start)?,
        end: number(end)?,
        mtime: number(mtime)?,
        output: output.to_owned(),
        hash: hash.to_owned(),
    })
}

/// The relation of a logged time to the file's.
fn relation(mtime: i64, root: &Path, output: &str, times: Times) -> &'static str {
    let Ok(meta) = fs::metadata(root.join(output)) else {
        return if mtime == 0 { "zero, no file" } else { "no file" };
    };
    let file = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    match mtime.cmp(&file) {
        _ if mtime == 0 => "zero",
        _ if times == Times::Any => "some time",
        std::cmp::Ordering::Greater => "after its file",
        std::cmp::Ordering::Equal if times == Times::Exact => "its file's",
        std::cmp::Ordering::Less if times == Times::Exact => "before its file",
        _ => "not after its file",
    }
}

/// A whole `.ninja_deps`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DepsLog {
    /// 0 for an invalid header.
    pub version: u32,
    /// By id.
    pub paths: Vec<String>,
    /// Output, mtime and inputs of all records in file order.
    pub deps: Vec<(String, i64, Vec<String>)>,
    /// The number of unreadable bytes, and the reason.
    pub odd: Option<String>,
}

const HEAD: &[u8] = b"# ninjadeps\n";

impl DepsLog {
    pub fn parse(bytes: &[u8]) -> DepsLog {
        let mut log = DepsLog::default();
        let Some(rest) = bytes.strip_prefix(HEAD).filter(|rest| rest.len() >= 4) else {
            log.odd = Some(format!("bad head of {} bytes", bytes.len()));
            return log;
        };
        log.version = word(rest, 0);
        let mut rest = &rest[4..];
        while rest.len() >= 4 {
            let size = (word(rest, 0) & 0x7fff_ffff) as usize;
            if rest.len() < 4 + size || !log.take(&rest[4..4 + size], word(rest, 0) >> 31 == 1) {
                break;
            }
            rest = &rest[4 + size..];
        }
        if !rest.is_empty() {
            log.odd = Some(format!("{} bytes at the end", rest.len()));
        }
        log
    }

    fn take(&mut self, body: &[u8], is_deps: bool) -> bool {
        if !body.len().is_multiple_of(4) || body.len() < 4 {
            return false;
        }
        if is_deps { self.take_deps(body) } else { self.take_path(body) }
    }

    fn take_path(&mut self, body: &[u8]) -> bool {
        let (name, check) = body.split_at(body.len() - 4);
        let end = name.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        self.paths.push(String::from_utf8_lossy(&name[..end]).into_owned());
        word(check, 0) == !(self.paths.len() as u32 - 1)
    }

    fn take_deps(&mut self, body: &[u8]) -> bool {
        let path = |at: usize| self.paths.get(word(body, at) as usize).cloned();
        let inputs: Option<Vec<String>> = (12..body.len()).step_by(4).map(path).collect();
        let (Some(output), Some(inputs)) = (path(0), inputs) else { return false };
        let mtime = u64::from(word(body, 4)) | u64::from(word(body, 8)) << 32;
        self.deps.push((output, mtime as i64, inputs));
        true
    }

    /// The parts that must be equal: the records, and whether each mtime is its output's.
    pub fn show(&self, root: &Path) -> String {
        let show = |(output, mtime, inputs): &(String, i64, Vec<String>)| {
            format!("  {output} <- {} {}", inputs.join(" "), relation(*mtime, root, output, Times::Exact))
        };
        let mut lines: Vec<String> = self.deps.iter().map(show).collect();
        lines.sort();
        let mut paths = self.paths.clone();
        paths.sort();
        format!("v{} {paths:?}\n{}\nodd {:?}", self.version, lines.join("\n"), self.odd)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
