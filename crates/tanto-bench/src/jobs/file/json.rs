//! An experiment as JSON, complete enough for `--resume`.

use serde_json::{Map, Value, json};

use super::FileError;
use crate::jobs::analysis::JobsAnalysis;
use crate::jobs::experiment::{Experiment, JobsRun, Setup};
use crate::measure::json as encoding;

const FORMAT: &str = "tanto bench jobs";
const VERSION: u64 = 2;

/// Encodes the experiment with its analysis.
pub fn write(experiment: &Experiment) -> Vec<u8> {
    let setup = &experiment.setup;
    let controls: Map<String, Value> =
        setup.controls.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let runs = experiment.runs.iter().map(|run| {
        let mut object = encoding::object(&run.sample);
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
        "machine": encoding::machine(&setup.machine, &setup.cpus),
        "runs": runs.collect::<Vec<_>>(),
        "analysis": JobsAnalysis::of(experiment).map(|analysis| analysis.json()),
    });
    format!("{value:#}\n").into()
}

/// Decodes the experiment.
pub fn read(text: &[u8]) -> Result<Experiment, FileError> {
    let value: Value = serde_json::from_slice(text).map_err(|error| FileError::Json(error.to_string()))?;
    if value["format"].as_str() != Some(FORMAT) {
        return Err(FileError::OtherFormat);
    }
    if value["version"].as_u64() != Some(VERSION) {
        return Err(FileError::Version(VERSION));
    }
    experiment(&value).ok_or(FileError::InvalidField)
}

fn experiment(value: &Value) -> Option<Experiment> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = |value: &Value| value.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
    let run = |value: &Value| {
        let jobs = u32::try_from(value["jobs"].as_u64()?).ok().filter(|&jobs| jobs > 0)?;
        Some(JobsRun { jobs, sample: encoding::sample(value)? })
    };
    let control = |(name, value): (&String, &Value)| Some((name.clone(), text(value)?));
    let (machine, cpus) = encoding::read_machine(&value["machine"])?;
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
