//! A frontend for tests of the loop: each job is a command without a line.

use tanto_exec::event::View;
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::{Command, JobId, JobInfo};
use tanto_exec::schedule::Schedule;

pub struct Commands;

impl Frontend for Commands {
    fn start(&mut self, _job: JobId) -> Result<Start, Fatal> {
        Ok(Start::Run(Command { line: Vec::new(), ..Command::default() }, JobInfo::default()))
    }

    fn finish_job(&mut self, _: JobId, _: JobOutcome<'_>, _: &mut Schedule, _: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn flush(&mut self, _view: &mut dyn View) -> Result<(), Fatal> {
        Ok(())
    }

    fn outputs(&self, _job: JobId) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn on_abort(&mut self, _job: JobId, _view: &mut dyn View) {}
}
