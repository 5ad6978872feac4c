//! An experiment as JSON, complete enough for `--resume`.

use serde_json::{Value, json};

use super::FileError;
use crate::jobs::analysis::JobsAnalysis;
use crate::jobs::experiment::{Experiment, JobsRun, Setup};
use crate::measure::json::{self as encoding, field};

const FORMAT: &str = "tanto bench jobs";
const VERSION: u64 = 2;

/// Encodes the experiment with its analysis.
pub fn write(experiment: &Experiment) -> Vec<u8> {
    let setup = &experiment.setup;
    let value = json!({
        "format": FORMAT,
        "version": VERSION,
        "command": setup.command,
        "prepare": setup.prepare,
        "prepare_once": setup.prepare_once,
        "controls": setup.controls,
        "machine": encoding::machine(&setup.machine, &setup.cpus),
        "runs": experiment.runs,
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
    let (machine, cpus) = encoding::read_machine(&value["machine"])?;
    let setup = Setup {
        command: field(value, "command")?,
        prepare: field(value, "prepare")?,
        prepare_once: field(value, "prepare_once")?,
        controls: field(value, "controls")?,
        machine,
        cpus,
    };
    let runs: Vec<JobsRun> = field(value, "runs")?;
    let is_valid = runs.iter().all(|run| run.jobs > 0 && !run.sample.wall.is_zero());
    is_valid.then_some(Experiment { setup, runs })
}
