//! An experiment as CSV: a line for each run, in the order of measurement.

use std::time::Duration;

use crate::jobs::experiment::{Experiment, JobsRun};

const HEAD: &str = "jobs,wall_s,user_s,system_s,peak_memory_bytes,io_wait_s,cpu_pressure_s,memory_pressure_s,\
                    io_pressure_s,frequency_mhz,load,background,steal\n";

/// Unknown values are empty cells.
pub fn write(experiment: &Experiment) -> String {
    experiment.runs.iter().fold(HEAD.to_owned(), |text, run| text + &line(run))
}

fn line(run: &JobsRun) -> String {
    let sample = &run.sample;
    let (pressure, conditions) = (&sample.pressure, &sample.conditions);
    let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
    let maybe = |time: Option<Duration>| time.map(seconds).unwrap_or_default();
    let fraction = |fraction: Option<f64>| fraction.map(|fraction| format!("{fraction:.4}")).unwrap_or_default();
    let cells = [
        run.jobs.to_string(),
        seconds(sample.wall),
        seconds(sample.user),
        seconds(sample.system),
        sample.peak_memory.map(|bytes| bytes.to_string()).unwrap_or_default(),
        seconds(sample.io_wait),
        maybe(pressure.cpu),
        maybe(pressure.memory),
        maybe(pressure.io),
        conditions.frequency_mhz.map(|mhz| mhz.to_string()).unwrap_or_default(),
        format!("{:.2}", conditions.load),
        fraction(conditions.background),
        fraction(conditions.steal),
    ];
    cells.join(",") + "\n"
}
