//! Jobs of several commands in sequence. The next command starts in the slot of the previous one.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::{Runner, Wakeup};
use crate::job::Cost;
use crate::job::report::{JobSample, ProcessInfo, TerminationReason};
use crate::job::{Capture, Command, Completion, ExecutedBy, Exit, JobId, Usage};

/// Provides the commands of jobs.
pub trait StepSource {
    /// Returns the next command of the job; `None` if `completion`, which it may change, is that of the job. Called for
    /// every completion.
    fn next_command(&mut self, completion: &mut Completion) -> Option<Command>;

    /// Converts a sample of one command into one of the whole job.
    fn on_sample(&mut self, job: JobId, load: JobSample) -> JobSample;

    /// Returns whether a job may start while others run.
    fn may_start_job(&self) -> bool;
}

/// Runs jobs of several commands on another runner.
pub struct MultiStepRunner<'a, S> {
    runner: &'a mut dyn Runner,
    stages: S,
    /// Expected costs of running jobs.
    expected: HashMap<JobId, Cost>,
}

impl<'a, S: StepSource> MultiStepRunner<'a, S> {
    /// `start` gets the first command of a job; `stages` provides the others.
    pub fn new(runner: &'a mut dyn Runner, stages: S) -> Self {
        MultiStepRunner { runner, stages, expected: HashMap::new() }
    }

    /// Starts the next command of a job, or returns the job's completion.
    fn go_on(&mut self, mut completion: Completion) -> Option<Completion> {
        let job = completion.job;
        while let Some(command) = self.stages.next_command(&mut completion) {
            match self.runner.start(job, &command, self.expected.get(&job).copied().unwrap_or_default()) {
                Ok(()) => return None,
                Err(error) => completion = refused(job, &error),
            }
        }
        self.expected.remove(&job);
        Some(completion)
    }
}

/// Reports a command that could not be started as a failure.
fn refused(job: JobId, error: &io::Error) -> Completion {
    let output = [b"cannot start a command: ", &tanto_sys::error::text(error)[..], b"\n"].concat();
    Completion {
        job,
        exit: Exit::Code(126),
        output,
        capture: Capture::Complete,
        usage: Usage::default(),
        executed_by: ExecutedBy::Process,
        report: None,
    }
}

impl<S: StepSource> Runner for MultiStepRunner<'_, S> {
    fn set_next_priority(&mut self, urgency: i64) {
        self.runner.set_next_priority(urgency);
    }

    fn capacity(&mut self) -> usize {
        if self.expected.is_empty() || self.stages.may_start_job() { self.runner.capacity() } else { 0 }
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        self.expected.insert(job, expected);
        self.runner.start(job, command, expected)
    }

    fn has_completed(&self) -> bool {
        self.runner.has_completed()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        Ok(match self.runner.wait(most)? {
            Wakeup::Completed(completion) => self.go_on(completion).map_or(Wakeup::TimedOut, Wakeup::Completed),
            Wakeup::Sampled(job, load) => Wakeup::Sampled(job, self.stages.on_sample(job, load)),
            woken => woken,
        })
    }

    fn terminate(&mut self, job: JobId, why: TerminationReason) -> bool {
        self.runner.terminate(job, why)
    }

    fn output_so_far(&self, job: JobId) -> Option<Vec<u8>> {
        self.runner.output_so_far(job)
    }

    fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        self.runner.leftovers()
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.runner.abort()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fake::{Effect, FakeRunner};

    /// Three commands each; after a failure only `clean`, and the job fails.
    #[derive(Default)]
    struct Three {
        holds: bool,
        seen: Vec<(u32, Exit)>,
        failed: Option<Exit>,
    }

    impl StepSource for &mut Three {
        fn next_command(&mut self, completion: &mut Completion) -> Option<Command> {
            self.seen.push((completion.job.0, completion.exit));
            let count = self.seen.iter().filter(|(job, _)| *job == completion.job.0).count();
            let failed = self.failed.take();
            if let Some(exit) = failed {
                completion.exit = exit;
                return None;
            }
            let line: &[u8] = match count {
                _ if !completion.exit.success() => {
                    self.failed = Some(completion.exit);
                    b"clean"
                }
                1 => b"two",
                2 => b"three",
                _ => return None,
            };
            Some(Command { line: line.to_vec(), console: false, limits: None })
        }

        fn on_sample(&mut self, _: JobId, load: JobSample) -> JobSample {
            load
        }

        fn may_start_job(&self) -> bool {
            !self.holds
        }
    }

    fn command(line: &str) -> Command {
        Command { line: line.into(), console: false, limits: None }
    }

    fn ended(staged: &mut MultiStepRunner<'_, &mut Three>) -> (u32, Exit) {
        loop {
            match staged.wait(None).unwrap() {
                Wakeup::Completed(completion) => return (completion.job.0, completion.exit),
                woken => assert_eq!(woken, Wakeup::TimedOut),
            }
        }
    }

    #[test]
    fn each_command_begins_when_the_last_has_ended() {
        let (mut three, mut inner) = (Three::default(), FakeRunner::new(1, |_: &Command| Effect::success()));
        let mut staged = MultiStepRunner::new(&mut inner, &mut three);
        staged.start(JobId(7), &command("one"), Cost::default()).unwrap();
        assert_eq!(staged.capacity(), 0);
        assert_eq!(ended(&mut staged), (7, Exit::Code(0)));
        assert_eq!(staged.capacity(), 1);
        assert_eq!(inner.started(), [&b"one"[..], b"two", b"three"]);
    }

    #[test]
    fn what_holds_jobs_back_never_holds_the_only_one() {
        let mut three = Three { holds: true, ..Three::default() };
        let mut inner = FakeRunner::new(4, |_: &Command| Effect::success());
        let mut staged = MultiStepRunner::new(&mut inner, &mut three);
        assert_eq!(staged.capacity(), 4);
        staged.start(JobId(7), &command("one"), Cost::default()).unwrap();
        assert_eq!(staged.capacity(), 0);
        ended(&mut staged);
        assert_eq!(staged.capacity(), 4);
    }

    #[test]
    fn what_fails_is_followed_by_what_stages_say() {
        let effect = |it: &Command| Effect::ends(i32::from(it.line == b"two") * 3, b"");
        let (mut three, mut inner) = (Three::default(), FakeRunner::new(1, effect));
        let mut staged = MultiStepRunner::new(&mut inner, &mut three);
        staged.start(JobId(7), &command("one"), Cost::default()).unwrap();
        assert_eq!(ended(&mut staged), (7, Exit::Code(3)));
        assert_eq!(inner.started(), [&b"one"[..], b"two", b"clean"]);
    }

    #[test]
    fn what_cannot_be_started_has_failed() {
        let effect = |it: &Command| match it.line == b"two" {
            true => Effect::Refused(io::ErrorKind::OutOfMemory),
            false => Effect::success(),
        };
        let (mut three, mut inner) = (Three::default(), FakeRunner::new(1, effect));
        let mut staged = MultiStepRunner::new(&mut inner, &mut three);
        staged.start(JobId(7), &command("one"), Cost::default()).unwrap();
        assert_eq!(ended(&mut staged), (7, Exit::Code(126)));
        assert_eq!(inner.started(), [&b"one"[..], b"clean"]);
    }
}
