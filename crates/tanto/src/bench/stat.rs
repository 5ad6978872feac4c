//! `tanto bench stat`: what it costs to ask for a file's time, by way of asking and number of threads, and what combinations
//! of calls cost. Writes nothing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use tanto_sys::fs::stat::{Accessor, StatCall, mtimes_by};
use tanto_sys::machine::cpu;

use super::files::{FILES, Found, search, thread_counts};
use super::grid::{self, Grid};
use super::output::{Form, Output};
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use tanto_exec::text::table::right_aligned;

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
    links: Vec<Vec<u8>>,
}

const COLUMNS: [&str; 4] = ["file", "missing", "directory", "symlink"];

/// What is done for each path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// One way to ask for its time.
    Way(StatCall),
    /// A combination of calls for its existence and its attributes.
    Accessor(Accessor),
}

/// Nanoseconds of a call in each round; empty where the call is refused or there is nothing to ask for.
type Cell = Vec<f64>;

/// What was measured with some threads.
struct Row {
    threads: usize,
    call: Call,
    /// As `COLUMNS`.
    cells: [Cell; 4],
}

/// The mean of all rounds, and its standard error; `None` of nothing.
fn mean(cell: &Cell) -> Option<(f64, f64)> {
    let count = cell.len() as f64;
    let mean = cell.iter().sum::<f64>() / count;
    let squares: f64 = cell.iter().map(|value| (value - mean).powi(2)).sum();
    (!cell.is_empty()).then(|| (mean, (squares / (count - 1.0).max(1.0) / count).sqrt()))
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Way(way) => way.name(),
            Call::Accessor(accessor) => accessor.name(),
        }
    }
}

/// What `tanto bench stat` prints for these words.
pub fn run(words: &[Vec<u8>]) -> Stop {
    let forms = &[Form::Text, Form::Json, Form::Csv, Form::Svg, Form::Png];
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
    text.extend(tables(&rows, cores).bytes());
    if paths.links.is_empty() {
        text.extend([b"No symbolic links in ", dir, b", so that none were measured.\n"].concat());
    }
    let title = format!("Asking for times in {}{head}", String::from_utf8_lossy(dir));
    let written = grid(title, &rows).write(outputs, &text)?;
    text.extend(written.bytes());
    Ok(text)
}

fn grid(title: String, rows: &[Row]) -> Grid {
    let row = |row: &Row| {
        let (cells, errors) = row.cells.iter().map(|cell| mean(cell).unzip()).unzip();
        grid::Row { threads: row.threads, way: row.call.name(), cells, errors }
    };
    let columns = COLUMNS.map(str::to_owned).to_vec();
    Grid { title, unit: "nanoseconds a call", columns, rows: rows.iter().map(row).collect() }
}

impl From<Found> for Paths {
    fn from(found: Found) -> Paths {
        let missing = found.files.iter().map(|path| [path, &b".missing"[..]].concat()).collect();
        Paths { files: found.files, missing, directories: found.directories, links: found.links }
    }
}

