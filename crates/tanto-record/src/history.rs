//! Costs of jobs in earlier builds: the file `history` in the state directory, which is mapped for reading and replaced
//! by renaming.
//!
//! A row is found by a hash of the job's first output. Only the order of commands depends on it, so a damaged file is
//! ignored.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytemuck::bytes_of;
use tanto_exec::job::Cost;
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::fs::{file, private_files};
use tanto_sys::memory::map::Map;
use tanto_sys::pod;

/// Identifies the file and its version.
const MAGIC: [u8; 16] = *b"tanto history 1\n";

/// Limit of rows, 24 MiB; the most recent ones are kept. With fewer, the largest trees would lose rows.
const MOST: usize = 1 << 20;

/// A cost is not updated if it changes by less than this fraction: a small build in a large tree should not write a
/// large file.
const ALIKE: u32 = 8;

/// Nor if it changes by less than this, in milliseconds: noise.
const CLOSE_MS: u32 = 20;

/// But the time of the last run is updated this often, in seconds.
const WORTH_NOTING: u32 = 7 * 24 * 60 * 60;

/// Age at which files of killed builds are removed.
const LEFT: Duration = Duration::from_secs(60 * 60);

pod! {
    struct Header {
        magic: [u8; 16],
        count: u64,
        /// Checksum of the rows.
        sum: u64,
    }
    /// A job.
    #[derive(PartialEq, Eq, Debug)]
    struct Row {
        /// Hash of its first output.
        output: u64,
        wall_ms: u32,
        cpu_ms: u32,
        memory_kib: u32,
        /// Time of its last run, in seconds since 1970.
        seen: u32,
    }
}

/// The known costs of jobs.
#[derive(Debug, Default)]
pub struct History {
    /// The valid files, one for each state directory.
    maps: Vec<Map>,
}

impl History {
    /// Opens the history of a build directory; empty if there is no valid one.
    pub fn open(state: &StateDirs) -> History {
        History { maps: state.verified_dirs().filter_map(|top| open(&path(top))).collect() }
    }

    /// Returns the cost of the last run of the job with this first output.
    pub fn cost(&self, output: &[u8]) -> Option<Cost> {
        let output = hash(output);
        let found = self.maps.iter().filter_map(|map| find(rows(map), output));
        let row = found.max_by_key(|row| row.seen)?;
        Some(Cost { wall_ms: row.wall_ms, cpu_ms: row.cpu_ms, memory_kib: row.memory_kib })
    }
}

fn rows(map: &Map) -> &[Row] {
    map.get(size_of::<Header>()..).and_then(|rows| bytemuck::try_cast_slice(rows).ok()).unwrap_or_default()
}

fn find(rows: &[Row], output: u64) -> Option<&Row> {
    Some(&rows[rows.binary_search_by_key(&output, |row| row.output).ok()?])
}

fn path(top: &Path) -> PathBuf {
    top.join("history")
}

fn open(path: &Path) -> Option<Map> {
    let file = private_files::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let most = size_of::<Header>() + MOST * size_of::<Row>();
    if length > most as u64 {
        return None;
    }
    let map = Map::new(&file, length).ok()?;
    let (header, rows) = map.split_at_checked(size_of::<Header>())?;
    let header: Header = bytemuck::pod_read_unaligned(header);
    let is_sound = header.magic == MAGIC
        && header.count.checked_mul(size_of::<Row>() as u64) == Some(rows.len() as u64)
        && header.sum == sum(rows)
        && !map.is_torn();
    is_sound.then_some(map)
}

