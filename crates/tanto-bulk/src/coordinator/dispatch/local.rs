//! The slots of this machine. Each has one package at a time.

use super::health::Health;
use crate::resolve::PackageId;

#[derive(Clone, Debug)]
pub struct LocalSlots {
    /// 0: any number.
    count: usize,
    slots: Vec<Slot>,
    labels: Vec<String>,
    /// Packages built.
    built: u64,
}

#[derive(Clone, Default, Debug)]
struct Slot {
    busy: bool,
    health: Health,
}

impl Slot {
    fn is_free(&self) -> bool {
        !self.busy && !self.health.is_disabled()
    }
}

impl LocalSlots {
    /// `count` 0: as many as are taken.
    pub fn new(count: usize) -> LocalSlots {
        LocalSlots { count, slots: vec![Slot::default(); count], labels: Vec::new(), built: 0 }
    }

    pub fn with_labels(self, labels: Vec<String>) -> LocalSlots {
        LocalSlots { labels, ..self }
    }

    /// Returns the number of slots so far.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of packages built.
    pub fn built(&self) -> u64 {
        self.built
    }

    /// Whether this machine has all these labels.
    pub fn has_labels(&self, labels: &[String]) -> bool {
        labels.iter().all(|label| self.labels.contains(label))
    }

    /// Returns the slot that `take` would take.
    pub fn next(&self, excluded: Option<usize>) -> usize {
        let mut free = (0..self.slots.len()).filter(|&it| self.slots[it].is_free());
        let first = free.next();
        let found = if first == excluded { free.next().or(first) } else { first };
        // If all are busy or disabled, the excluded one continues: a new one would exceed their number.
        found.or(excluded.filter(|_| self.count > 0)).unwrap_or(self.slots.len())
    }

    /// Takes a free slot, preferably not the excluded one.
    pub fn take(&mut self, excluded: Option<usize>) -> usize {
        let slot = self.next(excluded);
        if slot == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[slot].busy = true;
        slot
    }

    pub fn release(&mut self, slot: usize) {
        self.slots[slot].busy = false;
    }

    /// Returns whether another package may start.
    pub fn has_free(&self) -> bool {
        self.count == 0 || self.slots.iter().any(Slot::is_free)
    }

    /// Returns whether all slots are disabled.
    pub fn is_empty(&self) -> bool {
        self.count > 0 && self.slots.iter().all(|slot| slot.health.is_disabled())
    }

    /// Records a failure through no fault of the package. Returns whether it disables the slot.
    pub fn record_machine_failure(&mut self, slot: usize, package: PackageId) -> bool {
        self.slots[slot].health.record_machine_failure(package)
    }

    pub fn record_success(&mut self, slot: usize) {
        self.built += 1;
        self.slots[slot].health.record_success();
    }
}

/// The name in the database and in messages.
pub fn name(slot: usize) -> String {
    format!("local-{}", slot + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_has_one_package_at_a_time() {
        let mut clients = LocalSlots::new(2);
        assert_eq!((clients.take(None), clients.take(None), clients.has_free()), (0, 1, false));
        clients.release(0);
        assert!(clients.has_free());
        assert_eq!(clients.take(Some(0)), 0, "there is no other");
        clients.release(0);
        clients.release(1);
        assert_eq!(clients.take(Some(0)), 1, "the other is better");
        let mut any = LocalSlots::new(0);
        assert_eq!((any.take(None), any.take(None), any.has_free()), (0, 1, true));
    }

    #[test]
    fn failures_of_different_packages_disable_a_slot() {
        let mut clients = LocalSlots::new(2);
        assert!([1, 1, 2, 1].into_iter().all(|package| !clients.record_machine_failure(0, package)));
        assert!(clients.record_machine_failure(0, 3) && !clients.record_machine_failure(0, 4), "it is reported once");
        assert_eq!((clients.take(None), clients.has_free()), (1, false));
        assert!(!clients.is_empty());
        assert!((0..3).any(|package| clients.record_machine_failure(1, package)) && clients.is_empty());
        clients.release(1);
        assert_eq!(clients.take(Some(1)), 1, "there is no other for the package that failed on it");
        assert!(clients.is_empty() && !clients.has_free());
    }

    #[test]
    fn success_resets_the_failures() {
        let mut clients = LocalSlots::new(1);
        assert!(!clients.record_machine_failure(0, 1) && !clients.record_machine_failure(0, 2));
        clients.record_success(0);
        assert!(!clients.record_machine_failure(0, 7));
    }
}
