//! A session, read: what happened to each job. Does not know what is shown of it. Nothing in the file is trusted.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tanto_exec::event::Level;
use tanto_exec::job::report::{ProcessInfo, Termination};
use tanto_exec::job::{ExecutedBy, Exit, JobId, JobInfo};
use tanto_exec::schedule::ThrottleReason;
use tanto_sys::fs::private_files;

use crate::jsonl::{self, Finished, Head, Kept, Line};

/// A longer session is not read, in bytes; none of ours is.
const LONGEST: u64 = 1 << 30;
/// A longer line neither. The longest of ours tells of a program that is linked from all files of a tree.
const LONGEST_LINE: u64 = 64 << 20;

/// What one session tells.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Session {
    /// Whose it is.
    pub head: Head,
    /// Jobs that were started, and groups that were complete, in the order in which that happened.
    pub jobs: Vec<SessionJob>,
    /// Commands that were to run and did not, and what they were expected to take, in milliseconds: what they need had
    /// failed, or the build ended before their turn came.
    pub plan: HashMap<JobId, Option<i64>>,
    /// Commands that were not started because one that they waited for failed.
    pub skipped: usize,
    /// What was said beside: how loud, and the text.
    pub notices: Vec<(Level, Vec<u8>)>,
    /// When nothing more was started, in the order of time.
    pub pauses: Vec<Pause>,
    /// When the build began and ended, in milliseconds since the program started. One that has no end was killed, or is
    /// still under way.
    pub started_ms: i64,
    /// See `started_ms`.
    pub finished_ms: Option<i64>,
    /// When something was last heard of it.
    pub last_ms: i64,
    /// By number: where in `jobs` it is.
    places: HashMap<JobId, usize>,
}

/// One job of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionJob {
    /// Its number.
    pub id: JobId,
    /// What it was. A group has no command.
    pub info: JobInfo,
    /// It had nothing to run.
    pub is_group: bool,
    /// When it was started, or complete.
    pub start_ms: i64,
    /// How it ended; none for a group, and for one that was still running when the build ended.
    pub end: Option<Finished>,
    /// What it was expected to take, in milliseconds.
    pub expected_ms: Option<i64>,
    /// It was ended because it hung or took too much.
    pub stopped: Option<Termination>,
    /// Processes that outlived it, if any did.
    pub left: Option<LeftBehind>,
}

/// Processes that outlived their command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftBehind {
    /// Which.
    pub processes: Vec<ProcessInfo>,
    /// They were killed.
    pub killed: bool,
}

/// A time in which nothing more was started, though there were slots and commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Why.
    pub why: ThrottleReason,
    /// When it began.
    pub start_ms: i64,
    /// When it was over; none if that was not said before the end of the build.
    pub end_ms: Option<i64>,
}

impl SessionJob {
    /// How long it ran, in milliseconds; 0 for what did not end.
    pub fn wall_ms(&self) -> i64 {
        self.end.as_ref().map_or(0, |end| (end.end_ms - self.start_ms).max(0))
    }

    /// Processor time, in milliseconds.
    pub fn cpu_ms(&self) -> i64 {
        let us = self.end.as_ref().map_or(0, |end| end.usage.user_us.saturating_add(end.usage.system_us));
        i64::try_from(us / 1000).unwrap_or(i64::MAX)
    }

    /// What ran it, as far as it is known.
    pub fn executed_by(&self) -> ExecutedBy {
        self.end.as_ref().map(|end| end.executed_by).unwrap_or_default()
    }

    /// Did it end, and badly?
    pub fn has_failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.exit != Exit::Code(0))
    }

    /// What to call it: its description or command, or the first output of a group.
    pub fn title(&self) -> &[u8] {
        let info = &self.info;
        let first = info.outputs.first().map_or(&b""[..], Vec::as_slice);
        [&info.description[..], &info.command[..], first].into_iter().find(|text| !text.is_empty()).unwrap_or(b"?")
    }
}

/// Why a session cannot be read, for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionError(pub Vec<u8>);

impl Session {
    /// Reads a session's file.
    pub fn read(path: &Path) -> Result<Session, SessionError> {
        use std::os::unix::ffi::OsStrExt;
        let bad = |why: &[u8]| SessionError([path.as_os_str().as_bytes(), b": ", why].concat());
        let failed = |error| bad(&tanto_sys::error::text(&error));
        let file = private_files::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > LONGEST {
            return Err(bad(format!("longer than {} MiB", LONGEST >> 20).as_bytes()));
        }
        Session::of(BufReader::with_capacity(1 << 16, file.take(LONGEST))).map_err(|SessionError(why)| bad(&why))
    }

    /// Reads lines. The last one counts only if it has its end: whoever was about to write it was killed.
    pub fn of(mut lines: impl BufRead) -> Result<Session, SessionError> {
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
        if session.head.version.is_empty() { Err(SessionError(b"no session".into())) } else { Ok(session) }
    }

    /// The job with this number, if it was started.
    pub fn job(&self, id: JobId) -> Option<&SessionJob> {
        self.places.get(&id).map(|&place| &self.jobs[place])
    }

    /// Where a job is in `jobs`.
    pub fn place(&self, id: JobId) -> Option<usize> {
        self.places.get(&id).copied()
    }

    /// Commands that were started.
    pub fn commands(&self) -> impl Iterator<Item = &SessionJob> {
        self.jobs.iter().filter(|job| !job.is_group)
    }

    /// When the build ended or, if that is not known, when something was last heard of it.
    pub fn end_ms(&self) -> i64 {
        self.finished_ms.unwrap_or(self.last_ms).max(self.started_ms)
    }

    fn take(&mut self, line: Line, is_first: bool) -> Result<(), String> {
        match line {
            Line::Head(head) if is_first => self.head = head,
            _ if is_first => return Err("no session: its first line is not what it is to be".into()),
            Line::Head(_) => return Err("a second session begins".into()),
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
            return Err(format!("job {} begins again", id.0));
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

    /// One reason ends where the next one begins.
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
            return Err(format!("job {} ends, but does not run", end.job.0));
        };
        end.end_ms = end.end_ms.max(job.start_ms);
        self.last_ms = self.last_ms.max(end.end_ms);
        job.end = Some(end);
        Ok(())
    }
}
