//! Builds packages: which of them, in which order and through which stages, and what becomes of those that need one that
//! failed. Does not know how a command is run, nor what the database does with what it is told.

pub mod books;
pub mod bulk_build;
mod clients;
pub mod control_socket;
pub mod debug_shell;
pub mod explain;
pub mod frontend;
pub mod needs;
pub mod offline;
pub mod pbulk_files;
mod phase_file;
pub mod phases;
pub mod plan;
pub mod prepare;
pub mod queries;
pub mod requests;
mod resume;
pub mod simulate;
pub mod sources;
pub mod state;
pub mod state_dir;
pub mod up_to_date;

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;
use tanto_exec::run::{self, BuildOutcome};
use tanto_exec::runner::Runner;
use tanto_exec::runner::steps::MultiStepRunner;
use tanto_exec::schedule::{AdmissionLimits, ResourceSample};
use tanto_record::database::journal::Journal;

use self::books::{Books, Opening};
use self::control_socket::Desk;
use self::frontend::Packages;
use self::plan::{Plan, PlanError};
use self::sources::Sources;
use self::state::State;
use crate::attempt::build_settings::Site;

/// What a build needs besides its packages.
pub struct Build<'a> {
    /// Where packages are built.
    pub site: &'a Site,
    /// What executes commands.
    pub runner: &'a mut dyn Runner,
    /// Who looks on.
    pub view: &'a mut dyn View,
    /// What time it is.
    pub clock: &'a dyn Clock,
    /// When the clock stood at 0, in milliseconds since 1970.
    pub epoch_ms: i64,
    /// Where users ask for something while it goes on.
    pub desk: &'a mut dyn Desk,
    /// What is known of the packages' directories, for the case that one of them changes.
    pub sources: Sources,
    /// Who says how much room the machine has, if that is to be heeded.
    pub sampler: Option<&'a mut dyn FnMut() -> ResourceSample>,
}

impl Build<'_> {
    /// Builds all that is open, the most urgent first by what each package is expected to take, in milliseconds. The
    /// journal has not ended then.
    pub fn run(self, plan: Plan, times: &[u64], journal: Journal) -> Result<(BuildOutcome, Plan, Journal), PlanError> {
        let mut schedule = plan.schedule(times)?;
        let Build { site, runner, view, clock, epoch_ms, desk, sources, sampler } = self;
        for package in plan.all().filter(|&it| plan.package(it).state() == State::Open) {
            let expected_ms = times.get(package as usize).and_then(|&ms| i64::try_from(ms).ok());
            view.event(Event::Planned { job: JobId(package), expected_ms });
        }
        let opening = Opening { plan, site, clock, epoch_ms, desk, sources };
        let books = RefCell::new(Books::new(opening, journal));
        let packages = Packages::new(&books);
        if sampler.is_some() {
            schedule.limit_admission(AdmissionLimits { memory_kib: None, slots: usize::MAX });
        }
        let mut silent = ResourceSample::default;
        schedule.begin();
        let run = run::Build {
            frontend: &mut packages.clone(),
            schedule: &mut schedule,
            runner: &mut MultiStepRunner::new(runner, packages),
            view,
            clock,
            failures_allowed: usize::MAX,
            sampler: sampler.unwrap_or(&mut silent),
        };
        let verdict = run.run();
        let (plan, journal) = books.into_inner().close();
        Ok((verdict, plan, journal))
    }
}

/// The time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
