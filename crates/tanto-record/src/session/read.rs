//! Reads sessions. Nothing in the file is trusted.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tanto_exec::event::Level;
use tanto_exec::job::report::{ProcessInfo, Termination};
use tanto_exec::job::{ExecutedBy, Exit, JobId, JobInfo};
use tanto_exec::schedule::ThrottleReason;
use tanto_sys::fs::private_files;

use crate::jsonl::{self, Finished, Head, Kept, Line};

/// Longest session that is read, in bytes.
const LONGEST: u64 = 1 << 30;
/// Longest line, in bytes. The longest ones are of programs that link all files of a tree.
const LONGEST_LINE: u64 = 64 << 20;

/// The contents of a session.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Session {
    pub head: Head,
    /// Jobs that were started, and groups that were complete, in order.
    pub jobs: Vec<SessionJob>,
    /// Commands that did not run, with their estimates in milliseconds: a dependency failed, or the build ended before.
    pub plan: HashMap<JobId, Option<i64>>,
    /// Commands that were skipped because a dependency failed.
    pub skipped: usize,
    pub notices: Vec<(Level, Vec<u8>)>,
    /// Times of throttling, in order.
    pub pauses: Vec<Pause>,
    /// Start and end of the build, in milliseconds since the program started. A build without end was killed or is
    /// still running.
    pub started_ms: i64,
    /// See `started_ms`.
    pub finished_ms: Option<i64>,
    /// Time of the last event.
    pub last_ms: i64,
    /// Index into `jobs`.
    places: HashMap<JobId, usize>,
}

/// A job of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionJob {
    pub id: JobId,
    /// A group has no command.
    pub info: JobInfo,
    /// It had nothing to run.
    pub is_group: bool,
    /// Time of its start or, for a group, of its completion.
    pub start_ms: i64,
    /// `None` for a group, and for a command that was running when the build ended.
    pub end: Option<Finished>,
    /// Estimate, in milliseconds.
    pub expected_ms: Option<i64>,
    /// Set if the monitor terminated it.
    pub stopped: Option<Termination>,
    /// Processes that outlived it.
    pub left: Option<LeftBehind>,
}

/// Processes that outlived their command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftBehind {
    pub processes: Vec<ProcessInfo>,
    pub killed: bool,
}

/// A time in which throttling kept commands from starting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub why: ThrottleReason,
    pub start_ms: i64,
    /// `None` if it lasted until the end of the build.
    pub end_ms: Option<i64>,
}

impl SessionJob {
    /// Returns the duration in milliseconds; 0 without an end.
    pub fn wall_ms(&self) -> i64 {
        self.end.as_ref().map_or(0, |end| (end.end_ms - self.start_ms).max(0))
    }

    /// Returns the processor time in milliseconds.
    pub fn cpu_ms(&self) -> i64 {
        let us = self.end.as_ref().map_or(0, |end| end.usage.user_us.saturating_add(end.usage.system_us));
        i64::try_from(us / 1000).unwrap_or(i64::MAX)
    }

    pub fn executed_by(&self) -> ExecutedBy {
        self.end.as_ref().map(|end| end.executed_by).unwrap_or_default()
    }

    pub fn has_failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.exit != Exit::Code(0))
    }

    /// Returns the description, or the command, or the first output of a group.
    pub fn title(&self) -> &[u8] {
        let info = &self.info;
        let first = info.outputs.first().map_or(&b""[..], Vec::as_slice);
        [&info.description[..], &info.command[..], first].into_iter().find(|text| !text.is_empty()).unwrap_or(b"?")
    }
}

/// A message that explains why a session cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.0))]
pub struct SessionError(pub Vec<u8>);

impl Session {
    pub fn read(path: &Path) -> Result<Session, SessionError> {
        use std::os::unix::ffi::OsStrExt;
        let bad = |why: &[u8]| SessionError([path.as_os_str().as_bytes(), b": ", why].concat());
        let failed = |error| bad(&tanto_sys::error::text(&error));
        let file = private_files::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > LONGEST {
            return Err(bad(format!("longer than {} MiB", LONGEST >> 20).as_bytes()));
        }
        Session::parse(BufReader::with_capacity(1 << 16, file.take(LONGEST))).map_err(|SessionError(why)| bad(&why))
    }