/// A row for each number of threads and each way, and one for each combination. All are measured in turn, so that a busy
/// moment hits all alike.
fn measure(paths: &Paths, cores: usize) -> Vec<Row> {
    let row = |threads, call| Row { threads, call, cells: Default::default() };
    let ways = thread_counts(cores, &[1, 4]).into_iter();
    let ways = ways.flat_map(|threads| StatCall::ALL.map(|way| row(threads, Call::Way(way))));
    let mut rows: Vec<Row> = ways.chain(Accessor::ALL.map(|accessor| row(1, Call::Accessor(accessor)))).collect();
    let samples = [&paths.files, &paths.missing, &paths.directories, &paths.links].map(|paths| sample(paths));
    let begun = Instant::now();
    while begun.elapsed() < MEASURING {
        for row in &mut rows {
            for (cell, sample) in row.cells.iter_mut().zip(&samples) {
                if begun.elapsed() < 2 * MEASURING {
                    cell.extend(time(row.call, sample, row.threads));
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
    time(Call::Way(StatCall::BEST), &first, 1);
    let cost = time(Call::Way(StatCall::BEST), &first, 1).unwrap_or(0.0).max(1.0);
    let fitting = (CELL.as_nanos() as f64 / cost) as usize;
    all().take(fitting.clamp(FEWEST_CALLS, FILES)).collect()
}

/// Nanoseconds of a call; `None` if it is refused, or there is nothing to ask for.
fn time(call: Call, paths: &[&[u8]], threads: usize) -> Option<f64> {
    let begun = Instant::now();
    let answers = match call {
        Call::Way(way) => mtimes_by(way, paths, threads).iter().flatten().count(),
        Call::Accessor(accessor) => accessor.count(paths),
    };
    let spent = begun.elapsed();
    (answers > 0).then(|| spent.as_nanos() as f64 / paths.len() as f64)
}

/// A table of the ways, and one of the combinations, each with its verdict.
fn tables(rows: &[Row], cores: usize) -> String {
    let (ways, combinations): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| matches!(row.call, Call::Way(_)));
    let rounds = rows.iter().flat_map(|row| &row.cells).map(Vec::len).max().unwrap_or(0);
    let mut text = format!("Nanoseconds a call, the mean of {rounds} rounds and its standard error:\n\n");
    text += &table(&ways, true);
    text = text + "\n" + &verdict(&ways, cores);
    text += "\nFor a file's existence and its attributes, on one thread:\n\n";
    text += &table(&combinations, false);
    text + "\n" + &cheapest(&combinations)
}

fn table(rows: &[&Row], threads: bool) -> String {
    let width = rows.iter().map(|row| row.call.name().len()).max().unwrap_or(0);
    let line = |count: String, call: &str, cells: [String; 4]| {
        let count = threads.then_some(count);
        count.into_iter().chain([format!("{call:<width$}")]).chain(cells).collect::<Vec<String>>()
    };
    let mut lines = vec![line("threads".into(), "call", COLUMNS.map(str::to_owned))];
    lines.extend(rows.iter().map(|row| {
        let cell = |cell| mean(cell).map_or("-".into(), |(mean, error)| format!("{mean:.0} ± {error:.0}"));
        line(row.threads.to_string(), row.call.name(), row.cells.each_ref().map(cell))
    }));
    right_aligned(&lines)
}

/// The combination that costs least for each kind of path.
fn cheapest(rows: &[&Row]) -> String {
    let mut text = String::new();
    for (at, column) in COLUMNS.iter().enumerate() {
        let costs = rows.iter().filter_map(|row| Some((row.call.name(), mean(&row.cells[at])?.0)));
        if let Some((name, _)) = costs.min_by(|one, other| one.1.total_cmp(&other.1)) {
            let _ = writeln!(text, "The cheapest for a {column}: {name}.");
        }
    }
    text
}

/// The winner by what files cost, and how far Tanto's own choice is from it.
fn verdict(rows: &[&Row], cores: usize) -> String {
    let cost = |row: &Row| mean(&row.cells[0]).map_or(f64::INFINITY, |(mean, _)| mean);
    let Some(best) = rows.iter().copied().min_by(|one, other| cost(one).total_cmp(&cost(other))) else {
        return String::new();
    };
    let with = |row: &Row| {
        let plural = if row.threads == 1 { "" } else { "s" };
        format!("{} on {} thread{plural}", row.call.name(), row.threads)
    };
    let ours = rows.iter().copied().find(|row| row.call == Call::Way(StatCall::BEST) && row.threads == cores);
    let ours = ours.filter(|ours| !ours.cells[0].is_empty());
    match ours {
        Some(ours) if ours.call == best.call && ours.threads == best.threads => {
            format!("The fastest for files is {}, and Tanto's choice.\n", with(best))
        }
        Some(ours) => {
            let factor = cost(ours) / cost(best);
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

    fn row(threads: usize, way: StatCall, file: f64) -> Row {
        Row { threads, call: Call::Way(way), cells: [vec![file, file + 2.0], vec![1.0], vec![], vec![]] }
    }

    #[test]
    fn a_missing_file_stands_beside_each_file() {
        let found = Found { files: vec![b"a/b".to_vec()], directories: vec![b"a".to_vec()], links: vec![] };
        assert_eq!(Paths::from(found).missing, [b"a/b.missing"]);
    }

    #[test]
    fn few_files_are_asked_for_again_and_again() {
        let sample = sample(&[b"/dev".to_vec()]).len();
        assert!((FEWEST_CALLS..=FILES).contains(&sample), "{sample}");
    }

    #[test]
    fn the_winner_is_named() {
        let rows = [row(1, StatCall::Fstatat, 29.0), row(2, StatCall::Fstatat, 21.0), row(2, StatCall::Statx, 10.0)];
        let text = tables(&rows, 2);
        assert!(text.contains("\n      2  statx    11 ± 1    1 ± 0          -        -\n"), "{text}");
        let words =
            "The fastest for files is statx on 2 threads. Tanto's choice, fstatat on 2 threads, takes 2.00 times";
        let rows: Vec<&Row> = rows.iter().collect();
        assert!(text.contains(words), "{text}");
        assert_eq!(verdict(&rows[..2], 2), "The fastest for files is fstatat on 2 threads, and Tanto's choice.\n");
        assert_eq!(verdict(&rows[..1], 2), "The fastest for files is fstatat on 1 thread.\n");
        assert_eq!(
            (time(Call::Way(StatCall::BEST), &[b"a\0b"], 1), time(Call::Way(StatCall::BEST), &[], 1)),
            (None, None)
        );
    }

    #[test]
    fn combinations_are_measured_for_all_kinds_of_paths() {
        let dir = Scratch::new("bench-stat-kinds");
        dir.write("a/x", "1");
        std::os::unix::fs::symlink("a/x", dir.at("link")).expect("made");
        let paths = Paths::from(search(&dir.bytes("")).expect("it is there"));
        let rows: Vec<Row> = Accessor::ALL
            .map(|accessor| {
                let cells = [&paths.files, &paths.missing, &paths.directories, &paths.links];
                let cells = cells.map(|paths| time(Call::Accessor(accessor), &sample(paths), 1).into_iter().collect());
                Row { threads: 1, call: Call::Accessor(accessor), cells }
            })
            .into();
        assert!(rows.iter().all(|row| row.cells.iter().all(|cell| cell.len() == 1)));
        let text = tables(&rows, 1);
        for accessor in Accessor::ALL {
            assert!(text.contains(accessor.name()), "{text}");
        }
        assert_eq!(text.matches("\nThe cheapest for a ").count(), 4, "{text}");
        let chart = grid("stat".into(), &rows);
        assert_eq!((chart.columns.len(), chart.rows.len(), chart.rows[0].errors.len()), (4, 4, 4));
    }

    #[test]
    fn a_mean_has_a_standard_error() {
        let (mean, error) = super::mean(&vec![1.0, 2.0, 3.0, 4.0]).expect("of four");
        assert!((mean - 2.5).abs() < 1e-12 && (error - (5.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!((super::mean(&vec![7.0]), super::mean(&Vec::new())), (Some((7.0, 0.0)), None));
    }

    #[test]
    fn nothing_to_measure_is_an_error() {
        let dir = Scratch::new("bench-none");
        assert!(run(&[dir.bytes("")]).err.starts_with(b"tanto: error: no files in "));
    }
}