/// FNV-1a with a final mix. Part of the format.
fn hash(output: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = output.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The checksum of the rows.
fn sum(rows: &[u8]) -> u64 {
    let (words, rest) = rows.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = words.iter().fold(rows.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

/// Costs measured by a build.
#[derive(Debug, Default)]
pub struct NewCosts {
    rows: Vec<Row>,
}

impl NewCosts {
    /// Adds the cost of a job that succeeded.
    pub fn add(&mut self, output: &[u8], cost: Cost) {
        let Cost { wall_ms, cpu_ms, memory_kib } = cost;
        self.rows.push(Row { output: hash(output), wall_ms, cpu_ms, memory_kib, seen: 0 });
    }

    /// Merges the costs into the history, unless all changes are small.
    pub fn save(mut self, state: &StateDirs, now: SystemTime) -> io::Result<()> {
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seen = u32::try_from(seconds).unwrap_or(u32::MAX);
        self.rows.iter_mut().for_each(|row| row.seen = seen);
        let top = state.make()?;
        let path = path(top);
        // The last one of each output counts: the sort is stable.
        self.rows.sort_by_key(|row| row.output);
        self.rows.reverse();
        self.rows.dedup_by_key(|row| row.output);
        self.rows.reverse();
        let old = open(&path);
        let old = old.as_ref().map(rows).unwrap_or_default();
        if self.rows.iter().all(|row| is_known(old, row)) {
            return Ok(());
        }
        let mut rows = merge(old, &self.rows);
        drop_oldest(&mut rows);
        replace(top, &path, &rows)
    }
}

fn is_known(rows: &[Row], new: &Row) -> bool {
    let Some(old) = find(rows, new.output) else { return false };
    let is_alike = |old: u32, new: u32, close: u32| new.abs_diff(old) <= (old / ALIKE).max(close);
    is_alike(old.wall_ms, new.wall_ms, CLOSE_MS)
        && is_alike(old.cpu_ms, new.cpu_ms, CLOSE_MS)
        && is_alike(old.memory_kib, new.memory_kib, 1024)
        && new.seen.saturating_sub(old.seen) < WORTH_NOTING
}

/// Merges two sorted lists; new rows replace old ones.
fn merge(old: &[Row], new: &[Row]) -> Vec<Row> {
    let mut rows = Vec::with_capacity(old.len() + new.len());
    let mut old = old.iter().peekable();
    for row in new {
        while let Some(before) = old.next_if(|it| it.output <= row.output) {
            if before.output != row.output {
                rows.push(*before);
            }
        }
        rows.push(*row);
    }
    rows.extend(old);
    rows
}

fn drop_oldest(rows: &mut Vec<Row>) {
    if rows.len() <= MOST {
        return;
    }
    let mut times: Vec<u32> = rows.iter().map(|row| row.seen).collect();
    times.sort_unstable();
    let oldest = times[rows.len() - MOST];
    rows.retain(|row| row.seen >= oldest);
    // Many can have the same time.
    rows.truncate(MOST);
}

fn replace(top: &Path, path: &Path, rows: &[Row]) -> io::Result<()> {
    if !private_files::is_private_dir(top.parent().unwrap_or(top), top) {
        return Err(io::Error::other("writable by other users"));
    }
    remove_left(top);
    let name = top.join(format!("history.{}.new", std::process::id()));
    let written =
        private_files::create(&name).and_then(|file| write(file, rows)).and_then(|()| fs::rename(&name, path));
    if written.is_err() {
        let _ = fs::remove_file(&name);
    }
    written
}

fn write(mut file: File, rows: &[Row]) -> io::Result<()> {
    let rows: &[u8] = bytemuck::cast_slice(rows);
    if (size_of::<Header>() + rows.len()) as u64 > file::max_file_size() {
        return Err(file::too_large());
    }
    let count = (rows.len() / size_of::<Row>()) as u64;
    file.write_all(bytes_of(&Header { magic: MAGIC, count, sum: sum(rows) }))?;
    file.write_all(rows)
}

/// Removes temporary files of builds that were killed.
fn remove_left(top: &Path) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_one = name.to_str().is_some_and(|name| name.starts_with("history.") && name.ends_with(".new"));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_one && age().is_some_and(|age| age > LEFT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
