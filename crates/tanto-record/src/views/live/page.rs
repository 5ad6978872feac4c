//! Formats the rows of the region: one for the build, and one for each running command.

use super::row::{Row, Style};
use super::text;
use crate::estimates::TimeLeft;
use tanto_exec::text::units::{short_duration, short_memory};

/// Limit of commands shown.
const MAX_JOBS: usize = 12;
/// Minimum width of the bar, which takes all columns that the numbers leave.
const MIN_BAR: usize = 10;
/// Columns of the run time, with the space before it.
const TIME: usize = 7;
/// Columns of the memory, with the space before it. Narrow windows leave it out.
const MEMORY: usize = 7;
const MIN_WIDTH_FOR_MEMORY: usize = 50;
/// A command is late if it takes twice its estimate, and this much longer, in milliseconds.
const LATE_MS: i64 = 5000;

/// Size and features of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) color: bool,
    pub(super) unicode: bool,
}

/// Totals of the build.
pub(super) struct Totals<'a> {
    pub(super) finished: usize,
    pub(super) total: usize,
    pub(super) failed: usize,
    /// Finished commands per second.
    pub(super) rate: f64,
    pub(super) passed_ms: i64,
    pub(super) time_left: TimeLeft,
    /// The user's own status line, which replaces the numbers.
    pub(super) status: Option<&'a str>,
}

/// A running command.
pub(super) struct JobRow<'a> {
    pub(super) for_ms: i64,
    pub(super) expected_ms: Option<i64>,
    pub(super) memory_kib: Option<u64>,
    pub(super) text: &'a str,
    /// The last lines of its output.
    pub(super) printed: &'a [String],
}

