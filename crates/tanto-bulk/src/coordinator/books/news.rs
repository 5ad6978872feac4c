//! What is told of a run while it goes on, and whether more may begin. Does not know what changes it.

use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;

use tanto_exec::schedule::Schedule;

use super::Books;
use crate::coordinator::state::{PackageState, Pending, State, StateRecord};
use crate::resolve::Package;

/// So often a view hears how packages stand, at most; in milliseconds.
const STANDING_MS: i64 = 500;

impl Books<'_> {
    /// The view hears what has changed since.
    pub fn tell(&mut self, view: &mut dyn View) {
        for (package, stage, at_ms) in self.stages.drain(..) {
            view.event(Event::Stage { job: JobId(package), stage: stage.name(), at_ms });
        }
        let now_ms = self.clock.now_ms();
        if self.has_moved && now_ms - STANDING_MS >= self.moved_ms {
            (self.has_moved, self.moved_ms) = (false, now_ms);
            view.event(Event::StateCounts { counts: &self.counts(), at_ms: now_ms });
        }
    }

    /// Tells the view which packages have joined or left what is planned; returns those that have left it because a
    /// dependency will not be there.
    pub fn announce(&mut self, schedule: &Schedule, view: &mut dyn View) -> Vec<Package> {
        let mut lost = Vec::new();
        for StateRecord { package, from, state } in self.records.drain(..) {
            let job = JobId(package);
            let expected_ms = Some(i64::from(schedule.cost(job).wall_ms));
            match (from, &state) {
                // The build stops.
                (_, PackageState::Open(Pending::Interrupted { .. })) => {}
                (State::Open, PackageState::Open(_) | PackageState::Running(_)) => {}
                (_, PackageState::Open(_)) => view.event(Event::Planned { job, expected_ms }),
                (State::Open, _) => view.event(Event::Unplanned { job, expected_ms }),
                _ => {}
            }
            if matches!(state, PackageState::IndirectFailed(_) | PackageState::IndirectPrefailed(_)) {
                lost.push(package);
            }
        }
        lost
    }

    /// All that was noted goes to the database. False if that fails for good.
    pub fn flush(&mut self) -> bool {
        self.journal.flush()
    }

    /// There is no room for what is noted: nothing more is to be started.
    pub fn disk_is_full(&self) -> bool {
        self.journal.disk_is_full()
    }

    /// Is the disk full, and was that not told yet?
    pub fn has_news_of_the_disk(&mut self) -> bool {
        let full = self.disk_is_full();
        full && !std::mem::replace(&mut self.told_full, full)
    }

    /// May another package begin?
    pub fn may_begin(&self) -> bool {
        !self.disk_is_full() && self.clients.has_free()
    }

    /// There is nobody left to build anything.
    pub fn has_no_clients(&self) -> bool {
        self.clients.is_empty()
    }

    /// What the user has not been told.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}
