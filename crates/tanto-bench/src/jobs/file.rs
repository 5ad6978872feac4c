//! Files of timings: their formats and their content.

pub mod csv;
pub mod json;
pub mod text;

#[cfg(test)]
mod tests;

use super::experiment::Experiment;
use crate::chart::{Chart, Point, Series};
pub use crate::error::FileError;
use crate::output::{Format, OutputFile};
use crate::statistics::summary::median;

/// Wall times of an experiment, for a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Timings {
    pub title: String,
    /// Numbers of jobs, ascending, and seconds of each run.
    pub points: Vec<(u32, Vec<f64>)>,
}

impl Timings {
    pub fn of(experiment: &Experiment) -> Timings {
        Timings { title: experiment.setup.command.clone(), points: experiment.wall_times().into_iter().collect() }
    }

    /// Parses JSON of `tanto bench jobs`, or lines of a number of jobs and seconds.
    pub fn read(text: &[u8]) -> Result<Timings, FileError> {
        match text.trim_ascii_start().first() {
            Some(b'{') => json::read(text).map(|experiment| Timings::of(&experiment)),
            _ => text::read(text),
        }
    }

    pub fn series(&self, name: &str) -> Series {
        let point = |(jobs, times): &(u32, Vec<f64>)| {
            Some(Point { x: f64::from(*jobs), center: median(times)?, values: times.clone() })
        };
        Series { name: name.to_owned(), points: self.points.iter().filter_map(point).collect() }
    }
}

/// Renders an experiment in the format of `output`.
pub fn render(experiment: &Experiment, output: &OutputFile) -> Vec<u8> {
    match output.format {
        Format::Json => json::write(experiment),
        Format::Csv => csv::write(experiment).into(),
        Format::Text => text::write(experiment, &output.path).into(),
        Format::Svg | Format::Png => {
            let series = Timings::of(experiment).series(&experiment.place());
            chart(&experiment.setup.command, vec![series]).render(output.format)
        }
    }
}

pub fn chart(title: &str, series: Vec<Series>) -> Chart {
    let (x_label, y_label) = ("jobs".to_owned(), "seconds".to_owned());
    Chart { title: title.to_owned(), x_label, y_label, ticks: Vec::new(), series }
}
