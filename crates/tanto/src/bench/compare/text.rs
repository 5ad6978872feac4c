//! What an experiment has found, as text for people. Does not know where it is shown.

use crate::bench::statistics::quantile::Summary;
use tanto_exec::text::units::seconds;

use super::findings::{Comparison, Outlier};
use super::record::{End, Record};
use super::sentences::sentences;
use tanto_exec::text::table::right_aligned;

/// More outliers are counted only.
const MOST_OUTLIERS: usize = 10;

/// All of it: the commands, the table, what it means and what to beware of.
pub fn report(record: &Record, notes: &[String]) -> Vec<u8> {
    let mut text = Vec::new();
    for side in record.sides.iter().filter(|side| !side.control) {
        text.extend([side.name.as_bytes(), b": ", &side.line, b"\n"].concat());
    }
    if record.rounds() > 0 {
        text.extend(table(record).bytes());
        text.push(b'\n');
        for comparison in Comparison::all(record) {
            text.extend(sentences(record, &comparison).bytes());
        }
    }
    text.extend(end(record).bytes());
    let outliers = outliers(record);
    for note in notes.iter().chain(&outliers) {
        text.extend(format!("note: {note}\n").bytes());
    }
    text
}

fn table(record: &Record) -> String {
    let mut rows = vec![heads(record), iterations(record)];
    rows.extend(measured(record, |side| record.wall(side)));
    rows.push(vec!["User+system".into()]);
    rows.extend(measured(record, |side| record.cpu(side)));
    let names = rows.iter().map(|row| row[0].len()).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row[0] = format!("{:<names$}", row[0]));
    right_aligned(&rows)
}

fn heads(record: &Record) -> Vec<String> {
    let mut row = vec![String::new(), record.sides[0].name.clone()];
    row.extend(record.sides[1..].iter().flat_map(|side| [side.name.clone(), "Diff".into()]));
    row
}

fn iterations(record: &Record) -> Vec<String> {
    let count = record.rounds().to_string();
    let mut row = vec!["Total iterations".to_owned(), count.clone()];
    row.extend(record.sides[1..].iter().flat_map(|_| [count.clone(), String::new()]));
    row
}

type Pick = fn(&Summary) -> f64;

fn measured(record: &Record, values: impl Fn(usize) -> Vec<f64>) -> Vec<Vec<String>> {
    let summaries: Vec<Summary> = (0..record.sides.len()).filter_map(|side| Summary::of(&values(side))).collect();
    let rows: [(&str, Pick); 4] = [
        ("Min", |summary| summary.min),
        ("Mean", |summary| summary.mean),
        ("Median", |summary| summary.median),
        ("Max", |summary| summary.max),
    ];
    let row = |(name, pick): (&str, Pick)| {
        let mut row = vec![name.to_owned()];
        for (side, summary) in summaries.iter().enumerate() {
            let (first, own) = (pick(&summaries[0]), pick(summary));
            row.push(seconds(own));
            row.extend((side > 0).then(|| difference(own, first)));
        }
        row
    };
    rows.into_iter().map(row).collect()
}

/// `+0.123 s (+1.30 %)`
fn difference(own: f64, first: f64) -> String {
    let sign = if own < first { '-' } else { '+' };
    let share = if first > 0.0 { format!(" ({})", signed(own / first - 1.0)) } else { String::new() };
    format!("{sign}{}{share}", seconds((own - first).abs()))
}

/// `+1.3 %`
fn signed(share: f64) -> String {
    format!("{:+.2} %", 100.0 * share)
}

/// Why there are no more runs, unless there are as many as were wanted.
fn end(record: &Record) -> String {
    let rounds = record.rounds();
    match &record.end {
        None | Some(End::All) => String::new(),
        Some(End::Narrow) => format!("Stopped after {rounds} pairs, with an interval that is narrow enough.\n"),
        Some(End::Time) => format!("Stopped after {rounds} pairs: another would not have ended in time.\n"),
        Some(End::Halted(run, _)) => format!("Stopped after {rounds} pairs, at {run}.\n"),
        Some(End::Unlike(why)) => format!("Stopped after {rounds} pairs: {why}.\n"),
    }
}

fn outliers(record: &Record) -> Vec<String> {
    let mut outliers = Outlier::all(record);
    outliers.sort_by(|one, other| other.ratio.ln().abs().total_cmp(&one.ratio.ln().abs()));
    let more = outliers.len().saturating_sub(MOST_OUTLIERS);
    let told = |outlier: &Outlier| {
        let run = record.name(outlier.side, outlier.round);
        format!("{run} is far off: {}, {:.2} times the median (it counts)", seconds(outlier.seconds), outlier.ratio)
    };
    let mut notes: Vec<String> = outliers.iter().take(MOST_OUTLIERS).map(told).collect();
    notes.extend((more > 0).then(|| format!("{more} more runs are far off")));
    notes
}
