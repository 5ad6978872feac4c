//! Recorded output of commands.

use super::exit_text;
use crate::jsonl::Place;
use crate::session::{Session, SessionJob};
use crate::text::ansi;
use tanto_exec::text::units::duration;

/// Reads from the file with long output.
pub type Read<'r> = &'r dyn Fn(Place) -> Vec<u8>;

/// Returns the last run of the command that makes `output`, if it came to an end.
pub fn of<'s>(session: &'s Session, output: &[u8]) -> Option<&'s SessionJob> {
    let makes = |job: &&SessionJob| job.end.is_some() && job.info.outputs.iter().any(|it| it == output);
    session.jobs.iter().rev().filter(|job| !job.is_group).find(makes)
}

/// Returns the output of all commands that printed something or failed. Without `color`, control sequences are left out.
pub fn all(session: &Session, read: Read<'_>, color: bool) -> Vec<u8> {
    let has_text = |job: &&SessionJob| job.has_failed() || job.end.as_ref().is_some_and(|end| !end.output.is_empty());
    let texts: Vec<Vec<u8>> = session.commands().filter(has_text).map(|job| entry(job, read, color)).collect();
    if texts.is_empty() {
        return b"no command of the last build printed anything or failed\n".to_vec();
    }
    texts.join(&b'\n')
}

fn entry(job: &SessionJob, read: Read<'_>, color: bool) -> Vec<u8> {
    let mut text = head(job);
    if job.has_failed() && job.title() != job.info.command {
        text.extend_from_slice(&job.info.command);
        text.push(b'\n');
    }
    text.extend(printed(job, read, color));
    text
}

/// Returns a line that names the command and says how it ended.
pub fn head(job: &SessionJob) -> Vec<u8> {
    let how = format!(": {} after {}\n", exit_text(job), duration(job.wall_ms()));
    [job.title(), how.as_bytes()].concat()
}

/// Returns what a command printed, with a line where the record lacks something.
pub fn printed(job: &SessionJob, read: Read<'_>, color: bool) -> Vec<u8> {
    let Some(end) = &job.end else { return Vec::new() };
    let total = end.left_out.saturating_add(end.output.len() as u64);
    let (bytes, wanted) = match end.place {
        Some(place) => (read(place), usize::try_from(place.length).unwrap_or(usize::MAX)),
        None => (end.output.clone(), end.output.len()),
    };
    // The file of a build that was killed may end early.
    let gap = if bytes.len() < wanted { bytes.len() } else { wanted.div_ceil(2) };
    let missing = total.saturating_sub(bytes.len() as u64);
    let mut text = bytes;
    if missing > 0 {
        let between = format!("\n[... {missing} bytes were not recorded ...]\n");
        text.splice(gap..gap, between.into_bytes());
    }
    if text.last().is_some_and(|&last| last != b'\n') {
        text.push(b'\n');
    }
    if color { text } else { ansi::strip(&text).into_owned() }
}
