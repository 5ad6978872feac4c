//! The answers of a comparison in plain English.

use std::fmt::Write;

use crate::bench::show;
use crate::bench::statistics::interval::{Interval, LEVEL, among, fewest};
use crate::bench::statistics::pairs::{Estimate, Finding, Verdict};

use super::findings::{Comparison, Lead, comparisons};
use super::record::Record;

/// The words for one kind of time.
struct Words {
    /// `[for more, for less]`, after the command's name.
    verbs: [&'static str; 2],
    /// The same after "may".
    may: [&'static str; 2],
    /// `[for more, for less]`, after the percentage.
    tail: [&'static str; 2],
}

const WALL: Words =
    Words { verbs: ["is slower by", "is faster by"], may: ["be slower by", "be faster by"], tail: ["", ""] };
const CPU: Words =
    Words { verbs: ["uses", "uses"], may: ["use", "use"], tail: [" more processor time", " less processor time"] };

/// All sentences for one comparison, a line each: first the kind of time that says more, then the other, then notes.
pub fn sentences(record: &Record, comparison: &Comparison) -> String {
    let answer = Answer { record, names: [&record.sides[0].name, &record.sides[comparison.side].name] };
    let wall = answer.of(&comparison.wall, &WALL);
    if record.sides[comparison.side].control {
        return answer.of_control(&comparison.wall).unwrap_or(format!("Control: {wall}\n"));
    }
    let cpu = answer.of(&comparison.cpu, &CPU);
    let mut text = match comparison.lead {
        Lead::Wall => format!("{wall}\nUser+system: {cpu}\n"),
        Lead::Cpu => format!("{cpu}\nBy the clock: {wall}\n"),
    };
    if let Some(others) = record.others.filter(|_| comparison.lead == Lead::Cpu) {
        let share = show::percent(Some(others.share));
        let _ = writeln!(
            text,
            "Note: other programs used {share} of the processors. These commands compute most of their time, so \
             user+system says more than the clock."
        );
    }
    text + &answer.drifts(&comparison.wall)
}

struct Answer<'r> {
    record: &'r Record,
    names: [&'r str; 2],
}

impl Answer<'_> {
    fn of(&self, verdict: &Verdict, words: &Words) -> String {
        match verdict {
            Verdict::TooShort => "Some runs took no time that can be measured.".into(),
            Verdict::TooFew(ratio) => {
                let least = fewest(among(LEVEL, comparisons(&self.record.sides)));
                let estimate = ratio.map(|ratio| format!(" (estimate {})", signed(ratio))).unwrap_or_default();
                format!("Too few pairs for an answer: {} of at least {least}{estimate}.", self.record.rounds())
            }
            Verdict::Seen(estimate) => self.seen(estimate, words),
        }
    }

    fn seen(&self, estimate: &Estimate, words: &Words) -> String {
        let [first, second] = self.names;
        let less = usize::from(estimate.ratio < 1.0);
        let claim = || {
            let (by, range) = claimed(estimate);
            (by + words.tail[less], range)
        };
        match estimate.finding() {
            Finding::Differs => {
                let ((by, range), verb) = (claim(), words.verbs[less]);
                format!("{second} {verb} {by} ({range}, 95 % confidence).")
            }
            Finding::MayDiffer => {
                let ((by, range), verb) = (claim(), words.may[less]);
                format!("{second} may {verb} {by} ({range}, 95 % confidence). More runs would tell.")
            }
            Finding::NoDifference => {
                let mut text = format!("No difference seen between {first} and {second} ({}).", around(estimate));
                if let Some(smallest) = estimate.smallest {
                    let (rounds, smallest) = (self.record.rounds(), show_share(smallest - 1.0, smallest - 1.0));
                    let _ = write!(text, " {rounds} pairs would have shown {smallest} %.");
                }
                text
            }
            Finding::Drifts(change) => format!(
                "No answer: {second} / {first} drifted by {} during the run, more than the difference ({}).",
                drifted(change),
                around(estimate)
            ),
        }
    }

    /// A control that seems to differ.
    fn of_control(&self, verdict: &Verdict) -> Option<String> {
        let estimate = verdict.estimate().filter(|estimate| estimate.finding() == Finding::Differs)?;
        let by = claimed(estimate).0;
        Some(format!("Control: A and A again differ by {by}: this machine shows differences where there are none.\n"))
    }

    /// Notes on drifts that withhold nothing.
    fn drifts(&self, verdict: &Verdict) -> String {
        let Some(estimate) = verdict.estimate() else { return String::new() };
        let [first, second] = self.names;
        let mut text = String::new();
        let sides = [(first, estimate.drifts.first), (second, estimate.drifts.second)];
        for (name, change) in sides.into_iter().filter_map(|(name, change)| Some((name, change?))) {
            let _ = writeln!(text, "Note: {name} drifted by {} during the run.", drifted(change));
        }
        if let Some(change) = estimate.drifts.ratio.filter(|_| !matches!(estimate.finding(), Finding::Drifts(_))) {
            let change = drifted(change);
            let _ = writeln!(text, "Note: the difference itself drifted by {change} during the run.");
        }
        text
    }
}

/// `9.8 %` and `9.7 to 9.9 %`, the smaller limit first.
fn claimed(estimate: &Estimate) -> (String, String) {
    let Interval { low, high } = estimate.interval.map(|limit| (limit - 1.0).abs());
    let (from, to) = if low < high { (low, high) } else { (high, low) };
    let by = (estimate.ratio - 1.0).abs();
    let text = |share| show_share(share, from);
    (text(by) + " %", format!("{} to {} %", text(from), text(to)))
}

/// `estimate +0.3 %, -0.5 to +1.1 %, 95 % confidence`
fn around(estimate: &Estimate) -> String {
    let Interval { low, high } = estimate.interval.map(|limit| limit - 1.0);
    let smaller = low.abs().min(high.abs());
    let text = |share: f64| format!("{}{}", if share < 0.0 { "-" } else { "+" }, show_share(share, smaller));
    format!("estimate {} %, {} to {} %, 95 % confidence", text(estimate.ratio - 1.0), text(low), text(high))
}

/// `+9.8 %`
fn signed(ratio: f64) -> String {
    let share = ratio - 1.0;
    format!("{}{} %", if share < 0.0 { "-" } else { "+" }, show_share(share, share))
}

/// `0.15 %`
fn drifted(change: f64) -> String {
    show_share(change - 1.0, change - 1.0) + " %"
}

/// A share in per cent, without its sign: with two decimals if `smallest`, which stands beside it, is below 1 %.
fn show_share(share: f64, smallest: f64) -> String {
    let decimals = if smallest.abs() < 0.01 { 2 } else { 1 };
    format!("{:.decimals$}", 100.0 * share.abs())
}

#[cfg(test)]
mod tests {
    use super::super::record::Side;
    use super::*;
    use crate::bench::measure::Others;
    use crate::bench::statistics::pairs::Drifts;

    fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
        let interval = Interval { low, high };
        Estimate { ratio, interval, sure: Some(interval), smallest: Some(1.013), drifts: Drifts::default() }
    }

    fn record() -> Record {
        let side = |name: &str| Side { name: name.into(), line: name.into(), prepare: Vec::new(), control: false };
        Record::new(vec![side("A"), side("B")])
    }

    fn said(wall: Estimate, cpu: Estimate, lead: Lead) -> String {
        let record = Record { others: Some(Others { share: 0.43, left: 1.0 }), ..record() };
        sentences(&record, &Comparison { side: 1, wall: Verdict::Seen(wall), cpu: Verdict::Seen(cpu), lead })
    }

    #[test]
    fn an_answer_has_its_estimate_and_its_interval() {
        let (slower, faster) = (estimate(1.097, 1.0984, 1.099), estimate(0.78, 0.8, 0.82));
        assert_eq!(
            said(slower, faster, Lead::Wall),
            "B is slower by 9.8 % (9.7 to 9.9 %, 95 % confidence).\n\
             User+system: B uses 20.0 % less processor time (18.0 to 22.0 %, 95 % confidence).\n"
        );
        let unsure = Estimate { sure: Some(Interval { low: 0.99, high: 1.03 }), ..estimate(1.001, 1.012, 1.02) };
        assert_eq!(
            said(unsure, estimate(0.995, 1.003, 1.011), Lead::Wall),
            "B may be slower by 1.20 % (0.10 to 2.00 %, 95 % confidence). More runs would tell.\n\
             User+system: No difference seen between A and B (estimate +0.30 %, -0.50 to +1.10 %, 95 % confidence). \
             0 pairs would have shown 1.3 %.\n"
        );
    }

    #[test]
    fn processor_time_leads_where_others_keep_the_machine_busy() {
        assert_eq!(
            said(estimate(0.9, 1.02, 1.1), estimate(1.04, 1.05, 1.06), Lead::Cpu),
            "B uses 5.0 % more processor time (4.0 to 6.0 %, 95 % confidence).\n\
             By the clock: No difference seen between A and B (estimate +2.0 %, -10.0 to +10.0 %, 95 % confidence). \
             0 pairs would have shown 1.3 %.\n\
             Note: other programs used 43 % of the processors. These commands compute most of their time, so user+system \
             says more than the clock.\n"
        );
    }

    #[test]
    fn drifts_are_notes_unless_the_ratio_drifts_by_more_than_the_difference() {
        let drifts = Drifts { first: Some(0.9985), ratio: Some(1.01), second: None };
        let noted = said(Estimate { drifts, ..estimate(1.09, 1.1, 1.11) }, estimate(1.04, 1.05, 1.06), Lead::Wall);
        assert!(noted.starts_with("B is slower by 10.0 % "), "{noted}");
        assert!(noted.contains("\nNote: A drifted by 0.15 % during the run.\n"), "{noted}");
        assert!(noted.ends_with("\nNote: the difference itself drifted by 1.0 % during the run.\n"), "{noted}");
        let drifts = Drifts { ratio: Some(1.051), ..Drifts::default() };
        let none = said(Estimate { drifts, ..estimate(1.003, 1.012, 1.024) }, estimate(1.04, 1.05, 1.06), Lead::Wall);
        assert!(
            none.starts_with(
                "No answer: B / A drifted by 5.1 % during the run, more than the difference \
                 (estimate +1.20 %, +0.30 to +2.40 %, 95 % confidence).\n"
            ),
            "{none}"
        );
    }

    #[test]
    fn too_few_pairs_still_have_an_estimate() {
        let verdict = Verdict::TooFew(Some(1.098));
        let comparison = Comparison { side: 1, wall: verdict, cpu: Verdict::TooShort, lead: Lead::Wall };
        assert_eq!(
            sentences(&record(), &comparison),
            "Too few pairs for an answer: 0 of at least 6 (estimate +9.8 %).\n\
             User+system: Some runs took no time that can be measured.\n"
        );
    }
}
