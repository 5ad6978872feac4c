//! A bulk build on the run loop: jobs are packages. Does not know which commands they are.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tanto_exec::event::{Event, Level, View};
use tanto_exec::frontend::{Fatal, Frontend, JobOutcome, Start};
use tanto_exec::job::report::JobSample;
use tanto_exec::job::{Command, Completion, Exit, JobId, JobInfo};
use tanto_exec::runner::Runner;
use tanto_exec::runner::steps::StepSource;
use tanto_exec::schedule::Schedule;

use super::books::Books;

/// The books, for the loop and for who runs the stages.
#[derive(Clone, Copy)]
pub struct Packages<'a, 'b> {
    books: &'a RefCell<Books<'b>>,
}

impl<'a, 'b> Packages<'a, 'b> {
    /// Of these books.
    pub fn new(books: &'a RefCell<Books<'b>>) -> Self {
        Packages { books }
    }
}

impl StepSource for Packages<'_, '_> {
    fn next_command(&mut self, completion: &mut Completion) -> Option<Command> {
        self.books.borrow_mut().stage_ended(completion)
    }

    fn on_sample(&mut self, JobId(package): JobId, load: JobSample) -> JobSample {
        self.books.borrow_mut().looked(package, load)
    }

    fn may_start_job(&self) -> bool {
        self.books.borrow().may_begin()
    }
}

/// So long a build waits for room on a full disk when nothing runs that could make some.
const MOST_PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);

impl Packages<'_, '_> {
    fn wait_for_room(&self) -> Result<(), Fatal> {
        let begun = Instant::now();
        while self.books.borrow().disk_is_full() {
            if begun.elapsed() > MOST_PATIENCE {
                let why = b"the disk is full, and what is known could not be written down".to_vec();
                return Err(Fatal { message: why, invalid_input: false });
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }
}

impl Frontend for Packages<'_, '_> {
    fn start(&mut self, JobId(package): JobId) -> Result<Start, Fatal> {
        self.wait_for_room()?;
        if self.books.borrow().has_no_clients() {
            let why = b"packages fail on all clients that are not to blame for it".to_vec();
            return Err(Fatal { message: why, invalid_input: false });
        }
        let mut books = self.books.borrow_mut();
        let command = books.begin(package);
        let it = books.plan.package(package);
        let name = it.name.clone().into_bytes();
        let place = it.location.clone().into_bytes();
        let info = JobInfo { command: place, description: name.clone(), outputs: vec![name], ..JobInfo::default() };
        Ok(match command {
            Some(command) => Start::Run(command, info),
            None => Start::NoOp(info),
        })
    }

    fn finish_command(&mut self, _: &mut Completion) -> Result<(), Fatal> {
        Ok(())
    }

    fn finish_job(
        &mut self,
        JobId(package): JobId,
        ending: JobOutcome<'_>,
        schedule: &mut Schedule,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        if self.books.borrow_mut().has_news_of_the_disk() {
            let text = b"the disk is full: nothing more is begun until there is room";
            view.event(Event::Notice { level: Level::Warning, text });
        }
        for notice in self.books.borrow_mut().take_notices() {
            view.event(Event::Notice { level: Level::Warning, text: notice.as_bytes() });
        }
        match ending {
            JobOutcome::NoOp => {}
            JobOutcome::Succeeded { completion, .. } => self.books.borrow_mut().finish(package, completion.exit),
            JobOutcome::Failed => self.books.borrow_mut().finish(package, Exit::Code(1)),
        }
        let lost = self.books.borrow_mut().announce(schedule, view);
        // The schedule itself holds back what needs a job that has failed.
        if !matches!(ending, JobOutcome::Failed) {
            lost.into_iter().for_each(|package| schedule.withdraw(JobId(package)));
        }
        Ok(())
    }

    fn poll_control(
        &mut self,
        schedule: &mut Schedule,
        runner: &mut dyn Runner,
        view: &mut dyn View,
    ) -> Result<(), Fatal> {
        self.books.borrow_mut().attend(schedule, runner, view);
        Ok(())
    }

    fn flush(&mut self, view: &mut dyn View) -> Result<(), Fatal> {
        self.books.borrow_mut().tell(view);
        match self.books.borrow_mut().flush() {
            true => Ok(()),
            false => Err(Fatal { message: b"the database cannot be written".to_vec(), invalid_input: false }),
        }
    }

    fn outputs(&self, JobId(package): JobId) -> Vec<Vec<u8>> {
        vec![self.books.borrow().plan.package(package).name.clone().into_bytes()]
    }

    fn on_abort(&mut self, JobId(package): JobId, _: &mut dyn View) {
        self.books.borrow_mut().interrupted(package);
    }
}
