//! Words the conclusions of a comparison.

use std::fmt::Write;

use super::comparison::{Comparison, PrimaryMetric, comparison_count};
use super::record::CompareRecord;
use crate::format::percent;
use crate::statistics::interval::{Interval, LEVEL_95, bonferroni, min_count};
use crate::statistics::pairs::{Estimate, Finding, PairResult};

/// The phrases for one metric; `[more, less]`.
struct Phrases {
    verb: [&'static str; 2],
    infinitive: [&'static str; 2],
    /// After the percentage.
    suffix: [&'static str; 2],
}

const WALL: Phrases =
    Phrases { verb: ["is slower by", "is faster by"], infinitive: ["be slower by", "be faster by"], suffix: ["", ""] };
const CPU: Phrases =
    Phrases { verb: ["uses", "uses"], infinitive: ["use", "use"], suffix: [" more CPU time", " less CPU time"] };

/// Returns a line for each metric, the primary one first, and notes.
pub fn conclusion(record: &CompareRecord, comparison: &Comparison) -> String {
    let names = [&*record.variants[0].name, &*record.variants[comparison.variant].name];
    let wording = Wording { record, names };
    let wall = wording.result(&comparison.wall, &WALL);
    if record.variants[comparison.variant].is_control {
        return wording.false_difference(&comparison.wall).unwrap_or(format!("Control: {wall}\n"));
    }
    let cpu = wording.result(&comparison.cpu, &CPU);
    let mut text = match comparison.primary {
        PrimaryMetric::WallTime => format!("{wall}\nUser+system: {cpu}\n"),
        PrimaryMetric::CpuTime => format!("{cpu}\nWall time: {wall}\n"),
    };
    if let Some(load) = record.background.filter(|_| comparison.primary == PrimaryMetric::CpuTime) {
        let used = percent(Some(load.fraction));
        let _ = writeln!(
            text,
            "Note: other programs used {used} of the CPUs, so user+system time is more reliable than wall time."
        );
    }
    text + &wording.drifts(&comparison.wall)
}

struct Wording<'r> {
    record: &'r CompareRecord,
    names: [&'r str; 2],
}

impl Wording<'_> {
    fn result(&self, result: &PairResult, phrases: &Phrases) -> String {
        match result {
            PairResult::TooShort => "Some runs were too short to be measured.".into(),
            PairResult::TooFew(ratio) => {
                let least = min_count(bonferroni(LEVEL_95, comparison_count(&self.record.variants)));
                let estimate = ratio.map(|ratio| format!(" (estimate {})", signed(ratio))).unwrap_or_default();
                format!("Too few pairs: {} of at least {least}{estimate}.", self.record.rounds())
            }
            PairResult::Estimated(estimate) => self.finding(estimate, phrases),
        }
    }

    fn finding(&self, estimate: &Estimate, phrases: &Phrases) -> String {
        let [first, second] = self.names;
        let less = usize::from(estimate.ratio < 1.0);
        let (by, range) = (difference(estimate) + phrases.suffix[less], range(estimate));
        match estimate.finding() {
            Finding::Differs => format!("{second} {} {by} ({range}, 95 % confidence).", phrases.verb[less]),
            Finding::MayDiffer => {
                format!("{second} may {} {by} ({range}, 95 % confidence). Use more runs.", phrases.infinitive[less])
            }
            Finding::NoDifference => {
                let mut text =
                    format!("No significant difference between {first} and {second} ({}).", interval(estimate));
                if let Some(detectable) = estimate.detectable {
                    let (rounds, detectable) = (self.record.rounds(), change(detectable));
                    let _ = write!(text, " {rounds} pairs can detect {detectable}.");
                }
                text
            }
            Finding::Drifts(drift) => format!(
                "No conclusion: {second} / {first} drifted by {} during the run, more than the difference ({}).",
                change(drift),
                interval(estimate)
            ),
        }
    }

    /// Reports a difference between the first command and its control.
    fn false_difference(&self, result: &PairResult) -> Option<String> {
        let estimate = result.estimate().filter(|estimate| estimate.finding() == Finding::Differs)?;
        let by = difference(estimate);
        Some(format!("Control: A and A again differ by {by}, so differences on this machine are not reliable.\n"))
    }

    fn drifts(&self, result: &PairResult) -> String {
        let Some(estimate) = result.estimate() else { return String::new() };
        let [first, second] = self.names;
        let is_reported = matches!(estimate.finding(), Finding::Drifts(_));
        let ratio = estimate.drifts.ratio.filter(|_| !is_reported);
        let notes = [(first, estimate.drifts.first), (second, estimate.drifts.second), ("the difference", ratio)];
        let notes = notes.into_iter().filter_map(|(subject, drift)| Some((subject, change(drift?))));
        notes.map(|(subject, change)| format!("Note: {subject} drifted by {change} during the run.\n")).collect()
    }
}

/// Returns the estimated difference, such as `9.8 %`.
fn difference(estimate: &Estimate) -> String {
    show_fraction((estimate.ratio - 1.0).abs(), limits(estimate).low) + " %"
}

/// Returns the 95 % interval of the difference, such as `9.7 to 9.9 %`.
fn range(estimate: &Estimate) -> String {
    let Interval { low, high } = limits(estimate);
    format!("{} to {} %", show_fraction(low, low), show_fraction(high, low))
}

/// Returns the limits of the absolute difference, the smaller one first.
fn limits(estimate: &Estimate) -> Interval {
    let Interval { low, high } = estimate.interval_95.map(|limit| (limit - 1.0).abs());
    Interval { low: low.min(high), high: low.max(high) }
}

/// Returns `estimate +0.3 %, -0.5 to +1.1 %, 95 % confidence`.
fn interval(estimate: &Estimate) -> String {
    let Interval { low, high } = estimate.interval_95.map(|limit| limit - 1.0);
    let smaller = low.abs().min(high.abs());
    let text =
        |fraction: f64| format!("{}{}", if fraction < 0.0 { "-" } else { "+" }, show_fraction(fraction, smaller));
    format!("estimate {} %, {} to {} %, 95 % confidence", text(estimate.ratio - 1.0), text(low), text(high))
}

/// Returns the difference of a ratio from 1, such as `+9.8 %`.
fn signed(ratio: f64) -> String {
    format!("{}{}", if ratio < 1.0 { "-" } else { "+" }, change(ratio))
}

/// Returns the absolute difference of a ratio from 1, such as `0.15 %`.
fn change(ratio: f64) -> String {
    show_fraction(ratio - 1.0, ratio - 1.0) + " %"
}

/// Formats the absolute value in percent, with two decimals if `smallest`, a value in the same sentence, is below 1 %.
fn show_fraction(fraction: f64, smallest: f64) -> String {
    let decimals = if smallest.abs() < 0.01 { 2 } else { 1 };
    format!("{:.decimals$}", 100.0 * fraction.abs())
}

#[cfg(test)]
mod tests {
    use super::super::record::Variant;
    use super::*;
    use crate::measure::BackgroundLoad;
    use crate::statistics::pairs::Drifts;

    fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
        let interval_95 = Interval { low, high };
        Estimate {
            ratio,
            interval_95,
            interval_99: Some(interval_95),
            detectable: Some(1.013),
            drifts: Drifts::default(),
        }
    }

    fn record() -> CompareRecord {
        let variant =
            |name: &str| Variant { name: name.into(), line: name.into(), prepare: Vec::new(), is_control: false };
        CompareRecord::new(vec![variant("A"), variant("B")], 0)
    }

    fn of(wall: Estimate, cpu: Estimate, primary: PrimaryMetric) -> String {
        let background = Some(BackgroundLoad { fraction: 0.43, free_cpus: 1.0 });
        let (wall, cpu) = (PairResult::Estimated(wall), PairResult::Estimated(cpu));
        conclusion(&CompareRecord { background, ..record() }, &Comparison { variant: 1, wall, cpu, primary })
    }

    #[test]
    fn differences_have_an_estimate_and_an_interval() {
        let (slower, faster) = (estimate(1.097, 1.0984, 1.099), estimate(0.78, 0.8, 0.82));
        assert_eq!(
            of(slower, faster, PrimaryMetric::WallTime),
            "B is slower by 9.8 % (9.7 to 9.9 %, 95 % confidence).\n\
             User+system: B uses 20.0 % less CPU time (18.0 to 22.0 %, 95 % confidence).\n"
        );
        let unsure = Estimate { interval_99: Some(Interval { low: 0.99, high: 1.03 }), ..estimate(1.001, 1.012, 1.02) };
        assert_eq!(
            of(unsure, estimate(0.995, 1.003, 1.011), PrimaryMetric::WallTime),
            "B may be slower by 1.20 % (0.10 to 2.00 %, 95 % confidence). Use more runs.\n\
             User+system: No significant difference between A and B (estimate +0.30 %, -0.50 to +1.10 %, 95 % confidence). \
             0 pairs can detect 1.3 %.\n"
        );
    }

    #[test]
    fn cpu_time_comes_first_on_a_busy_machine() {
        assert_eq!(
            of(estimate(0.9, 1.02, 1.1), estimate(1.04, 1.05, 1.06), PrimaryMetric::CpuTime),
            "B uses 5.0 % more CPU time (4.0 to 6.0 %, 95 % confidence).\n\
             Wall time: No significant difference between A and B (estimate +2.0 %, -10.0 to +10.0 %, 95 % confidence). \
             0 pairs can detect 1.3 %.\n\
             Note: other programs used 43 % of the CPUs, so user+system time is more reliable than wall time.\n"
        );
    }

    #[test]
    fn drifts_are_notes_unless_larger_than_the_difference() {
        let drifts = Drifts { first: Some(0.9985), ratio: Some(1.01), second: None };
        let noted =
            of(Estimate { drifts, ..estimate(1.09, 1.1, 1.11) }, estimate(1.04, 1.05, 1.06), PrimaryMetric::WallTime);
        assert!(noted.starts_with("B is slower by 10.0 % "), "{noted}");
        assert!(noted.contains("\nNote: A drifted by 0.15 % during the run.\n"), "{noted}");
        assert!(noted.ends_with("\nNote: the difference drifted by 1.0 % during the run.\n"), "{noted}");
        let drifts = Drifts { ratio: Some(1.051), ..Drifts::default() };
        let none = of(
            Estimate { drifts, ..estimate(1.003, 1.012, 1.024) },
            estimate(1.04, 1.05, 1.06),
            PrimaryMetric::WallTime,
        );
        assert!(
            none.starts_with(
                "No conclusion: B / A drifted by 5.1 % during the run, more than the difference \
                 (estimate +1.20 %, +0.30 to +2.40 %, 95 % confidence).\n"
            ),
            "{none}"
        );
    }

    #[test]
    fn too_few_pairs_still_have_an_estimate() {
        let (wall, cpu) = (PairResult::TooFew(Some(1.098)), PairResult::TooShort);
        let comparison = Comparison { variant: 1, wall, cpu, primary: PrimaryMetric::WallTime };
        assert_eq!(
            conclusion(&record(), &comparison),
            "Too few pairs: 0 of at least 6 (estimate +9.8 %).\n\
             User+system: Some runs were too short to be measured.\n"
        );
    }
}
