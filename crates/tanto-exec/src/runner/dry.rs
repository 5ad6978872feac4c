//! A runner that runs nothing: each command succeeds at once, in the order of the starts. Does not know why.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::{Runner, Woken};
use crate::cost::Cost;
use crate::job::{Command, Completion, Exit, JobId, Kept, Ran, Usage};

/// For dry runs.
#[derive(Default)]
pub struct DryRunner(VecDeque<JobId>);

impl Runner for DryRunner {
    fn capacity(&mut self) -> usize {
        usize::MAX
    }

    fn start(&mut self, job: JobId, _command: &Command, _expected: Cost) -> io::Result<()> {
        self.0.push_back(job);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        !self.0.is_empty()
    }

    fn wait(&mut self, _most: Option<Duration>) -> io::Result<Woken> {
        let job = self.0.pop_front().ok_or_else(|| io::Error::other("nothing runs"))?;
        let completion = Completion {
            job,
            exit: Exit::Code(0),
            output: Vec::new(),
            kept: Kept::Whole,
            usage: Usage::default(),
            ran: Ran::Program,
            findings: None,
        };
        Ok(Woken::Completed(completion))
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.0.drain(..).collect()
    }
}
