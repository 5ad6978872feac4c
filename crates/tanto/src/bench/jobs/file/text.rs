//! Timings as plain text: a head of comments, then lines of a number of jobs and seconds, which gnuplot draws as they
//! are. Files of others in that form are read too. Does not know what else was measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::Timings;
use crate::bench::jobs::experiment::{Experiment, Run, Setup};

/// Writes it, for a file of this name.
pub fn write(experiment: &Experiment, path: &Path) -> String {
    let mut text = head(&experiment.setup, path);
    for (jobs, walls) in experiment.walls() {
        for wall in walls {
            let _ = writeln!(text, "{jobs}  {wall:.3}");
        }
    }
    text
}

/// A run as `--append` adds it.
pub fn appended(run: &Run) -> String {
    let (jobs, wall) = (run.jobs, run.sample.wall.as_secs_f64());
    let plural = if jobs == 1 { "" } else { "s" };
    format!("# Compiling with {jobs} simultaneous job{plural}\n{jobs}  {wall:.3}\n")
}

/// The comments above the runs, in a file of this name.
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

/// The line that draws such a file.
pub fn gnuplot(path: &Path) -> String {
    let name = path.display().to_string().replace('\'', "''");
    format!(
        "gnuplot -p -e \"set xlabel 'jobs'; set ylabel 'seconds'; set yrange [0:]; plot '{name}' notitle with points\""
    )
}

/// Reads it, or what others have written. Comments begin with `#`; times are seconds, minutes and seconds (`3:20.5`,
/// `3m20.5s`), or what `time` printed. After a comment `Compiling with N simultaneous jobs` a line may have the time alone;
/// more columns than two are ignored. An error is a text for the user.
pub fn read(text: &[u8]) -> Result<Timings, Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let mut title = String::new();
    let mut compiling = None;
    let mut points: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let skipped = line.is_empty() || (compiling.is_some() && is_other_time(line));
        if let Some(comment) = line.strip_prefix('#') {
            title = comment.trim().strip_prefix("Timings of ").map_or(title, |what| what.trim().to_owned());
            compiling = compiling_with(comment).or(compiling);
        } else if !skipped {
            let (jobs, seconds) = point(line, compiling).ok_or_else(|| {
                format!("line {number}: expected a number of jobs and seconds, not '{}'", line.escape_debug())
            })?;
            points.entry(jobs).or_default().push(seconds);
        }
    }
    if points.is_empty() {
        return Err(b"no timings in it".into());
    }
    Ok(Timings { title, points: points.into_iter().collect() })
}

/// The number in `Compiling with N simultaneous jobs`.
fn compiling_with(comment: &str) -> Option<u32> {
    let rest = comment.trim().strip_prefix("Compiling with ")?;
    let (count, rest) = rest.split_once(' ')?;
    rest.starts_with("simultaneous job").then(|| count.parse().ok()).flatten().filter(|&count| count > 0)
}

/// Processor time, which the shell's `time` prints beside the time that counts.
fn is_other_time(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    matches!(words.next(), Some("user" | "sys")) && words.next().is_some_and(|word| seconds(word).is_some())
}

fn point(line: &str, compiling: Option<u32>) -> Option<(u32, f64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let positive = |time: f64| (time > 0.0 && time < 1e9).then_some(time);
    // What `time` prints by itself, of the shell and of GNU.
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

/// `200.5`, `200.5s`, `3:20.5` or `3m20.5s`.
fn seconds(time: &str) -> Option<f64> {
    let time = time.strip_suffix('s').unwrap_or(time);
    let (minutes, seconds) = time.split_once([':', 'm']).unwrap_or(("0", time));
    Some(60.0 * f64::from(minutes.parse::<u32>().ok()?) + seconds.parse::<f64>().ok()?)
}