impl Layout {
    /// Returns the number of rows for commands: the region stays below half of the screen.
    pub(super) fn room(self) -> usize {
        (self.rows / 2).saturating_sub(1).min(MAX_JOBS)
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
pub(super) fn head(layout: Layout, totals: &Totals<'_>) -> String {
    let pieces = match totals.status {
        Some(status) => vec![Piece { stays: 9, style: Style::Plain, text: format!("  {status}"), place: 0 }],
        None => numbers(layout, totals),
    };
    let beside: usize = pieces.iter().map(Piece::columns).sum();
    let bar = layout.width().saturating_sub(beside + 1);
    let mut row = layout.row();
    if bar >= MIN_BAR {
        row.push(Style::Plain, " ");
        push_bar(layout, &mut row, bar, totals.time_left.done);
    }
    for piece in &pieces {
        let room = layout.width() - row.columns();
        row.push(piece.style, &text::fit(&piece.text, room, layout.dots()));
    }
    row.into_bytes()
}

/// A number of the first row, with the space before it.
struct Piece {
    /// Priority; numbers with the lowest one are left out first.
    stays: u8,
    style: Style,
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
fn numbers(layout: Layout, totals: &Totals<'_>) -> Vec<Piece> {
    let total = totals.total.to_string();
    let percent = (totals.time_left.done * 100.0) as usize;
    let percent = if totals.finished < totals.total { percent.min(99) } else { percent };
    let left = totals.time_left.left_ms.map(|ms| format!(", {} left", short_duration(ms)));
    let time = format!("  {}{}", short_duration(totals.passed_ms), left.unwrap_or_default());
    let failed = if totals.failed > 0 { format!("  {} failed", totals.failed) } else { String::new() };
    let piece = |stays, style, text: String, place: &str| Piece { stays, style, text, place: place.len() };
    let mut pieces = vec![
        piece(1, Style::Plain, format!(" {percent:>3}%"), ""),
        piece(9, Style::Plain, format!("  {:>width$}/{total}", totals.finished, width = total.len()), ""),
        piece(9, Style::Bad, failed, "  1 failed"),
        piece(0, Style::Faint, format!("  {:>7}", rate(totals.rate)), ""),
        piece(2, Style::Plain, time, "  59s, 59s left"),
    ];
    if totals.failed == 0 {
        // The bar reserves its place, so that the first failure does not move anything.
        pieces.swap(2, 4);
        pieces.swap(2, 3);
    }
    for stays in 0..9 {
        let width: usize = pieces.iter().map(Piece::columns).sum();
        if width + 1 + MIN_BAR <= layout.width() {
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

fn push_bar(layout: Layout, row: &mut Row, width: usize, done: f64) {
    let halves = (done * (width * 2) as f64) as usize;
    let (full, is_half) = (halves / 2, halves % 2 == 1);
    let (done, head, rest) = if layout.unicode { ("━", "╸", "─") } else { ("=", ">", "-") };
    row.push(Style::Done, &done.repeat(full));
    row.push(Style::Done, if is_half { head } else { "" });
    row.push(Style::Faint, &rest.repeat(width - full - usize::from(is_half)));
}

/// Columns before the text of each command.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Columns {
    /// The longest estimate of a command.
    pub(super) longest_ms: Option<i64>,
    /// Memory is sampled.
    pub(super) memory: bool,
}

/// Widths of columns, each with the space before it.
#[derive(Clone, Copy)]
struct Widths {
    of_estimate: usize,
    memory: usize,
}

/// Formats the running commands with their output, and the number of hidden ones.
pub(super) fn jobs(layout: Layout, jobs: &[JobRow<'_>], hidden: usize, columns: Columns) -> Vec<String> {
    let memory = if columns.memory && layout.columns >= MIN_WIDTH_FOR_MEMORY { MEMORY } else { 0 };
    let widths = Widths { of_estimate: columns.longest_ms.map_or(0, |ms| of_estimate(ms).len()), memory };
    let mut rows = Vec::new();
    for job in jobs {
        rows.push(job_row(layout, job, widths));
        rows.extend(job.printed.iter().map(|line| printed_row(layout, line)));
    }
    if hidden > 0 {
        let mut row = layout.row();
        let text = format!("{:width$}and {hidden} more", "", width = TIME + widths.of_estimate + widths.memory + 2);
        row.push(Style::Faint, &text::fit(&text, layout.width(), layout.dots()));
        rows.push(row.into_bytes());
    }
    rows
}

/// Formats the number of jobs in each state, as many as fit.
pub(super) fn state_counts(layout: Layout, counts: &[(&str, usize)]) -> String {
    let mut row = layout.row();
    for (state, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let piece = format!("  {count} {state}");
        if row.columns() + text::columns(&piece) > layout.width() {
            break;
        }
        row.push(if matches!(*state, "failed" | "machine-failed") { Style::Bad } else { Style::Faint }, &piece);
    }
    row.into_bytes()
}

/// Formats the reason for throttling.
pub(super) fn throttle(layout: Layout, why: &str) -> String {
    let mut row = layout.row();
    row.push(Style::Late, &text::fit(&format!(" {why}"), layout.width(), layout.dots()));
    row.into_bytes()
}

/// Rounded to at least 1 s.
fn of_estimate(ms: i64) -> String {
    format!(" of {}", short_duration(ms.saturating_add(500).max(1000)))
}

fn printed_row(layout: Layout, line: &str) -> String {
    let mut row = layout.row();
    row.push(Style::Faint, if layout.unicode { "    │ " } else { "    | " });
    let room = layout.width().saturating_sub(row.columns());
    row.push(Style::Plain, &text::fit(line, room, layout.dots()));
    row.into_bytes()
}

fn job_row(layout: Layout, job: &JobRow<'_>, widths: Widths) -> String {
    let mut row = layout.row();
    let is_late = |ms: i64| job.for_ms > ms.saturating_mul(2) && job.for_ms - ms > LATE_MS;
    let style = if job.expected_ms.is_some_and(is_late) { Style::Late } else { Style::Plain };
    row.push(style, &format!("{:>TIME$}", short_duration(job.for_ms)));
    row.push(
        Style::Faint,
        &format!("{:<width$}", job.expected_ms.map(of_estimate).unwrap_or_default(), width = widths.of_estimate),
    );
    if widths.memory > 0 {
        let memory = job.memory_kib.map(short_memory).unwrap_or_default();
        row.push(Style::Faint, &format!("{memory:>width$}", width = widths.memory));
    }
    row.push(Style::Plain, "  ");
    let room = layout.width().saturating_sub(row.columns());
    row.push(Style::Plain, &text::fit(job.text, room, layout.dots()));
    row.into_bytes()
}
