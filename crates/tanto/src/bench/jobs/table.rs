//! What is seen while an experiment runs: a line for each run, and on a terminal what goes on and how long it will take.
//! Does not know how runs are measured.

use std::io::Write;
use std::time::Duration;
use tanto_exec::text::units::{rough_duration, seconds};

use super::experiment::{Experiment, Run};
use crate::bench::show;

/// The columns' names.
const HEAD: &str = "  -j       wall       user     system      memory  waited for: cpu  memory  disk  others  stolen\n";

/// A screen, or a test's memory.
pub struct Table<'t> {
    /// For lines that stay.
    pub out: &'t mut dyn Write,
    /// For one that goes again; none where there is no terminal.
    pub progress: Option<&'t mut dyn Write>,
}

impl Table<'_> {
    /// Writes a text as it is. That nobody reads it is no reason to stop measuring.
    pub fn say(&mut self, text: &str) {
        self.wipe();
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Begins the table.
    pub fn head(&mut self) {
        self.say(HEAD);
    }

    /// Tells of a run that has ended.
    pub fn row(&mut self, run: &Run) {
        self.say(&row(run));
    }

    /// Tells of one that begins.
    pub fn begin(&mut self, nth: usize, all: usize, jobs: u32, left: Option<Duration>) {
        let left = left.map(|left| format!(", about {} left", rough_duration(left))).unwrap_or_default();
        if let Some(progress) = &mut self.progress {
            let _ = write!(progress, "\r\x1b[K[{nth}/{all}] -j {jobs} runs{left}").and_then(|()| progress.flush());
        }
    }

    fn wipe(&mut self) {
        if let Some(progress) = &mut self.progress {
            let _ = progress.write_all(b"\r\x1b[K").and_then(|()| progress.flush());
        }
    }
}

fn row(run: &Run) -> String {
    let sample = &run.sample;
    let wall = sample.wall.as_secs_f64();
    let share = |time: Option<Duration>| show::percent(time.map(|time| time.as_secs_f64() / wall));
    format!(
        "{:>4} {:>10} {:>10} {:>10} {:>11} {:>16} {:>7} {:>5} {:>7} {:>7}\n",
        run.jobs,
        seconds(sample.wall.as_secs_f64()),
        seconds(sample.user.as_secs_f64()),
        seconds(sample.system.as_secs_f64()),
        show::memory(sample.peak_memory),
        share(sample.pressure.cpu),
        share(sample.pressure.memory),
        share(sample.pressure.io),
        show::percent(sample.conditions.background),
        show::percent(sample.conditions.stolen),
    )
}

/// How long the remaining runs will take: what such runs took, or the others where there was none, with all that comes
/// between runs as it was. None before there was any.
pub fn left(experiment: &Experiment, remaining: &[u32], spent: Duration, ran: Duration) -> Option<Duration> {
    let walls = experiment.walls();
    let mean = |walls: &[f64]| walls.iter().sum::<f64>() / walls.len() as f64;
    let all: Vec<f64> = walls.values().flatten().copied().collect();
    if all.is_empty() {
        return None;
    }
    let each = |count: &u32| walls.get(count).map_or(mean(&all), |walls| mean(walls));
    let sum: f64 = remaining.iter().map(each).sum();
    let beside = if ran.is_zero() { 1.0 } else { spent.as_secs_f64() / ran.as_secs_f64() };
    Duration::try_from_secs_f64(sum * beside.max(1.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::experiment::tests::experiment;

    #[test]
    fn rows_stand_under_their_heads() {
        let row = row(&experiment(&[(4, 12.5)]).runs[0]);
        assert_eq!(row.len(), HEAD.len(), "{row}");
        assert!(row.starts_with("   4    12.50 s    9.375 s    3.125 s      10 MiB                -"), "{row}");
    }

    #[test]
    fn what_is_left_is_guessed_from_what_was() {
        let it = experiment(&[(1, 20.0), (2, 10.0)]);
        let (spent, ran) = (Duration::from_secs(45), Duration::from_secs(30));
        assert_eq!(left(&it, &[1, 2, 4], spent, ran), Some(Duration::from_secs_f64((20.0 + 10.0 + 15.0) * 1.5)));
        assert_eq!(left(&experiment(&[]), &[1], spent, Duration::ZERO), None);
    }

    #[test]
    fn what_goes_on_is_shown_on_a_terminal_only() {
        let (mut out, mut screen) = (Vec::new(), Vec::new());
        let mut table = Table { out: &mut out, progress: Some(&mut screen) };
        table.begin(2, 9, 4, Some(Duration::from_secs(300)));
        table.row(&experiment(&[(4, 1.0)]).runs[0]);
        assert!(String::from_utf8_lossy(&screen).contains("[2/9] -j 4 runs, about 5 min left\r"), "{screen:?}");
        assert!(!out.contains(&0x1b));
        let mut table = Table { out: &mut out, progress: None };
        table.begin(1, 9, 4, None);
    }
}