    /// Parses lines. Ignores an incomplete last line: its writer was killed.
    pub fn parse(mut lines: impl BufRead) -> Result<Session, SessionError> {
        let mut session = Session::default();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let at = |why: &[u8]| SessionError([format!("line {number}: ").as_bytes(), why].concat());
            let read = lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            read.map_err(|error| at(&tanto_sys::error::text(&error)))?;
            if line.len() as u64 == LONGEST_LINE {
                return Err(at(format!("longer than {} MiB", LONGEST_LINE >> 20).as_bytes()));
            }
            let Some(line) = line.strip_suffix(b"\n") else { break };
            let known = jsonl::line(line).map_err(|wrong| at(wrong.0.as_bytes()))?;
            session.take(known, number == 1).map_err(|why| at(why.as_bytes()))?;
        }
        if session.head.version.is_empty() {
            Err(SessionError(b"not a session file: empty".into()))
        } else {
            Ok(session)
        }
    }

    /// Returns the job with this id, if it was started.
    pub fn job(&self, id: JobId) -> Option<&SessionJob> {
        self.places.get(&id).map(|&place| &self.jobs[place])
    }

    /// Returns the index of a job in `jobs`.
    pub fn index_of(&self, id: JobId) -> Option<usize> {
        self.places.get(&id).copied()
    }

    /// Returns the commands that were started.
    pub fn commands(&self) -> impl Iterator<Item = &SessionJob> {
        self.jobs.iter().filter(|job| !job.is_group)
    }

    /// Returns the end of the build or, if unknown, the time of the last event.
    pub fn end_ms(&self) -> i64 {
        self.finished_ms.unwrap_or(self.last_ms).max(self.started_ms)
    }

    fn take(&mut self, line: Line, is_first: bool) -> Result<(), String> {
        match line {
            Line::Head(head) if is_first => self.head = head,
            _ if is_first => return Err("not a session file: unexpected first line".into()),
            Line::Head(_) => return Err("unexpected second head line".into()),
            Line::Event(event) => self.event(event)?,
            Line::Unknown => {}
        }
        Ok(())
    }

    fn event(&mut self, event: Kept) -> Result<(), String> {
        match event {
            Kept::Planned { job, expected_ms } => drop(self.plan.insert(job, expected_ms)),
            Kept::Unplanned { job, .. } => drop(self.plan.remove(&job)),
            Kept::BuildStarted { at_ms, .. } => (self.started_ms, self.last_ms) = (at_ms, at_ms),
            Kept::Started { job, info, at_ms } => self.begin(job, info, at_ms, false)?,
            Kept::NothingToRun { job, info, at_ms } => self.begin(job, info, at_ms, true)?,
            Kept::Finished(end) => self.finish(end)?,
            Kept::Skipped { .. } => self.skipped += 1,
            Kept::Sampled { at_ms, .. } | Kept::Stage { at_ms, .. } | Kept::StateCounts { at_ms, .. } => {
                self.last_ms = self.last_ms.max(at_ms)
            }
            Kept::Terminated { job, termination: stopped } => self.known(job)?.stopped = Some(stopped),
            Kept::LeftBehind { job, processes, killed } => {
                self.known(job)?.left = Some(LeftBehind { processes, killed })
            }
            Kept::Throttled { reason: why, at_ms } => self.hold(why, at_ms),
            Kept::BuildFinished { at_ms } => self.finished_ms = Some(at_ms),
            Kept::Notice { level, text } => self.notices.push((level, text)),
        }
        Ok(())
    }

    fn begin(&mut self, id: JobId, info: JobInfo, start_ms: i64, is_group: bool) -> Result<(), String> {
        let planned = self.plan.remove(&id);
        let runs_again = |place: usize| planned.is_some() && self.jobs[place].end.is_some();
        if !self.places.get(&id).is_none_or(|&place| runs_again(place)) {
            return Err(format!("job {} starts twice", id.0));
        }
        self.places.insert(id, self.jobs.len());
        let expected_ms = planned.flatten();
        self.last_ms = self.last_ms.max(start_ms);
        self.jobs.push(SessionJob { id, info, is_group, start_ms, end: None, expected_ms, stopped: None, left: None });
        Ok(())
    }

    fn known(&mut self, id: JobId) -> Result<&mut SessionJob, String> {
        let place = self.places.get(&id).ok_or_else(|| format!("job {} was never started", id.0))?;
        Ok(&mut self.jobs[*place])
    }

    /// A new reason ends the previous pause.
    fn hold(&mut self, why: Option<ThrottleReason>, at_ms: i64) {
        self.last_ms = self.last_ms.max(at_ms);
        if let Some(last) = self.pauses.last_mut().filter(|last| last.end_ms.is_none()) {
            last.end_ms = Some(at_ms.max(last.start_ms));
        }
        self.pauses.extend(why.map(|why| Pause { why, start_ms: at_ms, end_ms: None }));
    }

    fn finish(&mut self, mut end: Finished) -> Result<(), String> {
        let job = self.places.get(&end.job).map(|&place| &mut self.jobs[place]);
        let Some(job) = job.filter(|job| !job.is_group && job.end.is_none()) else {
            return Err(format!("job {} ends without running", end.job.0));
        };
        end.end_ms = end.end_ms.max(job.start_ms);
        self.last_ms = self.last_ms.max(end.end_ms);
        job.end = Some(end);
        Ok(())
    }
}
