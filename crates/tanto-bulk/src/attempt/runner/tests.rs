//! Attempts on a runner without processes, whose commands end as a test says.

mod explicit;
mod model;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tanto_exec::clock::FakeClock;
use tanto_exec::job::Usage;
use tanto_exec::job::report::JobSample;
use tanto_testing::Scratch;

use super::*;
use crate::config::Config;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Succeeds,
    Fails,
    /// A process of the package sent the signal that interrupts builds.
    Interrupted,
    Killed,
    DiskFull,
    /// It wants to be another user.
    Owner,
    Hung,
    UsesCpu,
}

impl Fate {
    const ALL: [Fate; 8] = [
        Fate::Succeeds,
        Fate::Fails,
        Fate::Interrupted,
        Fate::Killed,
        Fate::DiskFull,
        Fate::Owner,
        Fate::Hung,
        Fate::UsesCpu,
    ];

    fn output_of_failure(self) -> Vec<u8> {
        if self == Fate::Succeeds { Vec::new() } else { self.completion(JobId(0)).output }
    }

    fn completion(self, job: JobId) -> Completion {
        let (exit, output): (Exit, &[u8]) = match self {
            Fate::Succeeds => (Exit::Code(0), b"well\n"),
            Fate::Fails => (Exit::Code(2), b"cc: error\n"),
            Fate::Interrupted => (Exit::Code(130), b""),
            Fate::Killed => (Exit::Signal(9), b""),
            Fate::DiskFull => (Exit::Code(1), b"cc: x.o: No space left on device\n"),
            Fate::Owner => (Exit::Code(1), b"chown: changing ownership of 'x': Invalid argument\n"),
            Fate::Hung => (Exit::Code(123), b""),
            Fate::UsesCpu => (Exit::Code(152), b""),
        };
        let reason = match self {
            Fate::Hung => Some(TerminationReason::Hung { after_ms: 1 }),
            Fate::UsesCpu => Some(TerminationReason::CpuTime { after_ms: 1 }),
            _ => None,
        };
        let report = reason.map(|reason| {
            let termination = Some(Termination { reason, processes: Vec::new(), killed: false });
            Box::new(MonitorReport { termination, ..MonitorReport::default() })
        });
        Completion { report, ..Completion::new(job, exit, output.to_vec()) }
    }
}

/// The state of the inner runner, which a test changes while the outer one borrows the runner.
#[derive(Default)]
struct Inner {
    slots: Cell<usize>,
    /// The next command cannot be started.
    refuses: Cell<bool>,
    can_terminate: Cell<bool>,
    /// Jobs whose command was started and not yet returned, with its line.
    running: RefCell<Vec<(JobId, String)>>,
    wakeups: RefCell<VecDeque<Wakeup>>,
    terminated: RefCell<Vec<(JobId, TerminationReason)>>,
}

impl Inner {
    /// Ends the command of a job.
    fn end(&self, job: u32, fate: Fate) {
        self.complete(fate.completion(JobId(job)));
    }

    fn complete(&self, completion: Completion) {
        assert!(self.line(completion.job.0).is_some(), "job {} does not run", completion.job.0);
        self.wakeups.borrow_mut().push_back(Wakeup::Completed(completion));
    }

    fn line(&self, job: u32) -> Option<String> {
        self.running.borrow().iter().find(|(it, _)| *it == JobId(job)).map(|(_, line)| line.clone())
    }
}

struct Commands<'a>(&'a Inner);

impl Runner for Commands<'_> {
    fn capacity(&mut self) -> usize {
        self.0.slots.get().saturating_sub(self.0.running.borrow().len())
    }

    fn start(&mut self, job: JobId, command: &Command, _: Cost) -> io::Result<()> {
        if self.0.refuses.take() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        assert!(self.0.line(job.0).is_none(), "two commands of one job");
        assert!(self.0.running.borrow().len() < self.0.slots.get(), "more was started than may run");
        let line = String::from_utf8(command.line.clone()).unwrap();
        self.0.running.borrow_mut().push((job, line));
        Ok(())
    }

    fn has_completed(&self) -> bool {
        self.0.wakeups.borrow().iter().any(|it| matches!(it, Wakeup::Completed(_)))
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<Wakeup> {
        let wakeup = self.0.wakeups.borrow_mut().pop_front().unwrap_or(Wakeup::TimedOut);
        if let Wakeup::Completed(completion) = &wakeup {
            self.0.running.borrow_mut().retain(|(job, _)| *job != completion.job);
        }
        Ok(wakeup)
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        self.0.terminated.borrow_mut().push((job, why));
        self.0.can_terminate.get() && self.0.line(job.0).is_some()
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.0.running.take().into_iter().map(|(job, _)| job).collect()
    }
}

/// Settings of builds without a sandbox, below a directory.
fn settings(place: &Scratch) -> BuildSettings {
    let text = "pkgsrc = 'src'\nprefix = 'prefix'\npkgdb = 'pkgdb'\nbootstrapkit = 'kit'\nmake_jobs = 1\n";
    BuildSettings::new(&Config::read(text, place.path()).unwrap())
}

fn spec(name: &str) -> AttemptSpec {
    AttemptSpec { attempt: 1, name: name.into(), location: "cat/pkg".into(), ..AttemptSpec::default() }
}

fn attempt(spec: &AttemptSpec) -> Task {
    Task::Attempt(Rc::new(spec.clone()), AttemptPlace { client: 0, tree: None })
}

fn command(line: &str) -> Task {
    Task::Command(Command { line: line.into(), ..Command::default() })
}

/// The name of an outcome's kind.
fn kind(result: &AttemptResult) -> &'static str {
    use tanto_protocol::AttemptOutcome::*;
    match result.outcome {
        Built => "built",
        Failed { .. } => "failed",
        NeedsRoot { .. } => "needs root",
        MachineFailed { .. } => "machine failed",
        OutOfMemory { .. } => "out of memory",
        ExceededTmpfs { .. } => "exceeded tmpfs",
        TreeChanged { .. } => "tree changed",
    }
}
