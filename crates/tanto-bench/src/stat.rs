//! `tanto bench stat`: the cost of file status calls, by call, kind of path and number of threads.

mod grid;
mod search;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_exec::text::table::right_aligned;
use tanto_sys::fs::stat::{Accessor, StatCall, mtimes_by};
use tanto_sys::machine::cpu;

use crate::Error;
use crate::output::{Format, OutputFile, write_all};
use grid::{Grid, GridRow};
use search::{Found, MAX_FILES, search};
use tanto_exec::command_output::CommandOutput;

/// New rounds of measurements start within this time. Slow calls are cut off after twice this time.
const MEASURING: Duration = Duration::from_secs(3);
/// The time of one measurement; a slow disk gets fewer files.
const SAMPLE: Duration = Duration::from_millis(25);
/// Fewer calls would measure the clock.
const MIN_CALLS: usize = 16;

#[derive(Clone, Default, PartialEq, Debug)]
pub struct StatOptions {
    pub directory: PathBuf,
    pub outputs: Vec<OutputFile>,
}

struct Paths {
    files: Vec<Vec<u8>>,
    missing: Vec<Vec<u8>>,
    directories: Vec<Vec<u8>>,
    links: Vec<Vec<u8>>,
}

const COLUMNS: [&str; 4] = ["file", "missing", "directory", "symlink"];

/// The calls made for each path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    /// One call for the modification time.
    Single(StatCall),
    /// Several calls for existence and attributes.
    Combined(Accessor),
}

/// Measurements with one method and number of threads.
struct MethodCosts {
    threads: usize,
    method: Method,
    /// Nanoseconds of a call in each round, for each of `COLUMNS`; empty if the call fails or there are no paths.
    cells: [Vec<f64>; 4],
}

/// Returns the mean and its standard error; `None` for an empty slice.
fn mean(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (!values.is_empty()).then(|| (mean, (squares / (count - 1.0).max(1.0) / count).sqrt()))
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Single(call) => call.name(),
            Method::Combined(accessor) => accessor.name(),
        }
    }
}

/// Measures on the files of a directory.
pub fn run(options: &StatOptions) -> Result<CommandOutput, Error> {
    options.outputs.iter().try_for_each(OutputFile::check)?;
    let dir = &options.directory;
    let found = search(dir).map_err(|error| Error::read(dir, &error))?;
    let (paths, cores) = (Paths::from(found), cpu::count().max(1));
    if paths.files.is_empty() {
        return Err(Error::NoFiles(dir.clone()));
    }
    let rows = measure(&paths, cores);
    let text = report(dir, &paths, &rows, cores);
    let grid = grid(format!("File status calls in {}", dir.display()), &rows);
    let written = write_all(&options.outputs, |format| match format {
        Format::Text => text.clone().into(),
        Format::Json => format!("{:#}\n", grid.json()).into(),
        Format::Csv => grid.csv().into(),
        Format::Svg | Format::Png => grid.chart().render(format),
    })?;
    let mut outcome = CommandOutput::default();
    outcome.print(&(text + &written));
    Ok(outcome)
}

fn report(dir: &Path, paths: &Paths, rows: &[MethodCosts], cores: usize) -> String {
    let (files, directories) = (paths.files.len(), paths.directories.len());
    let head = format!("{files} files and {directories} directories in {}, all cached.\n", dir.display());
    let mut text = head + &tables(rows, cores);
    if paths.links.is_empty() {
        text += "No symbolic links were found, so none were measured.\n";
    }
    text
}

fn grid(title: String, rows: &[MethodCosts]) -> Grid {
    let row = |row: &MethodCosts| {
        let (means, errors) = row.cells.iter().map(|cell| mean(cell).unzip()).unzip();
        GridRow { threads: row.threads, call: row.method.name(), means, errors }
    };
    let columns = COLUMNS.map(str::to_owned).to_vec();
    Grid { title, unit: "nanoseconds per call", columns, rows: rows.iter().map(row).collect() }
}

impl From<Found> for Paths {
    fn from(found: Found) -> Paths {
        let missing = found.files.iter().map(|path| [path, &b".missing"[..]].concat()).collect();
        Paths { files: found.files, missing, directories: found.directories, links: found.links }
    }
}

