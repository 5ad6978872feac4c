//! An experiment as JSON: all that was measured, so that it can be gone on with. Does not know what follows from it.

use serde_json::{Map, Value, json};

use crate::bench::jobs::experiment::{Experiment, Run, Setup};
use crate::bench::jobs::verdict::Verdict;
use crate::bench::measure::json as measured;

/// What such a file calls itself.
const FORMAT: &str = "tanto bench jobs";
const VERSION: u64 = 1;

/// Writes it, with what follows from it.
pub fn write(experiment: &Experiment) -> Vec<u8> {
    let setup = &experiment.setup;
    let controls: Map<String, Value> =
        setup.controls.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let runs = experiment.runs.iter().map(|run| {
        let mut object = measured::object(&run.sample);
        object.insert("jobs".into(), run.jobs.into());
        Value::Object(object)
    });
    let value = json!({
        "format": FORMAT,
        "version": VERSION,
        "command": setup.command,
        "prepare": setup.prepare,
        "prepare_once": setup.prepare_once,
        "controls": controls,
        "machine": measured::machine(&setup.machine, &setup.cpus),
        "runs": runs.collect::<Vec<_>>(),
        "verdict": Verdict::of(experiment).map(|verdict| verdict.json()),
    });
    format!("{value:#}\n").into()
}

/// Reads what `write` wrote. An error is a text for the user.
pub fn read(text: &[u8]) -> Result<Experiment, Vec<u8>> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
    if value["format"].as_str() != Some(FORMAT) {
        return Err(format!("not of '{FORMAT}'").into());
    }
    if value["version"].as_u64() != Some(VERSION) {
        return Err(format!("of another version than {VERSION}").into());
    }
    experiment(&value).ok_or_else(|| b"something is missing or makes no sense".into())
}

fn experiment(value: &Value) -> Option<Experiment> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = |value: &Value| value.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
    let run = |value: &Value| {
        let jobs = u32::try_from(value["jobs"].as_u64()?).ok().filter(|&jobs| jobs > 0)?;
        Some(Run { jobs, sample: measured::sample(value)? })
    };
    let control = |(name, value): (&String, &Value)| Some((name.clone(), text(value)?));
    let (machine, cpus) = measured::read_machine(&value["machine"])?;
    let setup = Setup {
        command: text(&value["command"])?,
        prepare: texts(&value["prepare"])?,
        prepare_once: texts(&value["prepare_once"])?,
        controls: value["controls"].as_object()?.iter().map(control).collect::<Option<_>>()?,
        machine,
        cpus,
    };
    Some(Experiment { setup, runs: value["runs"].as_array()?.iter().map(run).collect::<Option<Vec<_>>>()? })
}
