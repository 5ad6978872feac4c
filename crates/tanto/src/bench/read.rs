//! `tanto bench read`: what it costs to get at a file's content, by way, size and number of threads. Writes nothing.

mod ways;

use std::fmt::Write;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use tanto_sys::fs::file;
use tanto_sys::machine::cpu;
use tanto_sys::memory::map;

use super::files::{search, thread_counts};
use super::grid::{self, Grid};
use super::output::{Form, Output};
use crate::flags::door::Door;
use crate::flags::stop::Stop;
use ways::{Item, Way};

/// Sizes that are told apart, in bytes, and what their columns say.
const SIZES: [(u64, &str); 5] =
    [(16 << 10, "16 KiB"), (64 << 10, "64 KiB"), (256 << 10, "256 KiB"), (1 << 20, "1 MiB"), (16 << 20, "16 MiB")];
/// Of what is larger no more is read than this.
const LARGEST: (u64, &str) = (256 << 20, "larger");
/// Less in a measurement, and it is the clock that is measured.
const LEAST: u64 = 2 << 20;
/// More, and there are too few rounds.
const MOST: u64 = 64 << 20;
/// Rounds of measurements are begun for so long.
const MEASURING: Duration = Duration::from_secs(4);

/// What is read for one column.
struct Class {
    name: &'static str,
    /// The largest file in it.
    size: u64,
    items: Vec<Item>,
}

/// Milliseconds a GB, the best of all rounds; `None` where reading failed.
type Cell = Option<f64>;

/// What was measured with some threads.
struct Row {
    threads: usize,
    way: Way,
    /// One for each class.
    cells: Vec<Cell>,
}

/// What `tanto bench read` prints for these words.
pub fn run(words: &[Vec<u8>]) -> Stop {
    let forms = &[Form::Text, Form::Json, Form::Csv, Form::Svg, Form::Png];
    let printed = match grid::asked(words, forms, "one file or directory at a time") {
        Ok(Some((path, outputs))) => answer(&path, &outputs),
        Ok(None) => return super::helped("read"),
        Err(why) => Err(why),
    };
    match printed {
        Ok(text) => Stop::printed(text, 0),
        Err(why) => Stop::failed(Door::Tanto, "error", &why),
    }
}

fn answer(path: &[u8], outputs: &[Output]) -> Result<Vec<u8>, Vec<u8>> {
    let classes =
        classes(path).map_err(|error| [b"reading ", path, b": ", &tanto_sys::error::text(&error)[..]].concat())?;
    if classes.is_empty() {
        return Err([b"nothing to read in ", path].concat());
    }
    let rows = measure(&classes, cpu::count().max(1));
    let mut text = [path, b", all in memory.\n"].concat();
    text.extend(table(&rows, &classes).bytes());
    let title = format!("Reading {}, all in memory", String::from_utf8_lossy(path));
    let written = grid(title, &rows, &classes).write(outputs, &text)?;
    text.extend(written.bytes());
    Ok(text)
}

fn grid(title: String, rows: &[Row], classes: &[Class]) -> Grid {
    let row = |row: &Row| grid::Row {
        threads: row.threads,
        way: row.way.name(),
        cells: row.cells.clone(),
        errors: Vec::new(),
    };
    let columns = classes.iter().map(|class| class.name.to_owned()).collect();
    Grid { title, unit: "milliseconds a GB", columns, rows: rows.iter().map(row).collect() }
}

/// The beginnings of a file, or the files of a directory, by size.
fn classes(path: &[u8]) -> io::Result<Vec<Class>> {
    let data = fs::metadata(file::path(path))?;
    if !data.is_dir() {
        return Ok(beginnings(path, data.len()));
    }
    let sizes = search(path)?.files.into_iter().filter_map(|path| {
        let size = fs::metadata(file::path(&path)).ok()?.len();
        Some(Item { path, size })
    });
    Ok(by_size(sizes.collect()))
}

fn beginnings(path: &[u8], size: u64) -> Vec<Class> {
    let whole = (size.min(LARGEST.0), "whole");
    let sizes = SIZES.into_iter().filter(|&(part, _)| part < whole.0).chain([whole]);
    sizes.filter_map(|(size, name)| Class::new(name, vec![Item { path: path.to_vec(), size }])).collect()
}

fn by_size(mut items: Vec<Item>) -> Vec<Class> {
    items.sort_by_key(|item| item.size);
    let mut items = items.into_iter().filter(|item| item.size > 0).peekable();
    let mut classes = Vec::new();
    for (limit, name) in SIZES.into_iter().chain([LARGEST]) {
        let items = std::iter::from_fn(|| items.next_if(|item| item.size <= limit)).collect();
        classes.extend(Class::new(name, items));
    }
    classes
}

impl Class {
    /// As many of these as fit into a measurement; where there is little, it comes again and again. None for nothing.
    fn new(name: &'static str, items: Vec<Item>) -> Option<Class> {
        let all: u64 = items.iter().map(|item| item.size).sum();
        let size = items.iter().map(|item| item.size).max().filter(|&size| size > 0)?;
        let repeated = items.iter().cycle().take(items.len() * LEAST.div_ceil(all).max(1) as usize);
        let mut room = MOST.max(size);
        let fitting = repeated.take_while(|item| {
            let fits = item.size <= room;
            room = room.saturating_sub(item.size);
            fits
        });
        Some(Class { name, size, items: fitting.cloned().collect() })
    }