/// Measures single calls with each number of threads, and combined ones with one thread. Rounds interleave all of them,
/// so that background load affects all alike.
fn measure(paths: &Paths, cores: usize) -> Vec<MethodCosts> {
    let row = |threads, method| MethodCosts { threads, method, cells: Default::default() };
    let mut thread_counts = vec![1, cores, 4 * cores];
    thread_counts.dedup();
    let single = thread_counts.into_iter().flat_map(|n| StatCall::ALL.map(|call| row(n, Method::Single(call))));
    let combined = Accessor::ALL.map(|accessor| row(1, Method::Combined(accessor)));
    let mut rows: Vec<MethodCosts> = single.chain(combined).collect();
    let samples = [&paths.files, &paths.missing, &paths.directories, &paths.links].map(|paths| sample(paths));
    let started = Instant::now();
    while started.elapsed() < MEASURING {
        for row in &mut rows {
            for (cell, sample) in row.cells.iter_mut().zip(&samples) {
                if started.elapsed() < 2 * MEASURING {
                    cell.extend(time(row.method, sample, row.threads));
                }
            }
        }
    }
    rows
}

/// Returns as many paths as calls fit into the time of a measurement; few paths are repeated.
fn sample(paths: &[Vec<u8>]) -> Vec<&[u8]> {
    let all = || paths.iter().map(Vec::as_slice).cycle();
    let first: Vec<&[u8]> = all().take(MIN_CALLS).collect();
    // The first time warms the cache.
    time(Method::Single(StatCall::BEST), &first, 1);
    let cost = time(Method::Single(StatCall::BEST), &first, 1).unwrap_or(0.0).max(1.0);
    let fitting = (SAMPLE.as_nanos() as f64 / cost) as usize;
    all().take(fitting.clamp(MIN_CALLS, MAX_FILES)).collect()
}

/// Returns nanoseconds per call; `None` if all calls fail or there are no paths.
fn time(method: Method, paths: &[&[u8]], threads: usize) -> Option<f64> {
    let started = Instant::now();
    let successes = match method {
        Method::Single(call) => mtimes_by(call, paths, threads).iter().flatten().count(),
        Method::Combined(accessor) => accessor.count(paths),
    };
    let spent = started.elapsed();
    (successes > 0).then(|| spent.as_nanos() as f64 / paths.len() as f64)
}

fn tables(rows: &[MethodCosts], cores: usize) -> String {
    let (single, combined): (Vec<&MethodCosts>, Vec<&MethodCosts>) =
        rows.iter().partition(|row| matches!(row.method, Method::Single(_)));
    let rounds = rows.iter().flat_map(|row| &row.cells).map(Vec::len).max().unwrap_or(0);
    let mut text = format!("Nanoseconds per call, mean of {rounds} rounds ± standard error:\n\n");
    text += &table(&single, true);
    text = text + "\n" + &fastest(&single, cores);
    text += "\nCombinations for existence and attributes, on one thread:\n\n";
    text += &table(&combined, false);
    text + "\n" + &cheapest(&combined)
}

fn table(rows: &[&MethodCosts], threads: bool) -> String {
    let width = rows.iter().map(|row| row.method.name().len()).max().unwrap_or(0);
    let line = |count: String, call: &str, cells: [String; 4]| {
        let count = threads.then_some(count);
        count.into_iter().chain([format!("{call:<width$}")]).chain(cells).collect::<Vec<String>>()
    };
    let mut lines = vec![line("threads".into(), "call", COLUMNS.map(str::to_owned))];
    lines.extend(rows.iter().map(|row| {
        let cell = |cell: &Vec<f64>| mean(cell).map_or("-".into(), |(mean, error)| format!("{mean:.0} ± {error:.0}"));
        line(row.threads.to_string(), row.method.name(), row.cells.each_ref().map(cell))
    }));
    right_aligned(&lines)
}

/// Names the cheapest combination for each kind of path.
fn cheapest(rows: &[&MethodCosts]) -> String {
    let mut text = String::new();
    for (at, column) in COLUMNS.iter().enumerate() {
        let costs = rows.iter().filter_map(|row| Some((row.method.name(), mean(&row.cells[at])?.0)));
        if let Some((name, _)) = costs.min_by(|one, other| one.1.total_cmp(&other.1)) {
            let _ = writeln!(text, "Cheapest, {column}: {name}.");
        }
    }
    text
}

