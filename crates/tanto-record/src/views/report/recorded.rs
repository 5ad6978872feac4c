//! Reports on recorded builds: looks the sessions up and prints them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::command_output::CommandOutput;
use tanto_exec::job::ExecutedBy;
use tanto_exec::startup::Startup;

use super::timings::{ProgramStarts, Timings, is_comparable};
use super::{output, session_list};
use crate::session::{FindSessionError, Session, SessionError, Sessions};
use crate::views::html;

/// Number of sessions listed. The file of each has to be read.
const MAX_LISTED: usize = 30;

/// Number of programs whose startup cost is measured, the most used first.
const MAX_MEASURED: usize = 8;

/// Number of earlier sessions that are searched for a comparable one.
const MAX_SEARCHED: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Find(#[from] FindSessionError),
    #[error(transparent)]
    Read(#[from] SessionError),
    #[error("no session has a command that made '{0}': 'tanto report sessions' lists the sessions")]
    NoOutput(String),
    #[error("writing {path}: {cause}")]
    Write { path: String, cause: String },
}

/// A form of the timings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimingsForm<'a> {
    Text,
    Json,
    /// A page in this file.
    Html(&'a Path),
}

/// Returns the name and the content of a session.
pub fn find(all: &Sessions, meant: &[u8]) -> Result<(String, Session), ReportError> {
    let name = all.find(meant)?;
    let session = read(all, &name)?;
    Ok((name, session))
}

/// The output of one command, with a line about it on standard error; without a file, of all commands of the last
/// build.
pub fn command_output(all: &Sessions, file: Option<&[u8]>, color: bool) -> Result<CommandOutput, ReportError> {
    let Some(file) = file else {
        let (name, session) = find(all, b"1")?;
        let text = output::all(&session, &|place| all.read_output(&name, place), color);
        return Ok(CommandOutput::printed(text, 0));
    };
    let names = all.list().into_iter().rev().map(|entry| entry.name);
    // Unreadable sessions are skipped.
    for name in names.filter(|name| all.may_contain_output(name, file)) {
        let Ok(session) = read(all, &name) else { continue };
        if let Some(job) = output::of(&session, file) {
            let out = output::printed(job, &|place| all.read_output(&name, place), color);
            let err = [name.as_bytes(), b": ", &output::head(job)].concat();
            return Ok(CommandOutput { out, err, code: 0 });
        }
    }
    Err(ReportError::NoOutput(String::from_utf8_lossy(file).into_owned()))
}

/// Lists the last sessions.
pub fn listed(all: &Sessions) -> Vec<u8> {
    let entries = all.list();
    if entries.is_empty() {
        return b"no sessions yet: builds that run commands are recorded\n".into();
    }
    let older = entries.len().saturating_sub(MAX_LISTED);
    let read: Vec<_> = entries[older..].iter().map(|entry| (&entry.name[..], read(all, &entry.name).ok())).collect();
    let mut text = session_list(read.iter().map(|(name, session)| (*name, session.as_ref())));
    if older > 0 {
        text.extend_from_slice(format!("and {older} older ones\n").as_bytes());
    }
    text
}

/// Where the time of a session went, compared with `against`, or else with the last comparable session.
pub fn timings(
    all: &Sessions,
    session: &[u8],
    against: Option<&[u8]>,
    form: TimingsForm<'_>,
) -> Result<Vec<u8>, ReportError> {
    let (name, session) = find(all, session)?;
    let earlier = match against {
        Some(other) => Some(find(all, other)?),
        None => comparable(all, &name, &session),
    };
    let earlier = earlier.as_ref().map(|(name, session)| (&name[..], session));
    let timings = Timings::new(&name, &session, earlier).with_starts(program_starts(&session));
    match form {
        TimingsForm::Text => Ok(timings.text()),
        TimingsForm::Json => Ok(timings.json()),
        TimingsForm::Html(file) => {
            fs::write(file, html::html(&timings)).map_err(|error| ReportError::Write {
                path: file.display().to_string(),
                cause: String::from_utf8_lossy(&tanto_sys::error::text(&error)).into_owned(),
            })?;
            Ok([b"wrote ", file.as_os_str().as_bytes(), b"\n"].concat())
        }
    }
}

fn read(all: &Sessions, name: &str) -> Result<Session, SessionError> {
    Session::read(&all.path(name))
}

/// The programs that the commands of a session started, with their startup costs.
fn program_starts(session: &Session) -> Vec<ProgramStarts> {
    let dir = Path::new(OsStr::from_bytes(&session.head.dir));
    let mut startup = Startup::in_own_environment();
    let mut counts: HashMap<PathBuf, (u64, u64)> = HashMap::new();
    for job in session.commands() {
        let Some(program) = startup.program_of(&job.info.command, dir) else { continue };
        let (started, avoided) = counts.entry(program).or_default();
        *(if job.executed_by() == ExecutedBy::Process { started } else { avoided }) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(program, (started, avoided))| (Reverse(started + avoided), program.clone()));
    let of = |(program, (started, avoided)): (PathBuf, _)| {
        let each_us = startup.cost_us(&program)?;
        Some(ProgramStarts { program: program.into_os_string().into_vec(), started, avoided, each_us })
    };
    counts.into_iter().take(MAX_MEASURED).filter_map(of).collect()
}

/// The last earlier session with mostly the same commands.
fn comparable(all: &Sessions, name: &str, session: &Session) -> Option<(String, Session)> {
    let earlier = all.list().into_iter().rev().map(|entry| entry.name).skip_while(|other| other != name).skip(1);
    earlier.take(MAX_SEARCHED).find_map(|other| {
        let read = read(all, &other).ok().filter(|other| is_comparable(session, other))?;
        Some((other, read))
    })
}
