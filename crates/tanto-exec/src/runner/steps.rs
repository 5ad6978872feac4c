//! Jobs of several commands, one after the other, each of which begins as soon as the last has ended: nothing comes
//! between them. Does not know what the commands are for.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::{Runner, Wakeup};
use crate::job::Cost;
use crate::job::report::{JobSample, ProcessInfo, TerminationReason};
use crate::job::{Capture, Command, Completion, ExecutedBy, Exit, JobId, Usage};

/// Says what comes after a command of a job: the next one, or nothing, and then the completion is the job's. It may
/// change that, and is told of all completions, those of the last commands too.
pub trait StepSource {
    /// A command of a job has ended.
    fn next_command(&mut self, completion: &mut Completion) -> Option<Command>;

    /// So much was seen of the processes of a job's command: what that means for the whole job.
    fn on_sample(&mut self, job: JobId, load: JobSample) -> JobSample;

    /// May a job begin while others run?
    fn may_start_job(&self) -> bool;
}

/// Runs the commands of jobs on another runner.
pub struct MultiStepRunner<'a, S> {
    runner: &'a mut dyn Runner,
    stages: S,
    /// What is expected of the jobs that run.
    expected: HashMap<JobId, Cost>,
}

impl<'a, S: StepSource> MultiStepRunner<'a, S> {
    /// What `start` is given is the first command of a job; `stages` says what follows.
    pub fn new(runner: &'a mut dyn Runner, stages: S) -> Self {
        MultiStepRunner { runner, stages, expected: HashMap::new() }
    }

    /// Begins what comes next for the job; its completion if nothing does.
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

/// The machine did not start a command, which is as if it had failed.
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

    /// Three commands each; after a failure there is only `clean`, and the failure stays.
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