/// Names the fastest call for existing files, and compares it with the call that Tanto uses.
fn fastest(rows: &[&MethodCosts], cores: usize) -> String {
    let cost = |row: &MethodCosts| mean(&row.cells[0]).map_or(f64::INFINITY, |(mean, _)| mean);
    let Some(best) = rows.iter().copied().min_by(|one, other| cost(one).total_cmp(&cost(other))) else {
        return String::new();
    };
    let describe = |row: &MethodCosts| {
        let plural = if row.threads == 1 { "" } else { "s" };
        format!("{} on {} thread{plural}", row.method.name(), row.threads)
    };
    let ours = rows.iter().copied().find(|row| row.method == Method::Single(StatCall::BEST) && row.threads == cores);
    let ours = ours.filter(|ours| !ours.cells[0].is_empty());
    match ours {
        Some(ours) if ours.method == best.method && ours.threads == best.threads => {
            format!("Fastest for files: {}, which Tanto uses.\n", describe(best))
        }
        Some(ours) => {
            let factor = cost(ours) / cost(best);
            format!(
                "Fastest for files: {}. Tanto uses {}, which takes {factor:.2} times as long.\n",
                describe(best),
                describe(ours)
            )
        }
        None => format!("Fastest for files: {}.\n", describe(best)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn row(threads: usize, call: StatCall, file: f64) -> MethodCosts {
        MethodCosts {
            threads,
            method: Method::Single(call),
            cells: [vec![file, file + 2.0], vec![1.0], vec![], vec![]],
        }
    }

    #[test]
    fn each_file_has_a_missing_counterpart() {
        let found = Found { files: vec![b"a/b".to_vec()], directories: vec![b"a".to_vec()], links: vec![] };
        assert_eq!(Paths::from(found).missing, [b"a/b.missing"]);
    }

    #[test]
    fn few_files_are_repeated() {
        let sample = sample(&[b"/dev".to_vec()]).len();
        assert!((MIN_CALLS..=MAX_FILES).contains(&sample), "{sample}");
    }

    #[test]
    fn the_fastest_call_is_named() {
        let rows = [row(1, StatCall::Fstatat, 29.0), row(2, StatCall::Fstatat, 21.0), row(2, StatCall::Statx, 10.0)];
        let text = tables(&rows, 2);
        assert!(text.contains("\n      2  statx    11 ± 1    1 ± 0          -        -\n"), "{text}");
        let words = "Fastest for files: statx on 2 threads. Tanto uses fstatat on 2 threads, which takes 2.00 times";
        let rows: Vec<&MethodCosts> = rows.iter().collect();
        assert!(text.contains(words), "{text}");
        assert_eq!(fastest(&rows[..2], 2), "Fastest for files: fstatat on 2 threads, which Tanto uses.\n");
        assert_eq!(fastest(&rows[..1], 2), "Fastest for files: fstatat on 1 thread.\n");
        assert_eq!(
            (time(Method::Single(StatCall::BEST), &[b"a\0b"], 1), time(Method::Single(StatCall::BEST), &[], 1)),
            (None, None)
        );
    }

    #[test]
    fn combined_calls_are_measured_for_all_kinds_of_paths() {
        let dir = Scratch::new("bench-stat-kinds");
        dir.write("a/x", "1");
        std::os::unix::fs::symlink("a/x", dir.at("link")).expect("made");
        let paths = Paths::from(search(dir.path()).expect("it exists"));
        let rows: Vec<MethodCosts> = Accessor::ALL
            .map(|accessor| {
                let cells = [&paths.files, &paths.missing, &paths.directories, &paths.links];
                let cells =
                    cells.map(|paths| time(Method::Combined(accessor), &sample(paths), 1).into_iter().collect());
                MethodCosts { threads: 1, method: Method::Combined(accessor), cells }
            })
            .into();
        assert!(rows.iter().all(|row| row.cells.iter().all(|cell| cell.len() == 1)));
        let text = tables(&rows, 1);
        for accessor in Accessor::ALL {
            assert!(text.contains(accessor.name()), "{text}");
        }
        assert_eq!(text.matches("\nCheapest, ").count(), 4, "{text}");
        let chart = grid("stat".into(), &rows);
        assert_eq!((chart.columns.len(), chart.rows.len(), chart.rows[0].errors.len()), (4, 4, 4));
    }

    #[test]
    fn a_mean_has_a_standard_error() {
        let (mean, error) = super::mean(&[1.0, 2.0, 3.0, 4.0]).expect("of four");
        assert!((mean - 2.5).abs() < 1e-12 && (error - (5.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!((super::mean(&[7.0]), super::mean(&[])), (Some((7.0, 0.0)), None));
    }

    #[test]
    fn a_directory_without_files_is_an_error() {
        let dir = Scratch::new("bench-none");
        let options = StatOptions { directory: dir.path().into(), outputs: Vec::new() };
        assert_eq!(run(&options), Err(Error::NoFiles(dir.path().into())));
        let missing = StatOptions { directory: "/nonexistent".into(), ..options };
        let error = run(&missing).expect_err("no directory").to_string();
        assert_eq!(error, "reading /nonexistent: No such file or directory");
    }
}
