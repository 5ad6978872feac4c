//! A runner without processes, for tests.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::{Runner, Wakeup};
use crate::job::Cost;
use crate::job::{Command, Completion, Exit, JobId};

/// Effect of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Ends {
        exit: Exit,
        output: Vec<u8>,
    },
    /// The user interrupts the build with this signal while it runs.
    Interrupts(i32),
    /// It cannot be started.
    Refused(io::ErrorKind),
}

impl Effect {
    pub fn success() -> Effect {
        Effect::ends(0, b"")
    }

    pub fn ends(code: i32, output: &[u8]) -> Effect {
        Effect::Ends { exit: Exit::Code(code), output: output.to_vec() }
    }
}

/// Calls a closure when a command starts. Commands end in the order of their start.
pub struct FakeRunner<F> {
    effect: F,
    parallelism: usize,
    running: VecDeque<(JobId, Effect)>,
    started: Vec<Vec<u8>>,
}

impl<F: FnMut(&Command) -> Effect> FakeRunner<F> {
    /// Runs up to `parallelism` commands at a time; 0: unlimited.
    pub fn new(parallelism: usize, effect: F) -> Self {
        FakeRunner { effect, parallelism, running: VecDeque::new(), started: Vec::new() }
    }

    /// Returns the lines of all started commands, in order.
    pub fn started(&self) -> &[Vec<u8>] {
        &self.started
    }
}

impl<F: FnMut(&Command) -> Effect> Runner for FakeRunner<F> {
    fn capacity(&mut self) -> usize {
        match self.parallelism {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.running.len()),
        }
    }

    fn start(&mut self, job: JobId, command: &Command, _expected: Cost) -> io::Result<()> {
        assert!(self.capacity() > 0, "more was started than may run");
        let effect = (self.effect)(command);
        if let Effect::Refused(kind) = effect {
            return Err(kind.into());
        }
        self.started.push(command.line.clone());
        self.running.push_back((job, effect));
        Ok(())
    }

    fn has_completed(&self) -> bool {
        matches!(self.running.front(), Some((_, Effect::Ends { .. })))
    }

    fn wait(&mut self, _most: Option<Duration>) -> io::Result<Wakeup> {
        let Some((_, effect)) = self.running.front() else { return Ok(Wakeup::TimedOut) };
        if let Effect::Interrupts(signal) = effect {
            return Ok(Wakeup::Interrupted(*signal));
        }
        match self.running.pop_front() {
            Some((job, Effect::Ends { exit, output })) => Ok(Wakeup::Completed(Completion::new(job, exit, output))),
            other => unreachable!("{other:?} does not run"),
        }
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.running.drain(..).map(|(job, _)| job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        Command { line: line.into(), ..Command::default() }
    }

    #[test]
    fn commands_end_in_start_order() {
        let mut runner = FakeRunner::new(2, |c: &Command| Effect::ends(i32::from(c.line == b"b"), &c.line));
        runner.start(JobId(4), &command("a"), Cost::default()).unwrap();
        assert_eq!(runner.capacity(), 1);
        runner.start(JobId(2), &command("b"), Cost::default()).unwrap();
        assert_eq!(runner.capacity(), 0);
        for (job, code, output) in [(4, 0, b"a"), (2, 1, b"b")] {
            let expected = Completion::new(JobId(job), Exit::Code(code), output.to_vec());
            assert_eq!(runner.wait(None).unwrap(), Wakeup::Completed(expected));
        }
        assert_eq!(runner.started(), [b"a", b"b"]);
    }

    #[test]
    fn an_interrupt_leaves_the_command_running() {
        let mut runner = FakeRunner::new(0, |c: &Command| match &c.line[..] {
            b"no" => Effect::Refused(io::ErrorKind::OutOfMemory),
            _ => Effect::Interrupts(2),
        });
        assert_eq!(
            runner.start(JobId(1), &command("no"), Cost::default()).unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
        runner.start(JobId(0), &command("x"), Cost::default()).unwrap();
        assert_eq!(runner.wait(None).unwrap(), Wakeup::Interrupted(2));
        assert_eq!(runner.abort(), [JobId(0)]);
        assert!(runner.abort().is_empty());
    }
}
