//! Formats the rows of the region: one for the build, and one for each running command.

use super::row::{Look, Row};
use super::text;
use crate::estimates::time_left::Outlook;
use tanto_exec::text::units::{short_duration, short_memory};

/// Limit of commands shown.
const MOST_JOBS: usize = 12;
/// Minimum width of the bar, which takes all columns that the numbers leave.
const LEAST_BAR: usize = 10;
/// Columns of the run time, with the space before it.
const TIME: usize = 7;
/// Columns of the memory, with the space before it. Narrow windows leave it out.
const MEMORY: usize = 7;
const LEAST_FOR_MEMORY: usize = 50;
/// A command is late if it takes twice its estimate, and this much longer, in milliseconds.
const LATE_MS: i64 = 5000;

/// Size and features of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sheet {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) color: bool,
    pub(super) unicode: bool,
}

/// Totals of the build.
pub(super) struct Whole<'a> {
    pub(super) finished: usize,
    pub(super) total: usize,
    pub(super) failed: usize,
    /// Finished commands per second.
    pub(super) rate: f64,
    pub(super) passed_ms: i64,
    pub(super) outlook: Outlook,
    /// The user's own status line, which replaces the numbers.
    pub(super) status: Option<&'a str>,
}

/// A running command.
pub(super) struct Job<'a> {
    pub(super) for_ms: i64,
    pub(super) expected_ms: Option<i64>,
    pub(super) memory_kib: Option<u64>,
    pub(super) text: &'a str,
    /// The last lines of its output.
    pub(super) printed: &'a [String],
}

impl Sheet {
    /// Returns the number of rows for commands: the region stays below half of the screen.
    pub(super) fn room(self) -> usize {
        (self.rows / 2).saturating_sub(1).min(MOST_JOBS)
    }

    /// The last column stays free: after writing to it, terminals differ in the cursor's position.
    fn width(self) -> usize {
        self.columns.saturating_sub(1)
    }

    fn dots(self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }

    fn row(self) -> Row {
        Row::new(self.color)
    }
}

/// Formats the first row: the bar and the numbers that fit.
pub(super) fn head(sheet: Sheet, whole: &Whole<'_>) -> String {
    let pieces = match whole.status {
        Some(status) => vec![Piece { stays: 9, look: Look::Plain, text: format!("  {status}"), place: 0 }],
        None => numbers(sheet, whole),
    };
    let beside: usize = pieces.iter().map(Piece::columns).sum();
    let bar = sheet.width().saturating_sub(beside + 1);
    let mut row = sheet.row();
    if bar >= LEAST_BAR {
        row.push(Look::Plain, " ");
        push_bar(sheet, &mut row, bar, whole.outlook.done);
    }
    for piece in &pieces {
        let room = sheet.width() - row.columns();
        row.push(piece.look, &text::fit(&piece.text, room, sheet.dots()));
    }
    row.into_bytes()
}

/// A number of the first row, with the space before it.
struct Piece {
    /// Priority; numbers with the lowest one are left out first.
    stays: u8,
    look: Look,
    text: String,
    /// Minimum width, so that other numbers do not move.
    place: usize,
}

impl Piece {
    fn columns(&self) -> usize {
        text::columns(&self.text).max(self.place)
    }
}

/// Returns the numbers that fit. Only the last one may change its width.
fn numbers(sheet: Sheet, whole: &Whole<'_>) -> Vec<Piece> {
    let total = whole.total.to_string();
    let percent = (whole.outlook.done * 100.0) as usize;
    let percent = if whole.finished < whole.total { percent.min(99) } else { percent };
    let left = whole.outlook.left_ms.map(|ms| format!(", {} left", short_duration(ms)));
    let time = format!("  {}{}", short_duration(whole.passed_ms), left.unwrap_or_default());
    let failed = if whole.failed > 0 { format!("  {} failed", whole.failed) } else { String::new() };
    let piece = |stays, look, text: String, place: &str| Piece { stays, look, text, place: place.len() };
    let mut pieces = vec![
        piece(1, Look::Plain, format!(" {percent:>3}%"), ""),
        piece(9, Look::Plain, format!("  {:>width$}/{total}", whole.finished, width = total.len()), ""),
        piece(9, Look::Bad, failed, "  1 failed"),
        piece(0, Look::Faint, format!("  {:>7}", rate(whole.rate)), ""),
        piece(2, Look::Plain, time, "  59s, 59s left"),
    ];
    if whole.failed == 0 {
        // The bar reserves its place, so that the first failure does not move anything.
        pieces.swap(2, 4);
        pieces.swap(2, 3);
    }
    for stays in 0..9 {
        let width: usize = pieces.iter().map(Piece::columns).sum();
        if width + 1 + LEAST_BAR <= sheet.width() {
            break;
        }
        pieces.retain(|piece| piece.stays != stays);
    }
    pieces
}

