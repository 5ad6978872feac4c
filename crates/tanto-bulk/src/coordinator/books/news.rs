//! What is told of a run while it goes on, and whether more may begin. Does not know what changes it.

use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;

use super::Books;

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
