//! The text of `tanto bulk status` for a running build.

use std::fmt::Write;

use tanto_exec::job::JobId;
use tanto_exec::schedule::Schedule;
use tanto_exec::text::units::ExactDuration;
use tanto_record::estimates::TimeLeft;

use super::frontend::Coordinator;
use super::state::State;
use super::verification;
use crate::resolve::PackageId;

/// The maximum number of failures in the text.
const MAX_FAILURES: usize = 50;

impl Coordinator<'_> {
    /// Counts the packages by state, without empty states.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        State::ALL.iter().map(|state| state.name()).zip(self.plan.counts()).filter(|&(_, count)| count > 0).collect()
    }

    fn time_left(&mut self) -> TimeLeft {
        let now_ms = self.clock.now_ms();
        let running = self.running.iter().map(|(&package, it)| (JobId(package), now_ms - it.began_ms));
        let parallelism = if self.settings.clients > 0 { self.settings.clients } else { self.running.len().max(1) };
        self.estimator.estimate(now_ms - self.begun_ms, running, parallelism)
    }

    /// Returns the median of the estimates, for packages without one.
    pub(super) fn typical_ms(&self, schedule: &Schedule) -> u32 {
        let mut all: Vec<u32> = self.plan.all().map(|package| schedule.cost(JobId(package)).wall_ms).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }

    /// States, time left, running packages and failures.
    pub(super) fn status(&mut self, schedule: &Schedule) -> String {
        let counts: Vec<String> = self.counts().iter().map(|(state, count)| format!("{count} {state}")).collect();
        let mut text = format!("{} packages: {}\n", self.plan.packages.len(), counts.join(", "));
        if self.journal.disk_is_full() {
            text.push_str("the disk is full: the last results are not durable yet\n");
        }
        let TimeLeft { left_ms, longest_chain_ms, .. } = self.time_left();
        let left = left_ms.map_or("an unknown time".to_owned(), |ms| format!("about {}", span(ms)));
        let _ = writeln!(text, "{left} left; the longest chain takes {}", span(longest_chain_ms));
        let mut running: Vec<PackageId> = self.running.keys().copied().collect();
        running.sort_unstable_by_key(|package| (self.running[package].began_ms, *package));
        let width = running.iter().map(|&package| self.client_name(package).len()).max().unwrap_or(0);
        for package in running {
            self.running_line(&mut text, package, width, schedule);
        }
        if let Some(reason) = schedule.throttle_reason() {
            let waiting = reason.job().map(|job| format!("{} ", self.plan.package(job.0).name)).unwrap_or_default();
            let _ = writeln!(text, "{waiting}waiting: {reason}");
        }
        self.missing_labels(schedule).iter().for_each(|line| text.extend([line, "\n"]));
        self.mismatches(&mut text);
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

    /// Packages that two clients have built differently.
    fn mismatches(&self, text: &mut String) {
        for row in self.farm.iter().flat_map(|farm| &farm.verifications.mismatches).take(MAX_FAILURES) {
            let _ = writeln!(text, "{}: {}", row.name, verification::describe(row));
        }
    }

    fn client_name(&self, package: PackageId) -> String {
        self.dispatch.name(self.current(package).client)
    }

    /// `width`: that of the column of clients.
    fn running_line(&self, text: &mut String, package: PackageId, width: usize, schedule: &Schedule) {
        let running = &self.running[&package];
        let now_ms = self.clock.now_ms();
        let ms = |since: i64| (now_ms - since).max(0);
        let expected = match schedule.cost(JobId(package)).wall_ms {
            0 => String::new(),
            ms => format!(" of {}", span(ms.into())),
        };
        let name = &self.plan.package(package).name;
        let client = self.client_name(package);
        let (stage, stage_for, all) =
            (running.stage.name(), span(ms(running.stage_began_ms)), span(ms(running.began_ms)));
        let _ = writeln!(text, "  {client:width$}  {name:32} {stage:12} {stage_for:>8} {all:>8}{expected}");
    }
}

/// A duration in whole seconds.
pub(super) fn span(ms: i64) -> String {
    ExactDuration(ms / 1000 * 1000).to_string()
}
