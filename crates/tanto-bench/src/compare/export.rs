//! Exports a comparison as JSON, CSV and a chart.

use std::fmt::Write;

use serde_json::{Value, json};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::info::MachineInfo;

use super::comparison::{Comparison, Outlier, PrimaryMetric};
use super::options::CompareOptions;
use super::record::{CompareRecord, StopReason};
use crate::chart::{Chart, Point, Series};
use crate::format::csv_cell;
use crate::measure::json as encoding;
use crate::statistics::pairs::{Estimate, Finding, PairResult};

/// Encodes all measurements and, at the end, the comparisons.
pub fn json(
    options: &CompareOptions,
    machine: Option<&(MachineInfo, CpuMask)>,
    record: &CompareRecord,
    notes: &[String],
) -> Vec<u8> {
    let commands = record.variants.iter().map(|variant| {
        let prepare: Vec<_> = variant.prepare.iter().map(|line| text(line)).collect();
        json!({
            "name": variant.name, "command": text(&variant.line), "prepare": prepare,
            "control": variant.is_control,
        })
    });
    let controls: serde_json::Map<String, Value> =
        options.controls.describe().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut all = json!({
        "format": "tanto bench compare",
        "version": 2,
        "machine": machine.map(|(machine, cpus)| encoding::machine(machine, cpus)),
        "controls": controls,
        "seed": record.seed,
        "background": record.background.map(|load| load.fraction),
        "warmup": options.warmup,
        "until": options.until,
        "commands": commands.collect::<Vec<_>>(),
        "runs": record.runs.iter().map(|run| {
            let mut object = json!(run.sample);
            object["command"] = record.variants[run.variant].name.clone().into();
            object["round"] = (run.round + 1).into();
            object["start_s"] = run.started.as_secs_f64().into();
            object
        }).collect::<Vec<_>>(),
        "pairs": record.rounds(),
        "stopped": record.stopped.as_ref().map(stopped),
        "notes": notes,
    });
    if record.stopped.is_some() {
        all["comparisons"] = Comparison::all(record).iter().map(|it| comparison(record, it)).collect();
        all["outliers"] = Outlier::all(record)
            .iter()
            .map(|outlier| {
                let name = &record.variants[outlier.variant].name;
                json!({"command": name, "round": outlier.round + 1, "wall_s": outlier.seconds})
            })
            .collect();
    }
    let mut bytes = all.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

fn stopped(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Complete => "complete",
        StopReason::NarrowInterval => "narrow interval",
        StopReason::TimeLimit => "time limit",
        StopReason::Failed(..) => "failed",
        StopReason::OutputsDiffer(_) => "outputs differ",
    }
}

fn comparison(record: &CompareRecord, comparison: &Comparison) -> Value {
    json!({
        "command": record.variants[comparison.variant].name,
        "reference": record.variants[0].name,
        "wall": result(&comparison.wall),
        "cpu": result(&comparison.cpu),
        "primary": match comparison.primary {
            PrimaryMetric::WallTime => "wall",
            PrimaryMetric::CpuTime => "cpu",
        },
    })
}

fn result(result: &PairResult) -> Value {
    match result {
        PairResult::TooFew(ratio) => json!({"result": "too few pairs", "ratio": ratio}),
        PairResult::TooShort => json!({"result": "too short"}),
        PairResult::Estimated(estimate) => estimated(estimate),
    }
}

fn estimated(estimate: &Estimate) -> Value {
    let is_more = estimate.ratio > 1.0;
    json!({
        "result": match estimate.finding() {
            Finding::Differs if is_more => "more",
            Finding::Differs => "less",
            Finding::MayDiffer if is_more => "maybe more",
            Finding::MayDiffer => "maybe less",
            Finding::NoDifference => "no difference",
            Finding::Drifts(_) => "drift",
        },
        "ratio": estimate.ratio,
        "low": estimate.interval_95.low,
        "high": estimate.interval_95.high,
        "low_99": estimate.interval_99.map(|interval| interval.low),
        "high_99": estimate.interval_99.map(|interval| interval.high),
        "detectable": estimate.detectable,
        "drift": {
            "ratio": estimate.drifts.ratio,
            "first": estimate.drifts.first,
            "second": estimate.drifts.second,
        },
    })
}

/// Returns a line for each run.
pub fn csv(record: &CompareRecord) -> Vec<u8> {
    let mut text = "command,round,start_s,wall_s,user_s,system_s,peak_memory_bytes,processors,background\n".to_owned();
    for run in &record.runs {
        let (sample, round) = (&run.sample, run.round + 1);
        let times = [run.started, sample.wall, sample.user, sample.system];
        let [start, wall, user, system] = times.map(|time| time.as_secs_f64());
        let memory = sample.peak_memory.map(|bytes| bytes.to_string()).unwrap_or_default();
        let background = sample.conditions.background.map(|load| format!("{load:.4}")).unwrap_or_default();
        let (name, processors) = (csv_cell(&record.variants[run.variant].name), sample.conditions.processors);
        let _ = writeln!(
            text,
            "{name},{round},{start:.6},{wall:.6},{user:.6},{system:.6},{memory},{processors},{background}"
        );
    }
    text.into()
}

/// Returns a chart of runs by round, which shows drifts and outliers.
pub fn chart(record: &CompareRecord) -> Chart {
    let series = record.variants.iter().enumerate().map(|(nth, variant)| {
        let line = if variant.is_control { String::new() } else { format!(": {}", text(&variant.line)) };
        let runs = record.runs.iter().filter(|run| run.variant == nth);
        let points = runs.map(|run| {
            let wall = run.sample.wall.as_secs_f64();
            Point { x: run.round as f64 + 1.0, center: wall, values: vec![wall] }
        });
        Series { name: format!("{}{line}", variant.name), points: points.collect() }
    });
    Chart {
        title: "Paired runs".into(),
        x_label: "pair".into(),
        y_label: "seconds".into(),
        ticks: Vec::new(),
        series: series.collect(),
    }
}
