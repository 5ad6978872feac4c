//! Coordinates a bulk build: the state of each package, order, attempts and retries, steps after an attempt, control
//! requests and the database.

pub mod acceptance;
pub mod bulk_build;
pub mod check;
mod control;
pub mod control_socket;
pub mod debug_shell;
pub mod dispatch;
pub mod distrusted;
mod durable_view;
pub mod explain;
pub mod farm;
pub mod follow;
mod followed;
mod frontend;
pub mod install_artifact;
pub mod needs;
pub mod offline;
pub mod pbulk_files;
mod persistence;
mod phase_file;
pub mod phases;
pub mod plan;
pub mod prepare;
mod provenance;
pub mod pushed_tree;
pub mod queries;
pub mod requests;
mod results;
mod resume;
pub mod scan_farm;
pub mod simulate;
pub mod sources;
pub mod state;
pub mod state_dir;
mod status;
pub mod status_screen;
pub mod up_to_date;
pub mod verification;
mod waiting;
pub mod workdirs;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;
use tanto_exec::run::{self, BuildOutcome};
use tanto_exec::runner::Runner;
use tanto_exec::schedule::{AdmissionLimits, ResourceSample};
use tanto_record::database::journal::Journal;
use tanto_record::estimates::TimeLeftEstimator;

use self::control_socket::ControlServer;
use self::dispatch::{Dispatch, LocalSlots};
use self::durable_view::{DurableView, LastResult};
use self::farm::Farm;
use self::frontend::Coordinator;
use self::plan::{Plan, PlanError};
use self::sources::Sources;
use self::state::State;
use self::workdirs::Workdirs;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::runner::AttemptRunner;

/// The environment of a build.
pub struct Build<'a> {
    pub settings: &'a BuildSettings,
    /// Executes commands.
    pub runner: &'a mut dyn Runner,
    pub view: &'a mut dyn View,
    pub clock: &'a dyn Clock,
    /// The time at which the clock was 0, in milliseconds since 1970.
    pub epoch_ms: i64,
    pub control: &'a mut dyn ControlServer,
    /// Scan records of the packages, for requests that change them; may be empty.
    pub sources: Sources,
    pub workdirs: Workdirs,
    /// Builds packages on other machines too.
    pub farm: Option<Farm>,
    /// Record how packages are built: needed once other machines have built some.
    pub keeps_provenance: bool,
    /// Samples free memory and disk space; `None`: no admission control.
    pub sampler: Option<&'a mut dyn FnMut() -> ResourceSample>,
}

impl Build<'_> {
    /// Builds all open packages, the critical path first. `times` are the expected durations, in milliseconds. The caller
    /// has to finish the journal.
    pub fn run(self, plan: Plan, times: &[u64], journal: Journal) -> Result<(BuildOutcome, Plan, Journal), PlanError> {
        let mut schedule = plan.schedule(times)?;
        let Build {
            settings,
            runner,
            view,
            clock,
            epoch_ms,
            control,
            sources,
            workdirs,
            farm,
            keeps_provenance,
            sampler,
        } = self;
        let estimator = announce(&plan, times, view);
        let labels = farm.as_ref().map(|farm| farm.places.local_labels().to_vec()).unwrap_or_default();
        let times = farm.as_ref().map(|farm| farm.times).unwrap_or_default();
        let slots = LocalSlots::new(settings.clients).with_labels(labels);
        let mut coordinator = Coordinator {
            plan,
            settings,
            clock,
            epoch_ms,
            control,
            sources,
            farm,
            keeps_provenance,
            dispatch: Dispatch::new(times, slots, clock.now_ms()),
            workdirs,
            estimator,
            begun_ms: clock.now_ms(),
            running: BTreeMap::new(),
            followed: BTreeMap::new(),
            ended: None,
            last_result: LastResult::new(Arc::clone(journal.commits())),
            seen_commits: 0,
            answers: VecDeque::new(),
            reopened: Vec::new(),
            counts_changed: true,
            counts_sent_ms: i64::MIN,
            disk_full_reported: false,
            journal,
        };
        coordinator.place_packages(&mut schedule);
        if sampler.is_some() {
            schedule.limit_admission(AdmissionLimits { memory_kib: None, slots: usize::MAX });
        }
        let mut no_sample = ResourceSample::default;
        let mut view = DurableView::new(view, Rc::clone(&coordinator.last_result));
        schedule.begin();
        coordinator.restore_leases(&mut schedule);
        coordinator.estimator.build_started(&schedule.downstream_ms());
        let run = run::Build {
            frontend: &mut coordinator,
            schedule: &mut schedule,
            runner: &mut AttemptRunner::new(runner, settings, clock),
            view: &mut view,
            clock,
            failures_allowed: usize::MAX,
            sampler: sampler.unwrap_or(&mut no_sample),
        };
        let outcome = run.run();
        coordinator.settle();
        view.finish();
        let (plan, journal) = coordinator.close();
        Ok((outcome, plan, journal))
    }
}

/// Sends the open packages to the view. Returns an estimator of the time that they take.
fn announce(plan: &Plan, times: &[u64], view: &mut dyn View) -> TimeLeftEstimator {
    let mut estimator = TimeLeftEstimator::default();
    for package in plan.all().filter(|&it| plan.package(it).state() == State::Open) {
        let expected_ms = times.get(package as usize).and_then(|&ms| i64::try_from(ms).ok());
        estimator.planned(JobId(package), expected_ms);
        view.event(Event::Planned { job: JobId(package), expected_ms });
    }
    estimator
}

/// The time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
