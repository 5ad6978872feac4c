//! What an experiment has measured and found, as files for other programs and as a picture. Does not know where they lie.

use std::fmt::Write;

use serde_json::{Value, json};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use crate::bench::chart::{Chart, Point, Series};
use crate::bench::measure::json;
use crate::bench::output::csv;
use crate::bench::statistics::pairs::{Estimate, Finding, Verdict};

use super::args::Args;
use super::findings::{Comparison, Lead, Outlier};
use super::record::{End, Record};

/// All that was measured, and what it comes to once it has ended.
pub fn json(args: &Args, machine: Option<&(MachineInfo, CpuMask)>, record: &Record, notes: &[String]) -> Vec<u8> {
    let sides = record.sides.iter().map(|side| {
        let prepare: Vec<_> = side.prepare.iter().map(|line| text(line)).collect();
        json!({"name": side.name, "command": text(&side.line), "prepare": prepare, "control": side.control})
    });
    let settings: serde_json::Map<String, Value> =
        args.controls.told().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut all = json!({
        "tanto_bench": "compare",
        "format": 1,
        "machine": machine.map(|(machine, cpus)| json::machine(machine, cpus)),
        "settings": settings,
        "seed": record.seed,
        "others": record.others.map(|others| others.share),
        "warmup": args.warmup,
        "until": args.until,
        "sides": sides.collect::<Vec<_>>(),
        "runs": record.runs.iter().map(|run| {
            let mut object = json::object(&run.sample);
            object.insert("side".into(), record.sides[run.side].name.clone().into());
            object.insert("round".into(), (run.round + 1).into());
            object.insert("at_s".into(), run.at.as_secs_f64().into());
            Value::Object(object)
        }).collect::<Vec<_>>(),
        "pairs": record.rounds(),
        "ended": record.end.as_ref().map(ended),
        "notes": notes,
    });
    if record.end.is_some() {
        all["comparisons"] = Comparison::all(record).iter().map(|comparison| compared(record, comparison)).collect();
        all["outliers"] = Outlier::all(record).iter().map(|outlier| {
            json!({"side": record.sides[outlier.side].name, "round": outlier.round + 1, "wall_s": outlier.seconds})
        }).collect();
    }
    let mut bytes = all.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

fn ended(end: &End) -> &'static str {
    match end {
        End::All => "all",
        End::Narrow => "narrow",
        End::Time => "time",
        End::Halted(..) => "halted",
        End::Unlike(_) => "unlike",
    }
}

fn compared(record: &Record, comparison: &Comparison) -> Value {
    json!({
        "side": record.sides[comparison.side].name,
        "against": record.sides[0].name,
        "wall": verdict(&comparison.wall),
        "cpu": verdict(&comparison.cpu),
        "lead": match comparison.lead {
            Lead::Wall => "wall",
            Lead::Cpu => "cpu",
        },
    })
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::TooFew(ratio) => json!({"verdict": "too few pairs", "ratio": ratio}),
        Verdict::TooShort => json!({"verdict": "too short"}),
        Verdict::Seen(estimate) => seen(estimate),
    }
}

fn seen(estimate: &Estimate) -> Value {
    let more = estimate.ratio > 1.0;
    json!({
        "verdict": match estimate.finding() {
            Finding::Differs if more => "more",
            Finding::Differs => "less",
            Finding::MayDiffer if more => "maybe more",
            Finding::MayDiffer => "maybe less",
            Finding::NoDifference => "no difference seen",
            Finding::Drifts(_) => "drifts",
        },
        "ratio": estimate.ratio,
        "low": estimate.interval.low,
        "high": estimate.interval.high,
        "low_99": estimate.sure.map(|sure| sure.low),
        "high_99": estimate.sure.map(|sure| sure.high),
        "smallest_visible": estimate.smallest,
        "drift": {
            "ratio": estimate.drifts.ratio,
            "first": estimate.drifts.first,
            "second": estimate.drifts.second,
        },
    })
}

/// A run a line.
pub fn table(record: &Record) -> Vec<u8> {
    let mut text = "side,round,at_s,wall_s,user_s,system_s,peak_memory_bytes,processors,background\n".to_owned();
    for run in &record.runs {
        let (sample, round) = (&run.sample, run.round + 1);
        let [at, wall, user, system] = [run.at, sample.wall, sample.user, sample.system].map(|time| time.as_secs_f64());
        let memory = sample.peak_memory.map(|bytes| bytes.to_string()).unwrap_or_default();
        let background = sample.conditions.background.map(|share| format!("{share:.4}")).unwrap_or_default();
        let (name, processors) = (csv(&record.sides[run.side].name), sample.conditions.processors);
        let _ =
            write!(text, "{name},{round},{at:.6},{wall:.6},{user:.6},{system:.6},{memory},{processors},{background}");
        text.push('\n');
    }
    text.into()
}

/// Each run by its round: what drifts and what lies far off is seen.
pub fn chart(record: &Record) -> Chart {
    let series = record.sides.iter().enumerate().map(|(nth, side)| {
        let line = if side.control { String::new() } else { format!(": {}", text(&side.line)) };
        let runs = record.runs.iter().filter(|run| run.side == nth);
        let points = runs.map(|run| {
            let wall = run.sample.wall.as_secs_f64();
            Point { x: run.round as f64 + 1.0, middle: wall, all: vec![wall] }
        });
        Series { name: format!("{}{line}", side.name), points: points.collect() }
    });
    Chart {
        title: "Runs by turns".into(),
        across: "pair".into(),
        up: "seconds".into(),
        places: Vec::new(),
        series: series.collect(),
    }
}
