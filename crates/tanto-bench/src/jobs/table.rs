//! Output during an experiment: a line for each run and, on a terminal, progress and the time left.

use std::io::Write;
use std::time::Duration;

use tanto_exec::text::units::{rough_duration, seconds};

use super::experiment::{Experiment, JobsRun};
use crate::format::{mebibytes, percent};

const HEAD: &str = "  -j       wall       user     system      memory     stalled: cpu  memory   i/o  others   steal\n";

pub struct RunTable<'t> {
    pub out: &'t mut dyn Write,
    /// A terminal for a transient line.
    pub progress: Option<&'t mut dyn Write>,
}

impl RunTable<'_> {
    /// Prints text. Ignores errors: a closed terminal must not end the experiment.
    pub fn print(&mut self, text: &str) {
        self.clear();
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    pub fn head(&mut self) {
        self.print(HEAD);
    }

    pub fn row(&mut self, run: &JobsRun) {
        self.print(&row(run));
    }

    /// Shows that a run starts.
    pub fn start(&mut self, nth: usize, all: usize, jobs: u32, left: Option<Duration>) {
        let left = left.map(|left| format!(", about {} left", rough_duration(left))).unwrap_or_default();
        if let Some(progress) = &mut self.progress {
            let _ = write!(progress, "\r\x1b[K[{nth}/{all}] running -j {jobs}{left}").and_then(|()| progress.flush());
        }
    }

    fn clear(&mut self) {
        if let Some(progress) = &mut self.progress {
            let _ = progress.write_all(b"\r\x1b[K").and_then(|()| progress.flush());
        }
    }
}

fn row(run: &JobsRun) -> String {
    let sample = &run.sample;
    let wall = sample.wall.as_secs_f64();
    let fraction = |time: Option<Duration>| percent(time.map(|time| time.as_secs_f64() / wall));
    format!(
        "{:>4} {:>10} {:>10} {:>10} {:>11} {:>16} {:>7} {:>5} {:>7} {:>7}\n",
        run.jobs,
        seconds(sample.wall.as_secs_f64()),
        seconds(sample.user.as_secs_f64()),
        seconds(sample.system.as_secs_f64()),
        mebibytes(sample.peak_memory),
        fraction(sample.pressure.cpu),
        fraction(sample.pressure.memory),
        fraction(sample.pressure.io),
        percent(sample.conditions.background),
        percent(sample.conditions.steal),
    )
}

/// Estimates the time of the remaining runs from earlier runs of the same number of jobs, or else of all numbers, plus
/// the time between runs. `None` before the first run.
pub fn time_left(experiment: &Experiment, remaining: &[u32], spent: Duration, ran: Duration) -> Option<Duration> {
    let times = experiment.wall_times();
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let all: Vec<f64> = times.values().flatten().copied().collect();
    if all.is_empty() {
        return None;
    }
    let each = |count: &u32| times.get(count).map_or(mean(&all), |times| mean(times));
    let sum: f64 = remaining.iter().map(each).sum();
    let overhead = if ran.is_zero() { 1.0 } else { spent.as_secs_f64() / ran.as_secs_f64() };
    Duration::try_from_secs_f64(sum * overhead.max(1.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::experiment::tests::experiment;

    #[test]
    fn rows_align_with_the_head() {
        let row = row(&experiment(&[(4, 12.5)]).runs[0]);
        assert_eq!(row.len(), HEAD.len(), "{row}");
        assert!(row.starts_with("   4    12.50 s    9.375 s    3.125 s      10 MiB                -"), "{row}");
    }

    #[test]
    fn time_left_is_estimated_from_earlier_runs() {
        let it = experiment(&[(1, 20.0), (2, 10.0)]);
        let (spent, ran) = (Duration::from_secs(45), Duration::from_secs(30));
        assert_eq!(time_left(&it, &[1, 2, 4], spent, ran), Some(Duration::from_secs_f64((20.0 + 10.0 + 15.0) * 1.5)));
        assert_eq!(time_left(&experiment(&[]), &[1], spent, Duration::ZERO), None);
    }

    #[test]
    fn progress_needs_a_terminal() {
        let (mut out, mut screen) = (Vec::new(), Vec::new());
        let mut table = RunTable { out: &mut out, progress: Some(&mut screen) };
        table.start(2, 9, 4, Some(Duration::from_secs(300)));
        table.row(&experiment(&[(4, 1.0)]).runs[0]);
        assert!(String::from_utf8_lossy(&screen).contains("[2/9] running -j 4, about 5 min left\r"), "{screen:?}");
        assert!(!out.contains(&0x1b));
        let mut table = RunTable { out: &mut out, progress: None };
        table.start(1, 9, 4, None);
    }
}
