//! An experiment as a file, in each of the forms. Does not know where it is kept.

pub mod csv;
pub mod json;
pub mod text;

use super::experiment::Experiment;
use crate::bench::chart::{Chart, Point, Series};
use crate::bench::output::Form;
use crate::bench::output::Output;
use crate::bench::statistics::quantile::median;

/// The wall times of an experiment, or of another's file: what a chart shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Timings {
    /// What was timed.
    pub title: String,
    /// Jobs at a time, ascending, and seconds.
    pub points: Vec<(u32, Vec<f64>)>,
}

impl Timings {
    /// Those of an experiment.
    pub fn of(experiment: &Experiment) -> Timings {
        Timings { title: experiment.setup.command.clone(), points: experiment.walls().into_iter().collect() }
    }

    /// Reads a file's text: our JSON, or lines with a number and seconds. An error is a text for the user.
    pub fn read(text: &[u8]) -> Result<Timings, Vec<u8>> {
        match text.trim_ascii_start().first() {
            Some(b'{') => json::read(text).map(|experiment| Timings::of(&experiment)),
            _ => text::read(text),
        }
    }

    /// As a line of a chart.
    pub fn series(&self, name: &str) -> Series {
        let point =
            |(jobs, all): &(u32, Vec<f64>)| Some(Point { x: f64::from(*jobs), middle: median(all)?, all: all.clone() });
        Series { name: name.to_owned(), points: self.points.iter().filter_map(point).collect() }
    }
}

/// The content of a file of this form.
pub fn content(experiment: &Experiment, output: &Output) -> Vec<u8> {
    match output.form {
        Form::Json => json::write(experiment),
        Form::Csv => csv::write(experiment).into(),
        Form::Text => text::write(experiment, &output.path).into(),
        Form::Svg | Form::Png => {
            let series = Timings::of(experiment).series(&place(experiment));
            chart(&experiment.setup.command, vec![series]).file(output.form)
        }
    }
}

/// The chart of these lines.
pub fn chart(title: &str, series: Vec<Series>) -> Chart {
    let (across, up) = ("jobs at a time".to_owned(), "seconds".to_owned());
    Chart { title: title.to_owned(), across, up, places: Vec::new(), series }
}

/// Where it was measured.
pub fn place(experiment: &Experiment) -> String {
    let (machine, used) = (&experiment.setup.machine, experiment.setup.cpus.count());
    let of = if used == machine.processors { String::new() } else { format!(" of {}", machine.processors) };
    let plural = if machine.processors == 1 { "" } else { "s" };
    format!("{}, {used}{of} processor{plural}", machine.model)
}

#[cfg(test)]
mod tests;