fn rate(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}/s"),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate if rate > 0.0 => format!("{:.0}/min", (rate * 60.0).ceil()),
        _ => String::new(),
    }
}

fn push_bar(sheet: Sheet, row: &mut Row, width: usize, done: f64) {
    let halves = (done * (width * 2) as f64) as usize;
    let (full, is_half) = (halves / 2, halves % 2 == 1);
    let (done, head, rest) = if sheet.unicode { ("━", "╸", "─") } else { ("=", ">", "-") };
    row.push(Look::Done, &done.repeat(full));
    row.push(Look::Done, if is_half { head } else { "" });
    row.push(Look::Faint, &rest.repeat(width - full - usize::from(is_half)));
}

/// Columns before the text of each command.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Known {
    /// The longest estimate of a command.
    pub(super) longest_ms: Option<i64>,
    /// Memory is sampled.
    pub(super) memory: bool,
}

/// Widths of columns, each with the space before it.
#[derive(Clone, Copy)]
struct Widths {
    past: usize,
    memory: usize,
}

/// Formats the running commands with their output, and the number of hidden ones.
pub(super) fn jobs(sheet: Sheet, jobs: &[Job<'_>], hidden: usize, known: Known) -> Vec<String> {
    let memory = if known.memory && sheet.columns >= LEAST_FOR_MEMORY { MEMORY } else { 0 };
    let widths = Widths { past: known.longest_ms.map_or(0, |ms| past(ms).len()), memory };
    let mut rows = Vec::new();
    for job in jobs {
        rows.push(job_row(sheet, job, widths));
        rows.extend(job.printed.iter().map(|line| printed_row(sheet, line)));
    }
    if hidden > 0 {
        let mut row = sheet.row();
        let text = format!("{:width$}and {hidden} more", "", width = TIME + widths.past + widths.memory + 2);
        row.push(Look::Faint, &text::fit(&text, sheet.width(), sheet.dots()));
        rows.push(row.into_bytes());
    }
    rows
}

/// Formats the number of jobs in each state, as many as fit.
pub(super) fn standing(sheet: Sheet, counts: &[(&str, usize)]) -> String {
    let mut row = sheet.row();
    for (state, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let piece = format!("  {count} {state}");
        if row.columns() + text::columns(&piece) > sheet.width() {
            break;
        }
        row.push(if matches!(*state, "failed" | "machine-failed") { Look::Bad } else { Look::Faint }, &piece);
    }
    row.into_bytes()
}

/// Formats the reason for throttling.
pub(super) fn hold(sheet: Sheet, why: &str) -> String {
    let mut row = sheet.row();
    row.push(Look::Late, &text::fit(&format!(" {why}"), sheet.width(), sheet.dots()));
    row.into_bytes()
}

/// Rounded to at least 1 s.
fn past(ms: i64) -> String {
    format!(" of {}", short_duration(ms.saturating_add(500).max(1000)))
}

fn printed_row(sheet: Sheet, line: &str) -> String {
    let mut row = sheet.row();
    row.push(Look::Faint, if sheet.unicode { "    │ " } else { "    | " });
    let room = sheet.width().saturating_sub(row.columns());
    row.push(Look::Plain, &text::fit(line, room, sheet.dots()));
    row.into_bytes()
}

fn job_row(sheet: Sheet, job: &Job<'_>, widths: Widths) -> String {
    let mut row = sheet.row();
    let is_late = |ms: i64| job.for_ms > ms.saturating_mul(2) && job.for_ms - ms > LATE_MS;
    let look = if job.expected_ms.is_some_and(is_late) { Look::Late } else { Look::Plain };
    row.push(look, &format!("{:>TIME$}", short_duration(job.for_ms)));
    row.push(Look::Faint, &format!("{:<width$}", job.expected_ms.map(past).unwrap_or_default(), width = widths.past));
    if widths.memory > 0 {
        let memory = job.memory_kib.map(short_memory).unwrap_or_default();
        row.push(Look::Faint, &format!("{memory:>width$}", width = widths.memory));
    }
    row.push(Look::Plain, "  ");
    let room = sheet.width().saturating_sub(row.columns());
    row.push(Look::Plain, &text::fit(job.text, room, sheet.dots()));
    row.into_bytes()
}
