//! The report of a comparison.

use tanto_exec::text::table::right_aligned;
use tanto_exec::text::units::seconds;

use super::comparison::{Comparison, Outlier};
use super::conclusion::conclusion;
use super::record::{CompareRecord, StopReason};
use crate::statistics::summary::Summary;

/// Further outliers are only counted.
const MAX_OUTLIERS: usize = 10;

/// Returns the commands, the table, the conclusions and the notes.
pub fn report(record: &CompareRecord, notes: &[String]) -> Vec<u8> {
    let mut text = Vec::new();
    for variant in record.variants.iter().filter(|variant| !variant.is_control) {
        text.extend([variant.name.as_bytes(), b": ", &variant.line, b"\n"].concat());
    }
    if record.rounds() > 0 {
        text.extend(table(record).bytes());
        text.push(b'\n');
        for comparison in Comparison::all(record) {
            text.extend(conclusion(record, &comparison).bytes());
        }
    }
    text.extend(stop_reason(record).bytes());
    let outliers = outliers(record);
    for note in notes.iter().chain(&outliers) {
        text.extend(format!("note: {note}\n").bytes());
    }
    text
}

fn table(record: &CompareRecord) -> String {
    let mut rows = vec![heads(record), iterations(record)];
    rows.extend(measured(record, |variant| record.wall(variant)));
    rows.push(vec!["User+system".into()]);
    rows.extend(measured(record, |variant| record.cpu(variant)));
    let names = rows.iter().map(|row| row[0].len()).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row[0] = format!("{:<names$}", row[0]));
    right_aligned(&rows)
}

fn heads(record: &CompareRecord) -> Vec<String> {
    let mut row = vec![String::new(), record.variants[0].name.clone()];
    row.extend(record.variants[1..].iter().flat_map(|variant| [variant.name.clone(), "Diff".into()]));
    row
}

fn iterations(record: &CompareRecord) -> Vec<String> {
    let count = record.rounds().to_string();
    let mut row = vec!["Total iterations".to_owned(), count.clone()];
    row.extend(record.variants[1..].iter().flat_map(|_| [count.clone(), String::new()]));
    row
}

type Pick = fn(&Summary) -> f64;

fn measured(record: &CompareRecord, values: impl Fn(usize) -> Vec<f64>) -> Vec<Vec<String>> {
    let summaries: Vec<Summary> =
        (0..record.variants.len()).filter_map(|variant| Summary::of(&values(variant))).collect();
    let rows: [(&str, Pick); 4] = [
        ("Min", |summary| summary.min),
        ("Mean", |summary| summary.mean),
        ("Median", |summary| summary.median),
        ("Max", |summary| summary.max),
    ];
    let row = |(name, pick): (&str, Pick)| {
        let mut row = vec![name.to_owned()];
        for (variant, summary) in summaries.iter().enumerate() {
            let (first, own) = (pick(&summaries[0]), pick(summary));
            row.push(seconds(own));
            row.extend((variant > 0).then(|| difference(own, first)));
        }
        row
    };
    rows.into_iter().map(row).collect()
}

/// Returns `+0.123 s (+1.30 %)`.
fn difference(own: f64, first: f64) -> String {
    let sign = if own < first { '-' } else { '+' };
    let share = if first > 0.0 { format!(" ({})", signed(own / first - 1.0)) } else { String::new() };
    format!("{sign}{}{share}", seconds((own - first).abs()))
}

/// Returns `+1.30 %`.
fn signed(share: f64) -> String {
    format!("{:+.2} %", 100.0 * share)
}

/// Explains why the experiment stopped early; empty if it did not.
fn stop_reason(record: &CompareRecord) -> String {
    let rounds = record.rounds();
    match &record.stopped {
        None | Some(StopReason::Complete) => String::new(),
        Some(StopReason::NarrowInterval) => format!("Stopped after {rounds} pairs: the interval is narrow enough.\n"),
        Some(StopReason::TimeLimit) => format!("Stopped after {rounds} pairs: another would exceed the time limit.\n"),
        Some(StopReason::Failed(run, _)) => format!("Stopped after {rounds} pairs, during {run}.\n"),
        Some(StopReason::OutputsDiffer(why)) => format!("Stopped after {rounds} pairs: {why}.\n"),
    }
}

fn outliers(record: &CompareRecord) -> Vec<String> {
    let mut outliers = Outlier::all(record);
    outliers.sort_by(|one, other| other.ratio.ln().abs().total_cmp(&one.ratio.ln().abs()));
    let more = outliers.len().saturating_sub(MAX_OUTLIERS);
    let describe = |outlier: &Outlier| {
        let run = record.run_name(outlier.variant, outlier.round);
        format!("{run} is an outlier: {}, {:.2} times the median (included)", seconds(outlier.seconds), outlier.ratio)
    };
    let mut notes: Vec<String> = outliers.iter().take(MAX_OUTLIERS).map(describe).collect();
    notes.extend((more > 0).then(|| format!("{more} more runs are outliers")));
    notes
}
