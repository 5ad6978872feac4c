//! Explains why a ready package has not started.

use tanto_exec::job::JobId;
use tanto_exec::schedule::{self, Schedule};

use super::dispatch::{ClientIndex, RunningAttempt};
use super::frontend::Coordinator;
use crate::resolve::PackageId;

impl Coordinator<'_> {
    /// Explains why a package has not started, for the user; empty if it is not ready.
    pub(super) fn why_waiting(&self, package: PackageId, schedule: &Schedule) -> String {
        let job = JobId(package);
        if schedule.state(job) != schedule::State::Ready {
            return String::new();
        }
        if self.journal.disk_is_full() {
            return "waiting for space on the disk".to_owned();
        }
        let throttled = schedule.throttle_reason().filter(|it| it.job().is_none_or(|it| it == job));
        let throttled = throttled.filter(|_| self.dispatch.local.has_free());
        match throttled {
            Some(reason) if !self.dispatch.has_enabled_client() => format!("waiting: {reason}"),
            _ => self.why_no_client(package, throttled.is_some(), &self.running_attempts(schedule)),
        }
    }

    fn running_attempts(&self, schedule: &Schedule) -> Vec<RunningAttempt> {
        self.running.keys().map(|&package| self.running_attempt(package, schedule)).collect()
    }

    fn running_attempt(&self, package: PackageId, schedule: &Schedule) -> RunningAttempt {
        let client = self.current(package).client;
        let speed = match client {
            ClientIndex::Local(_) => 1000,
            ClientIndex::Remote(client) => self.dispatch.clients()[client].speed(),
        };
        let expected_ms = u64::from(schedule.cost(JobId(package)).wall_ms) * 1000 / speed.max(1);
        let spent_ms = self.clock.now_ms() - self.running[&package].began_ms;
        let left_ms = i64::try_from(expected_ms).unwrap_or(i64::MAX) - spent_ms;
        // An attempt that takes longer than expected may end at any time.
        RunningAttempt { package, client, left_ms: (left_ms > 0).then_some(left_ms) }
    }
}
