//! What an experiment has found, as text for people. Does not know where it is shown.

use std::fmt::Write;

use crate::bench::show;
use crate::bench::statistics::interval::{LEVEL, fewest};
use crate::bench::statistics::pairs::{Drift, Estimate, Verdict};
use crate::bench::statistics::quantile::Summary;

use super::findings::{Comparison, Outlier, level};
use super::record::{End, Record};
use crate::columns::aligned;
use crate::help::capital;

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
            text.extend(words(record, &comparison).bytes());
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
    aligned(&rows)
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
            row.push(show::seconds(own));
            row.extend((side > 0).then(|| if first > 0.0 { signed(own / first - 1.0) } else { "-".into() }));
        }
        row
    };
    rows.into_iter().map(row).collect()
}

/// `+1.3 %`
fn signed(share: f64) -> String {
    format!("{:+.2} %", 100.0 * share)
}

/// `1.3 %`, with as many digits as matter.
fn percent(share: f64) -> String {
    let percent = 100.0 * share.abs();
    if percent < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// The ratio, and a sentence for the wall clock and one for the processors.
fn words(record: &Record, comparison: &Comparison) -> String {
    let (first, second) = (&record.sides[0].name, &record.sides[comparison.side].name);
    let mut text = String::new();
    if let Some(Estimate { ratio, interval, .. }) = comparison.wall.estimate() {
        let (low, high, rounds) = (interval.low, interval.high, record.rounds());
        let _ = writeln!(text, "{second} / {first}: {ratio:.4} ({low:.4} to {high:.4}, 95 % interval; {rounds} pairs)");
    }
    if record.sides[comparison.side].control {
        return text + "Control: " + &of_control(record, &comparison.wall) + "\n";
    }
    text += &capital(&sentence(record, &comparison.wall, [first, second], ["is slower", "is faster"]));
    text += "\nUser+system: ";
    text += &sentence(record, &comparison.cpu, [first, second], ["uses more", "uses less"]);
    text + "\n"
}

fn of_control(record: &Record, verdict: &Verdict) -> String {
    match verdict.estimate() {
        Some(estimate) if estimate.differs() => format!(
            "A and A again differ by {}: this machine shows differences where there are none.",
            percent(estimate.ratio - 1.0)
        ),
        _ => sentence(record, verdict, ["A", "A again"], ["is slower", "is faster"]),
    }
}

fn sentence(record: &Record, verdict: &Verdict, [first, second]: [&str; 2], [more, less]: [&str; 2]) -> String {
    match verdict {
        Verdict::Seen(estimate) if estimate.differs() => {
            let (low, high) = (estimate.interval.low - 1.0, estimate.interval.high - 1.0);
            let (verb, from, to) = if low > 0.0 { (more, low, high) } else { (less, high, low) };
            let by = percent(estimate.ratio - 1.0);
            format!("{second} {verb} by {by} (between {} and {}).", percent(from), percent(to))
        }
        Verdict::Seen(estimate) => {
            let smallest = percent(estimate.smallest - 1.0);
            format!(
                "no difference seen between {first} and {second}; the smallest that this run could have seen is {smallest}."
            )
        }
        Verdict::TooFew => {
            let least = fewest(level(LEVEL, &record.sides));
            format!("{} pairs are too few to tell; it takes {least} at least.", record.rounds())
        }
        Verdict::TooShort => "some runs took no time that can be measured.".into(),
        Verdict::Drifts(drift) => format!("{}, so there is no one answer.", drifting(*drift, first, second)),
    }
}

fn drifting(drift: Drift, first: &str, second: &str) -> String {
    let (what, times) = match drift {
        Drift::Ratio(times) => (format!("{second} / {first}"), times),
        Drift::First(times) => (format!("what {first} takes"), times),
        Drift::Second(times) => (format!("what {second} takes"), times),
    };
    let how = if times > 1.0 { "rises" } else { "falls" };
    format!("it drifts: {what} {how} by {} from the first pair to the last", percent(times - 1.0))
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
        format!(
            "{run} is far off: {}, {:.2} times the median (it counts)",
            show::seconds(outlier.seconds),
            outlier.ratio
        )
    };
    let mut notes: Vec<String> = outliers.iter().take(MOST_OUTLIERS).map(told).collect();
    notes.extend((more > 0).then(|| format!("{more} more runs are far off")));
    notes
}
