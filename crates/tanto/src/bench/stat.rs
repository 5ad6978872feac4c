//! `tanto bench stat`: what it costs to ask for a file's time, by way of asking and number of threads. Writes nothing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use tanto_sys::cpu;
use tanto_sys::stat::{Way, mtimes_by};

use super::files::{FILES, Found, search, thread_counts};
use super::grid::{self, Grid};
use super::output::{Form, Output};
use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Rounds of measurements are begun for so long; where calls take milliseconds, the first ends in twice that time.
const MEASURING: Duration = Duration::from_secs(3);
/// What one measurement may take; on a slow disk fewer files are asked for.
const CELL: Duration = Duration::from_millis(25);
/// With fewer calls in a measurement it is the clock that is measured.
const FEWEST_CALLS: usize = 16;

/// What there is to ask for.
struct Paths {
    files: Vec<Vec<u8>>,
    missing: Vec<Vec<u8>>,
    directories: Vec<Vec<u8>>,
}

/// Nanoseconds of a call, the best of all rounds; `None` where the way is refused, or time was up.
type Cell = Option<f64>;

/// What was measured with some threads.
struct Row {
    threads: usize,
    way: Way,
    /// For files, missing files, directories.
    cells: [Cell; 3],
}

/// What `tanto bench stat` prints for these words.
pub fn run(words: &[Vec<u8>]) -> Stop {
    let forms = &[Form::Text, Form::Json, Form::Csv];
    let printed = match grid::asked(words, forms, "one directory at a time") {
        Ok(Some((path, outputs))) => answer(&path, &outputs),
        Ok(None) => return super::helped("stat"),
        Err(why) => Err(why),
    };
    match printed {
        Ok(text) => Stop::printed(text, 0),
        Err(why) => Stop::failed(Door::Tanto, "error", &why),
    }
}

fn answer(dir: &[u8], outputs: &[Output]) -> Result<Vec<u8>, Vec<u8>> {
    let found = search(dir).map_err(|error| [b"reading ", dir, b": ", &tanto_sys::error::text(&error)[..]].concat())?;
    let (paths, cores) = (Paths::from(found), cpu::count().max(1));
    if paths.files.is_empty() {
        return Err([b"no files in ", dir].concat());
    }
    let (files, directories) = (paths.files.len(), paths.directories.len());
    let head = format!(", all in memory: {files} files and {directories} directories.");
    let mut text = [b"Files in ", dir, head.as_bytes(), b"\n"].concat();
    let rows = measure(&paths, cores);
    text.extend(table(&rows, cores).bytes());
    let title = format!("Asking for times in {}{head}", String::from_utf8_lossy(dir));
    let written = grid(title, &rows).write(outputs, &text)?;
    text.extend(written.bytes());
    Ok(text)
}

fn grid(title: String, rows: &[Row]) -> Grid {
    let row = |row: &Row| grid::Row { threads: row.threads, way: row.way.name(), cells: row.cells.to_vec() };
    let columns = ["file", "missing", "directory"].map(str::to_owned).to_vec();
    Grid { title, unit: "nanoseconds a call", columns, rows: rows.iter().map(row).collect() }
}

impl From<Found> for Paths {
    fn from(found: Found) -> Paths {
        let missing = found.files.iter().map(|path| [path, &b".missing"[..]].concat()).collect();
        Paths { files: found.files, missing, directories: found.directories }
    }
}

/// A row for each number of threads and each way. All are measured in turn, so that a busy moment hits all alike.
fn measure(paths: &Paths, cores: usize) -> Vec<Row> {
    let begun = Instant::now();
    let mut rows: Vec<Row> = thread_counts(cores, &[1, 4])
        .into_iter()
        .flat_map(|threads| Way::ALL.map(|way| Row { threads, way, cells: [None; 3] }))
        .collect();
    let samples = [&paths.files, &paths.missing, &paths.directories].map(|paths| sample(paths));
    while begun.elapsed() < MEASURING {
        for row in &mut rows {
            for (cell, sample) in row.cells.iter_mut().zip(&samples) {
                if begun.elapsed() < 2 * MEASURING {
                    let spent = time(row.way, sample, row.threads);
                    *cell = [*cell, spent].into_iter().flatten().reduce(f64::min);
                }
            }
        }
    }
    rows
}

