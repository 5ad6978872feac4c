//! A runner for dry runs: each command succeeds at once.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::{Runner, Wakeup};
use crate::job::Cost;
use crate::job::{Command, Completion, Exit, JobId};

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

    fn has_completed(&self) -> bool {
        !self.0.is_empty()
    }

    fn wait(&mut self, _most: Option<Duration>) -> io::Result<Wakeup> {
        let job = self.0.pop_front().ok_or_else(|| io::Error::other("nothing runs"))?;
        Ok(Wakeup::Completed(Completion::new(job, Exit::Code(0), Vec::new())))
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.0.drain(..).collect()
    }
}
