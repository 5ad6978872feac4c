//! Timings as plain text: a head of comments, then lines of a number of jobs and seconds, which gnuplot draws as they
//! are. Files of others in that form are read too. Does not know what else was measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::Timings;
use crate::bench::jobs::experiment::Experiment;

/// Writes it, for a file of this name.
pub fn write(experiment: &Experiment, path: &Path) -> String {
    let setup = &experiment.setup;
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
    for (jobs, walls) in experiment.walls() {
        for wall in walls {
            let _ = writeln!(text, "{jobs}  {wall:.3}");
        }
    }
    text
}

/// The line that draws such a file.
pub fn gnuplot(path: &Path) -> String {
    let name = path.display().to_string().replace('\'', "''");
    format!(
        "gnuplot -p -e \"set xlabel 'jobs'; set ylabel 'seconds'; set yrange [0:]; plot '{name}' notitle with points\""
    )
}

/// Reads it, or what others have written: comments begin with `#`, times are seconds or minutes and seconds. An error
/// is a text for the user.
pub fn read(text: &[u8]) -> Result<Timings, Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let mut title = String::new();
    let mut points: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            title = comment.trim().strip_prefix("Timings of ").map_or(title, |what| what.trim().to_owned());
        } else if !line.is_empty() {
            let (jobs, seconds) = point(line).ok_or_else(|| {
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

fn point(line: &str) -> Option<(u32, f64)> {
    let mut words = line.split_ascii_whitespace();
    let jobs = words.next()?.parse().ok().filter(|&jobs| jobs > 0)?;
    let time = words.next()?;
    let (minutes, seconds) = time.split_once(':').unwrap_or(("0", time));
    let seconds = 60.0 * f64::from(minutes.parse::<u32>().ok()?) + seconds.parse::<f64>().ok()?;
    (seconds > 0.0 && seconds < 1e9).then_some((jobs, seconds))
}