/// As many calls as fit into the time of a measurement; where there are few files, they come again and again.
fn sample(paths: &[Vec<u8>]) -> Vec<&[u8]> {
    let all = || paths.iter().map(Vec::as_slice).cycle();
    let first: Vec<&[u8]> = all().take(FEWEST_CALLS).collect();
    // Twice: the first time may have to wait for the disk.
    time(Way::BEST, &first, 1);
    let cost = time(Way::BEST, &first, 1).unwrap_or(0.0).max(1.0);
    let fitting = (CELL.as_nanos() as f64 / cost) as usize;
    all().take(fitting.clamp(FEWEST_CALLS, FILES)).collect()
}

/// Nanoseconds of a call; `None` if the way is refused.
fn time(way: Way, paths: &[&[u8]], threads: usize) -> Cell {
    let begun = Instant::now();
    let found = mtimes_by(way, paths, threads);
    let spent = begun.elapsed();
    found.iter().any(Option::is_some).then(|| spent.as_nanos() as f64 / paths.len() as f64)
}

fn table(rows: &[Row], cores: usize) -> String {
    let mut text = "Nanoseconds a call, the best of all rounds:\n\n\
                    threads  call      file  missing  directory\n"
        .to_owned();
    for row in rows {
        let [file, missing, directory] = row.cells.map(|cell| cell.map_or("-".into(), |cell| format!("{cell:.0}")));
        let (threads, way) = (row.threads, row.way.name());
        let _ = writeln!(text, "{threads:>7}  {way:<7}  {file:>5}  {missing:>7}  {directory:>9}");
    }
    text + "\n" + &verdict(rows, cores)
}

/// The winner by what files cost, and how far Tanto's own choice is from it.
fn verdict(rows: &[Row], cores: usize) -> String {
    let cost = |row: &&Row| row.cells[0].unwrap_or(f64::INFINITY);
    let Some(best) = rows.iter().min_by(|one, other| cost(one).total_cmp(&cost(other))) else { return String::new() };
    let with = |row: &Row| {
        let plural = if row.threads == 1 { "" } else { "s" };
        format!("{} on {} thread{plural}", row.way.name(), row.threads)
    };
    let ours =
        rows.iter().find(|row| row.way == Way::BEST && row.threads == cores).filter(|ours| ours.cells[0].is_some());
    match ours {
        Some(ours) if ours.way == best.way && ours.threads == best.threads => {
            format!("The fastest for files is {}, and Tanto's choice.\n", with(best))
        }
        Some(ours) => {
            let factor = cost(&ours) / cost(&best);
            format!(
                "The fastest for files is {}. Tanto's choice, {}, takes {factor:.2} times as long.\n",
                with(best),
                with(ours)
            )
        }
        None => format!("The fastest for files is {}.\n", with(best)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn row(threads: usize, way: Way, file: Cell) -> Row {
        Row { threads, way, cells: [file, Some(1.0), None] }
    }

    #[test]
    fn a_missing_file_stands_beside_each_file() {
        let found = Found { files: vec![b"a/b".to_vec()], directories: vec![b"a".to_vec()] };
        assert_eq!(Paths::from(found).missing, [b"a/b.missing"]);
    }

    #[test]
    fn few_files_are_asked_for_again_and_again() {
        let sample = sample(&[b"/dev".to_vec()]).len();
        assert!((FEWEST_CALLS..=FILES).contains(&sample), "{sample}");
    }

    #[test]
    fn the_winner_is_named() {
        let rows = [row(1, Way::Fstatat, Some(30.0)), row(2, Way::Fstatat, Some(20.0)), row(2, Way::Statx, Some(10.0))];
        let text = table(&rows, 2);
        assert!(text.contains("\n      2  statx       10        1          -\n"), "{text}");
        let words =
            "The fastest for files is statx on 2 threads. Tanto's choice, fstatat on 2 threads, takes 2.00 times";
        assert!(text.contains(words), "{text}");
        assert_eq!(verdict(&rows[..2], 2), "The fastest for files is fstatat on 2 threads, and Tanto's choice.\n");
        assert_eq!(verdict(&rows[..1], 2), "The fastest for files is fstatat on 1 thread.\n");
        assert_eq!(time(Way::BEST, &[b"a\0b"], 1), None);
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        let dir = Scratch::new("bench-none");
        assert!(run(&[dir.bytes("")]).err.starts_with(b"tanto: error: no files in "));
    }
}
