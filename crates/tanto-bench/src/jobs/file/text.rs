//! Timings as plain text: comments, then lines of a number of jobs and seconds, which gnuplot can draw.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::{FileError, Timings};
use crate::jobs::experiment::{Experiment, JobsRun, Setup};

/// `path` is the name of the file in its gnuplot command.
pub fn write(experiment: &Experiment, path: &Path) -> String {
    let mut text = head(&experiment.setup, path);
    for (jobs, times) in experiment.wall_times() {
        for wall in times {
            let _ = writeln!(text, "{jobs}  {wall:.3}");
        }
    }
    text
}

/// Returns the lines that `--append` adds for a run.
pub fn appended(run: &JobsRun) -> String {
    let (jobs, wall) = (run.jobs, run.sample.wall.as_secs_f64());
    let plural = if jobs == 1 { "" } else { "s" };
    format!("# Compiling with {jobs} simultaneous job{plural}\n{jobs}  {wall:.3}\n")
}

/// Returns the comments at the start of the file `path`.
pub fn head(setup: &Setup, path: &Path) -> String {
    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
    let mut text = String::new();
    let _ = writeln!(text, "# Timings of {}", one_line(&setup.command));
    let _ = writeln!(text, "# Processors: {}", setup.machine.processors);
    let _ = writeln!(text, "# Affinity mask: {} ({})", setup.cpus.hex(), setup.cpus);
    let _ = writeln!(text, "# CPU: {}", one_line(&setup.machine.model));
    let virtually = if setup.machine.is_virtual { ", in a virtual machine" } else { "" };
    let _ = writeln!(
        text,
        "# Machine: {} MiB of memory, {}{virtually}",
        setup.machine.memory_kib >> 10,
        setup.machine.kernel
    );
    for line in &setup.prepare_once {
        let _ = writeln!(text, "# Prepared once by: {}", one_line(line));
    }
    for line in &setup.prepare {
        let _ = writeln!(text, "# Prepared by: {}", one_line(line));
    }
    let controls: Vec<String> = setup.controls.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(text, "# Controls: {}", controls.join(", "));
    let _ = writeln!(text, "# {}", gnuplot(path));
    text
}

/// Returns the gnuplot command that draws the file.
pub fn gnuplot(path: &Path) -> String {
    let name = path.display().to_string().replace('\'', "''");
    format!(
        "gnuplot -p -e \"set xlabel 'jobs'; set ylabel 'seconds'; set yrange [0:]; plot '{name}' notitle with points\""
    )
}

/// Parses lines of a number of jobs and a time; further columns are ignored. Times are seconds, minutes and seconds
/// (`3:20.5`, `3m20.5s`), or the output of `time`. After a comment `# Compiling with N simultaneous jobs`, the number of
/// jobs may be missing.
pub fn read(text: &[u8]) -> Result<Timings, FileError> {
    let text = String::from_utf8_lossy(text);
    let mut title = String::new();
    let mut compiling = None;
    let mut points: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let skipped = line.is_empty() || (compiling.is_some() && is_other_time(line));
        if let Some(comment) = line.strip_prefix('#') {
            title = comment.trim().strip_prefix("Timings of ").map_or(title, |name| name.trim().to_owned());
            compiling = compiling_with(comment).or(compiling);
        } else if !skipped {
            let (jobs, seconds) = point(line, compiling)
                .ok_or_else(|| FileError::InvalidLine { line: number, text: line.escape_debug().to_string() })?;
            points.entry(jobs).or_default().push(seconds);
        }
    }
    if points.is_empty() {
        return Err(FileError::Empty);
    }
    Ok(Timings { title, points: points.into_iter().collect() })
}

/// Parses `Compiling with N simultaneous jobs`.
fn compiling_with(comment: &str) -> Option<u32> {
    let rest = comment.trim().strip_prefix("Compiling with ")?;
    let (count, rest) = rest.split_once(' ')?;
    rest.starts_with("simultaneous job").then(|| count.parse().ok()).flatten().filter(|&count| count > 0)
}

/// Returns whether the line is processor time printed by the shell's `time`.
fn is_other_time(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    matches!(words.next(), Some("user" | "sys")) && words.next().is_some_and(|word| seconds(word).is_some())
}

fn point(line: &str, compiling: Option<u32>) -> Option<(u32, f64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let positive = |time: f64| (time > 0.0 && time < 1e9).then_some(time);
    // The output of the shell's `time`, or of GNU `time`.
    let elapsed = words.iter().find_map(|word| word.strip_suffix("elapsed"));
    let alone = match *words.as_slice() {
        ["real", time] | [time] => Some(time),
        _ => elapsed,
    };
    if let (Some(jobs), Some(time)) = (compiling, alone) {
        return Some((jobs, positive(seconds(time)?)?));
    }
    let jobs = words.first()?.parse().ok().filter(|&jobs| jobs > 0)?;
    Some((jobs, positive(seconds(words.get(1)?)?)?))
}

/// Parses `200.5`, `200.5s`, `3:20.5` or `3m20.5s`.
fn seconds(time: &str) -> Option<f64> {
    let time = time.strip_suffix('s').unwrap_or(time);
    let (minutes, seconds) = time.split_once([':', 'm']).unwrap_or(("0", time));
    Some(60.0 * f64::from(minutes.parse::<u32>().ok()?) + seconds.parse::<f64>().ok()?)
}
