//! A monitored command: starts it, passes on its output and signals, and waits for its end.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::process::procs;
use tanto_sys::signals::TerminationSignals;
use tanto_sys::terminal;

use crate::job::report::{MonitorReport, ProcessInfo};
use crate::job::{Cost, JobId};
use crate::monitor::watcher::{Leftovers, WatchEvent, Watcher};
use crate::text::tail::Tail;

/// The id of the only job.
const JOB: JobId = JobId(0);
/// How long other processes may hold the command's output open after its end, unless leftovers are ignored.
const HOLD: Duration = Duration::from_secs(1);
/// Polling interval without pidfd (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(10);
const SIGINT: i32 = 2;

/// The result of a command.
pub struct CommandResult {
    /// The exit code of Tanto.
    pub code: u8,
    pub report: Option<MonitorReport>,
    /// Processes that outlived the command.
    pub left: Vec<ProcessInfo>,
    /// The last lines of output that was not written to a terminal.
    pub last_lines: Vec<u8>,
}

/// A running command.
pub struct RunningCommand {
    child: Child,
    /// Its status and the time of its end.
    ended: Option<(ExitStatus, Instant)>,
    /// Becomes readable at the end of the command. `None` before Linux 5.3.
    pidfd: Option<OwnedFd>,
    streams: Vec<Stream>,
    watcher: Watcher,
    leftovers: Leftovers,
    signals: TerminationSignals,
    tail: Tail,
}

/// One output of the command and its copy's destination.
struct Stream {
    from: File,
    to: Box<dyn Write>,
}

impl Stream {
    fn new(from: impl Into<OwnedFd>, to: Box<dyn Write>) -> Stream {
        Stream { from: File::from(from.into()), to }
    }
}

impl RunningCommand {
    /// Starts the command. It inherits an output that is a terminal; other output is copied.
    pub fn start(mut command: Command, mut watcher: Watcher, leftovers: Leftovers) -> io::Result<RunningCommand> {
        let signals = TerminationSignals::listen()?;
        let through = |is_terminal: bool| if is_terminal { Stdio::inherit() } else { Stdio::piped() };
        command.stdout(through(io::stdout().is_terminal())).stderr(through(io::stderr().is_terminal()));
        let (name, mark) = watcher.marker(JOB);
        // `Command` cannot start a process in a control group: it is moved there once it runs.
        drop(watcher.create_cgroup(JOB, Cost::default(), None));
        let mut child = command.env(name, mark).spawn()?;
        watcher.started(JOB, child.id(), None);
        let out = child.stdout.take().map(|from| Stream::new(from, Box::new(io::stdout())));
        let err = child.stderr.take().map(|from| Stream::new(from, Box::new(io::stderr())));
        Ok(RunningCommand {
            pidfd: procs::pidfd(child.id()),
            child,
            ended: None,
            streams: out.into_iter().chain(err).collect(),
            watcher,
            leftovers,
            signals,
            tail: Tail::default(),
        })
    }

    /// Waits until the command has ended, or terminates it on a timeout.
    pub fn finish(mut self) -> io::Result<CommandResult> {
        while !self.is_over() {
            self.step()?;
            if self.watcher.poll() == Some(WatchEvent::Abandoned(JOB)) {
                break;
            }
        }
        let report = self.watcher.ended(JOB).map(|report| *report);
        let stopped = report.as_ref().and_then(|report| report.termination.as_ref());
        let code = match (stopped, self.ended) {
            (Some(stopped), _) => stopped.reason.exit_code(),
            (None, Some((status, _))) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            (None, None) => 1,
        };
        let left = self.watcher.leftovers().into_iter().flat_map(|(_, left)| left).collect();
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        Ok(CommandResult { code, report, left, last_lines: self.tail.lines() })
    }

    /// The command has ended, and its output is closed or held open by leftover processes.
    fn is_over(&self) -> bool {
        let Some((_, since)) = self.ended else { return false };
        self.streams.is_empty() || (self.leftovers != Leftovers::Ignore && since.elapsed() >= HOLD)
    }

    /// Waits for one event and handles it.
    fn step(&mut self) -> io::Result<()> {
        let mut watches: Vec<Watch> = vec![Watch::new(&self.signals)];
        watches.extend(self.streams.iter().map(|stream| Watch::new(&stream.from)));
        watches.extend(self.pidfd.iter().map(Watch::new));
        poll::wait(&mut watches, self.poll_timeout())?;
        if watches[0].ready() || self.signals.is_pending() {
            self.forward_signal();
        }
        // Backwards, because closed streams are removed.
        for at in (0..self.streams.len()).rev() {
            if watches[1 + at].ready() && !self.copy_output(at)? {
                self.streams.remove(at);
            }
        }
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            self.ended = Some((status, Instant::now()));
            self.pidfd = None;
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let polling = (self.ended.is_none() && self.pidfd.is_none()).then_some(LOOK_EVERY);
        let held = self.ended.filter(|_| self.leftovers != Leftovers::Ignore);
        let held = held.map(|(_, since)| HOLD.saturating_sub(since.elapsed()));
        self.watcher.until_due().into_iter().chain(polling).chain(held).min()
    }

    /// Copies available output; `false` at the end of the stream.
    fn copy_output(&mut self, at: usize) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let stream = &mut self.streams[at];
        let length = match stream.from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            read => read?,
        };
        let text = &buffer[..length];
        // A closed output of Tanto does not end the command.
        let _ = stream.to.write_all(text).and_then(|()| stream.to.flush());
        self.tail.push(text);
        if length > 0 {
            self.watcher.record_output(JOB);
        }
        Ok(length > 0)
    }

    /// Sends the command a termination signal that Tanto got, unless the terminal has sent it already.
    fn forward_signal(&mut self) {
        let Some(signal) = self.signals.take() else { return };
        let was_sent = signal == SIGINT && terminal::is_foreground();
        if let Some(stat) = procs::stat(self.child.id()).filter(|_| !was_sent && self.ended.is_none()) {
            // The process may have ended.
            let _ = procs::signal(stat.process, signal);
        }
    }
}