    fn total(&self) -> u64 {
        self.items.iter().map(|item| item.size).sum()
    }
}

/// A row for each number of threads and each way. All are measured in turn, so that a busy moment hits all alike.
fn measure(classes: &[Class], cores: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = thread_counts(cores, &[1])
        .into_iter()
        .flat_map(|threads| Way::ALL.map(|way| Row { threads, way, cells: vec![None; classes.len()] }))
        .collect();
    // The first time may have to wait for the disk.
    for class in classes {
        time(Way::Map, class, 1);
    }
    let begun = Instant::now();
    while begun.elapsed() < MEASURING {
        for row in &mut rows {
            for (cell, class) in row.cells.iter_mut().zip(classes) {
                let spent = time(row.way, class, row.threads);
                *cell = [*cell, spent].into_iter().flatten().reduce(f64::min);
            }
        }
    }
    rows
}

fn time(way: Way, class: &Class, threads: usize) -> Cell {
    let begun = Instant::now();
    way.read(&class.items, threads).ok()?;
    let spent = begun.elapsed();
    Some(spent.as_secs_f64() * 1e12 / class.total() as f64)
}

fn table(rows: &[Row], classes: &[Class]) -> String {
    let mut text = "Milliseconds a GB, the best of all rounds:\n\nthreads  way  ".to_owned();
    for class in classes {
        let _ = write!(text, "  {:>7}", class.name);
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, "{:>7}  {:<5}", row.threads, row.way.name());
        for cell in &row.cells {
            let _ = write!(text, "  {:>7}", cell.map_or("-".into(), |cell| format!("{cell:.0}")));
        }
        text.push('\n');
    }
    text.push('\n');
    for (index, class) in classes.iter().enumerate() {
        text += &verdict(rows, index, class);
    }
    text
}

/// The winner of a class, and Tanto's own choice.
fn verdict(rows: &[Row], index: usize, class: &Class) -> String {
    let cost = |row: &&Row| row.cells[index].unwrap_or(f64::INFINITY);
    let Some(best) = rows.iter().min_by(|one, other| cost(one).total_cmp(&cost(other))) else { return String::new() };
    let plural = if best.threads == 1 { "" } else { "s" };
    let choice = if class.size >= map::MIN_MAPPED_SIZE { Way::Map } else { Way::Read };
    let ours = if choice == best.way { "and so does Tanto".into() } else { format!("Tanto does {}", choice.name()) };
    format!("{}: the fastest does {} on {} thread{plural}, {ours}.\n", class.name, best.way.name(), best.threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn item(size: u64) -> Item {
        Item { path: Vec::new(), size }
    }

    fn told(classes: &[Class]) -> Vec<(&str, u64, usize)> {
        classes.iter().map(|class| (class.name, class.size, class.items.len())).collect()
    }

    #[test]
    fn a_file_has_beginnings() {
        assert_eq!(told(&beginnings(b"", 20 << 10)), [("16 KiB", 16 << 10, 128), ("whole", 20 << 10, 103)]);
        assert_eq!(told(&beginnings(b"", 1 << 40)).last(), Some(&("whole", 256 << 20, 1)));
        assert!(beginnings(b"", 0).is_empty());
    }

    #[test]
    fn files_are_told_apart_by_size() {
        let classes = by_size(vec![item(3 << 20), item(0), item(1 << 20), item(1 << 40), item(2 << 20)]);
        assert_eq!(told(&classes), [("1 MiB", 1 << 20, 2), ("16 MiB", 3 << 20, 2)]);
        let many = by_size(vec![item(8 << 20); 100]);
        assert_eq!(told(&many), [("16 MiB", 8 << 20, 8)]);
    }

    #[test]
    fn the_winner_of_each_class_is_named() {
        let row = |threads, way, cells: [f64; 2]| Row { threads, way, cells: cells.map(Some).to_vec() };
        let rows = [row(1, Way::Read, [10.0, 40.0]), row(2, Way::Map, [20.0, 7.0])];
        let class = |size, name| Class { name, size, items: vec![item(size)] };
        let text = table(&rows, &[class(1, "small"), class(1 << 30, "huge")]);
        assert!(text.contains("\n      2  mmap        20        7\n"), "{text}");
        assert!(text.contains("\nsmall: the fastest does read on 1 thread, and so does Tanto.\n"), "{text}");
        assert!(text.ends_with("\nhuge: the fastest does mmap on 2 threads, and so does Tanto.\n"), "{text}");
        assert_eq!(
            verdict(&rows, 1, &class(1, "small")),
            "small: the fastest does mmap on 2 threads, Tanto does read.\n"
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let dir = Scratch::new("bench-read");
        dir.write("f", "");
        assert!(run(&[dir.bytes("")]).err.starts_with(b"tanto: error: nothing to read in "));
        assert!(run(&[dir.bytes("f")]).err.starts_with(b"tanto: error: nothing to read in "));
        assert!(run(&[dir.bytes("g")]).err.ends_with(b"/g: No such file or directory\n"));
    }
}
