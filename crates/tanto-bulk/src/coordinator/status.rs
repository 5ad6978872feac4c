//! The text of `tanto bulk status` for a running build.

use std::fmt::Write;

use tanto_exec::job::JobId;
use tanto_exec::schedule::Schedule;
use tanto_exec::text::units::ExactDuration;
use tanto_record::estimates::time_left_ms;

use super::frontend::Coordinator;
use super::{clients, state::State};
use crate::resolve::Package;

/// What is left. Milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// What the longest chain of packages takes.
    path: u64,
    /// What all take together.
    work: u64,
}

/// The maximum number of failures in the text.
const MAX_FAILURES: usize = 50;

impl Coordinator<'_> {
    /// Counts the packages by state, without empty states.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        State::ALL.iter().map(|state| state.name()).zip(self.plan.counts()).filter(|&(_, count)| count > 0).collect()
    }

    /// What is still to be done, as far as can be told.
    pub(super) fn left_ms(&self, schedule: &Schedule) -> Left {
        let now_ms = self.clock.now_ms();
        let (path, work) = schedule.remaining_ms(|job| {
            let expected = schedule.expected_ms(job);
            let began_ms = self.running.get(&job.0).map_or(now_ms, |progress| progress.began_ms);
            expected.saturating_sub(u64::try_from(now_ms - began_ms).unwrap_or(0))
        });
        Left { path, work }
    }

    /// Returns the median of the estimates, for packages without one.
    pub(super) fn typical_ms(&self, schedule: &Schedule) -> u32 {
        let mut all: Vec<u32> = self.plan.all().map(|package| schedule.cost(JobId(package)).wall_ms).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }

    /// States, time left, running packages and failures.
    pub(super) fn status(&self, schedule: &Schedule, left: Left) -> String {
        let counts: Vec<String> = self.counts().iter().map(|(state, count)| format!("{count} {state}")).collect();
        let mut text = format!("{} packages: {}\n", self.plan.packages.len(), counts.join(", "));
        let clients = self.running.len().max(1);
        let left_ms = time_left_ms(left.work as f64, left.path as f64, clients as f64) as u64;
        let _ = writeln!(text, "about {} left; the longest chain takes {}", span(left_ms), span(left.path));
        let mut running: Vec<Package> = self.running.keys().copied().collect();
        running.sort_unstable_by_key(|package| (self.running[package].began_ms, *package));
        for package in running {
            self.running_line(&mut text, package, schedule);
        }
        if let Some(reason) = schedule.throttle_reason() {
            let waiting = reason.job().map(|job| format!("{} ", self.plan.package(job.0).name)).unwrap_or_default();
            let _ = writeln!(text, "{waiting}waiting: {reason}");
        }
        let has_failed = |state| matches!(state, State::Failed | State::MachineFailed);
        let failed: Vec<_> = self.plan.packages.iter().filter(|it| has_failed(it.state())).collect();
        for it in failed.iter().take(MAX_FAILURES) {
            let why = if it.why().is_empty() { String::new() } else { format!(" ({})", it.why()) };
            let _ = writeln!(text, "failed: {}{why}", it.name);
        }
        if failed.len() > MAX_FAILURES {
            let _ = writeln!(text, "and {} more have failed", failed.len() - MAX_FAILURES);
        }
        text
    }

    fn running_line(&self, text: &mut String, package: Package, schedule: &Schedule) {
        let running = &self.running[&package];
        let now_ms = self.clock.now_ms();
        let ms = |since: i64| u64::try_from(now_ms - since).unwrap_or(0);
        let expected = match schedule.cost(JobId(package)).wall_ms {
            0 => String::new(),
            ms => format!(" of {}", span(ms.into())),
        };
        let name = &self.plan.package(package).name;
        let client = clients::name(self.current(package).client);
        let (stage, stage_for, all) =
            (running.stage.name(), span(ms(running.stage_began_ms)), span(ms(running.began_ms)));
        let _ = writeln!(text, "  {client:8} {name:32} {stage:12} {stage_for:>8} {all:>8}{expected}");
    }
}

/// A duration in whole seconds.
fn span(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX / 1000);
    ExactDuration(seconds * 1000).to_string()
}
