//! One command that runs, what it prints and how it ends. Does not know what is said of it.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::job::report::{MonitorReport, ProcessInfo};
use tanto_exec::monitor::watcher::{Leftovers, WatchEvent, Watcher};
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::process::procs;
use tanto_sys::signals::TerminationSignals;
use tanto_sys::terminal;

use tanto_exec::text::tail::Tail;

/// The only one.
const JOB: JobId = JobId(0);
/// How long others may hold the command's output when it has ended, unless they are to be ignored.
const HOLD: Duration = Duration::from_secs(1);
/// How often a process is looked after whose end cannot be polled for (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(10);
const SIGINT: i32 = 2;

/// How it all ended.
pub struct Ended {
    /// What Tanto exits with.
    pub code: u8,
    /// What the monitor has found.
    pub report: Option<MonitorReport>,
    /// The processes that are still there.
    pub left: Vec<ProcessInfo>,
    /// The end of what went through our hands.
    pub last_lines: Vec<u8>,
}

/// A command under way.
pub struct Running {
    child: Child,
    /// How and when it ended.
    ended: Option<(ExitStatus, Instant)>,
    handle: Option<OwnedFd>,
    streams: Vec<Stream>,
    watcher: Watcher,
    leftovers: Leftovers,
    endings: TerminationSignals,
    tail: Tail,
}

/// One of its outputs, on its way to ours.
struct Stream {
    from: File,
    to: Box<dyn Write>,
}

impl Stream {
    fn new(from: impl Into<OwnedFd>, to: Box<dyn Write>) -> Stream {
        Stream { from: File::from(from.into()), to }
    }
}

impl Running {
    /// Starts it. A stream of ours that is a terminal it gets itself; the others are passed on.
    pub fn start(mut command: Command, mut watcher: Watcher, leftovers: Leftovers) -> io::Result<Running> {
        let endings = TerminationSignals::listen()?;
        let through = |is_terminal: bool| if is_terminal { Stdio::inherit() } else { Stdio::piped() };
        command.stdout(through(io::stdout().is_terminal())).stderr(through(io::stderr().is_terminal()));
        let (name, mark) = watcher.marker(JOB);
        // It is put into its group when it runs: this way of starting it has no room for more.
        drop(watcher.create_cgroup(JOB, Cost::default(), None));
        let mut child = command.env(name, mark).spawn()?;
        watcher.started(JOB, child.id(), None);
        let out = child.stdout.take().map(|from| Stream::new(from, Box::new(io::stdout())));
        let err = child.stderr.take().map(|from| Stream::new(from, Box::new(io::stderr())));
        Ok(Running {
            handle: procs::pidfd(child.id()),
            child,
            ended: None,
            streams: out.into_iter().chain(err).collect(),
            watcher,
            leftovers,
            endings,
            tail: Tail::default(),
        })
    }

    /// Waits for its end, or brings it about.
    pub fn finish(mut self) -> io::Result<Ended> {
        while !self.is_over() {
            self.turn()?;
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
        Ok(Ended { code, report, left, last_lines: self.tail.lines() })
    }

    /// It has ended, and nobody holds its output. Who does so for long was left behind by it.
    fn is_over(&self) -> bool {
        let Some((_, since)) = self.ended else { return false };
        self.streams.is_empty() || (self.leftovers != Leftovers::Ignore && since.elapsed() >= HOLD)
    }

    /// Waits until something happens, and does what there is to do about it.
    fn turn(&mut self) -> io::Result<()> {
        let mut watches: Vec<Watch> = vec![Watch::new(&self.endings)];
        watches.extend(self.streams.iter().map(|stream| Watch::new(&stream.from)));
        watches.extend(self.handle.iter().map(Watch::new));
        poll::wait(&mut watches, self.patience())?;
        if watches[0].ready() || self.endings.is_pending() {
            self.hand_on();
        }
        // From the last, so that those before it keep their places.
        for at in (0..self.streams.len()).rev() {
            if watches[1 + at].ready() && !self.pass_on(at)? {
                self.streams.remove(at);
            }
        }
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            self.ended = Some((status, Instant::now()));
            self.handle = None;
        }
        Ok(())
    }

    fn patience(&self) -> Option<Duration> {
        let blind = (self.ended.is_none() && self.handle.is_none()).then_some(LOOK_EVERY);
        let held = self.ended.filter(|_| self.leftovers != Leftovers::Ignore);
        let held = held.map(|(_, since)| HOLD.saturating_sub(since.elapsed()));
        self.watcher.until_due().into_iter().chain(blind).chain(held).min()
    }

    /// Passes on what one of its outputs has; false at its end.
    fn pass_on(&mut self, at: usize) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let stream = &mut self.streams[at];
        let length = match stream.from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            read => read?,
        };
        let text = &buffer[..length];
        // Whoever reads us may be gone: the command need not be.
        let _ = stream.to.write_all(text).and_then(|()| stream.to.flush());
        self.tail.push(text);
        if length > 0 {
            self.watcher.record_output(JOB);
        }
        Ok(length > 0)
    }

    /// Tells it of a signal that was meant to end us, unless its terminal has told it already.
    fn hand_on(&mut self) {
        let Some(signal) = self.endings.take() else { return };
        let told = signal == SIGINT && terminal::is_foreground();
        if let Some(look) = procs::stat(self.child.id()).filter(|_| !told && self.ended.is_none()) {
            // It may be gone, or somebody else's.
            let _ = procs::signal(look.process, signal);
        }
    }
}
