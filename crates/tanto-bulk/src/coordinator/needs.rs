//! Expected memory and disk usage of packages, from their earlier builds.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_exec::job::{self, JobId};
use tanto_exec::schedule::Schedule;
use tanto_record::database::CostRow;

use super::plan::{Plan, Planned};
use crate::attempt::build_settings::ScratchMemory;
use crate::package::name::Name;
use crate::resolve::PackageId;

/// Memory and disk usage of a build; 0: unknown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ResourceNeeds {
    pub memory_kib: u64,
    pub disk_kib: u64,
}

impl ResourceNeeds {
    fn of(cost: &CostRow) -> ResourceNeeds {
        ResourceNeeds { memory_kib: cost.peak_kib, disk_kib: cost.disk_kib }
    }

    /// Returns the usage with files in memory.
    fn in_memory(self) -> ResourceNeeds {
        ResourceNeeds { memory_kib: self.memory_kib.saturating_add(self.disk_kib), disk_kib: 0 }
    }

    /// Returns the larger of each.
    pub fn max(self, other: ResourceNeeds) -> ResourceNeeds {
        ResourceNeeds { memory_kib: self.memory_kib.max(other.memory_kib), disk_kib: self.disk_kib.max(other.disk_kib) }
    }

    /// Returns the sum.
    pub fn plus(self, other: ResourceNeeds) -> ResourceNeeds {
        ResourceNeeds {
            memory_kib: self.memory_kib.saturating_add(other.memory_kib),
            disk_kib: self.disk_kib.saturating_add(other.disk_kib),
        }
    }

    /// Whether there is room for it.
    pub fn fits(self, room: ResourceNeeds) -> bool {
        self.memory_kib <= room.memory_kib && self.disk_kib <= room.disk_kib
    }

    /// Returns whether files would not fit into memory, with a margin of 25 %.
    fn exceed(self, scratch: ScratchMemory) -> bool {
        let more = ResourceNeeds { disk_kib: self.disk_kib.saturating_add(self.disk_kib / 4), ..self };
        more.disk_kib > scratch.size / 1024
            || scratch.limit.is_some_and(|most| more.in_memory().memory_kib > most / 1024)
    }

    /// Sets the cost of a job in the schedule.
    pub fn apply(self, schedule: &mut Schedule, job: JobId, wall_ms: u32) {
        let memory_kib = u32::try_from(self.memory_kib).unwrap_or(u32::MAX);
        schedule.set_cost(job, job::Cost { wall_ms, memory_kib, ..job::Cost::default() });
        schedule.set_disk_need(job, self.disk_kib);
    }
}

impl Planned {
    /// Returns the expected usage.
    pub fn expected(&self) -> ResourceNeeds {
        if self.on_disk { self.needs } else { self.needs.in_memory() }
    }
}

impl Plan {
    /// Moves further attempts of a package to the disk. `used` is a lower bound of its needs.
    pub fn write_on_disk(&mut self, package: PackageId, used: ResourceNeeds) {
        let it = &mut self.packages[package as usize];
        it.on_disk = true;
        it.needs.memory_kib = it.needs.memory_kib.max(used.memory_kib);
        it.needs.disk_kib = it.needs.disk_kib.max(used.disk_kib);
    }

    /// Sets the expected usage of each package to that of its last build, or of the last build of another version. With
    /// `scratch`, packages that fit write in memory.
    pub fn expect_needs(&mut self, costs: &[CostRow], scratch: Option<ScratchMemory>) {
        let mut last: HashMap<&[u8], &CostRow, RandomState> = HashMap::default();
        let mut own: HashMap<&str, &CostRow, RandomState> = HashMap::default();
        for cost in costs {
            own.insert(&cost.name, cost);
            let known = last.entry(Name::new(cost.name.as_bytes()).base()).or_insert(cost);
            if cost.at_ms > known.at_ms {
                *known = cost;
            }
        }
        for package in &mut self.packages {
            let cost = own.get(&*package.name).or_else(|| last.get(Name::new(package.name.as_bytes()).base()));
            package.needs = cost.map(|cost| ResourceNeeds::of(cost)).unwrap_or_default();
            package.on_disk |= scratch.is_none_or(|scratch| package.needs.exceed(scratch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::records;
    use tanto_exec::schedule::{AdmissionLimits, Next, ResourceSample};
    use tanto_record::database::AttemptRow;

    fn cost(name: &str, at_ms: i64, peak_kib: u64, disk_kib: u64) -> CostRow {
        CostRow { name: name.into(), location: String::new(), at_ms, wall_ms: 1, cpu_ms: 1, peak_kib, disk_kib }
    }

    fn plan(names: &[&str]) -> Plan {
        let text: String = names.iter().map(|name| format!("PKGNAME={name}\nPKG_LOCATION=a/b\n")).collect();
        let records = records::read(text.as_bytes()).unwrap();
        Plan::new(&records, &vec![vec![]; names.len()]).unwrap()
    }

    #[test]
    fn new_version_needs_as_much_as_the_last() {
        let costs = [cost("lib-1", 10, 100, 1000), cost("lib-2", 20, 200, 2000), cost("app-1", 30, 300, 3000)];
        let needs = |most: Option<u64>, limit| {
            let mut plan = plan(&["lib-1", "lib-3", "new-1"]);
            plan.expect_needs(&costs, most.map(|size| ScratchMemory { size, limit }));
            plan.packages.iter().map(|it| (it.expected().memory_kib, it.expected().disk_kib)).collect::<Vec<_>>()
        };
        assert_eq!(needs(None, None), [(100, 1000), (200, 2000), (0, 0)]);
        let apart = [(1100, 0), (200, 2000), (0, 0)];
        assert_eq!(needs(Some(2500 << 10), Some(2700 << 10)), [(1100, 0), (2200, 0), (0, 0)]);
        assert_eq!(needs(Some(2499 << 10), None), apart);
        assert_eq!(needs(Some(2500 << 10), Some(2699 << 10)), apart);
    }

    #[test]
    fn package_that_exceeded_memory_stays_on_disk() {
        let expected = |plan: &Plan| (plan.package(0).on_disk, plan.package(0).expected());
        let scratch = Some(ScratchMemory { size: 1000 << 10, limit: None });
        let mut plan = plan(&["lib-1"]);
        plan.expect_needs(&[cost("lib-1", 1, 100, 800)], scratch);
        assert_eq!(expected(&plan), (false, ResourceNeeds { memory_kib: 900, disk_kib: 0 }));
        plan.write_on_disk(0, ResourceNeeds { memory_kib: 50, disk_kib: 1000 });
        assert_eq!(
            expected(&plan),
            (true, ResourceNeeds { memory_kib: 100, disk_kib: 1000 }),
            "the larger memory use is kept"
        );
        let mut next = super::tests::plan(&["lib-1"]);
        next.expect_needs(&[cost("lib-1", 2, 100, 1000)], scratch);
        assert!(next.package(0).on_disk);
    }

    #[test]
    fn resumed_build_keeps_machine_failures_on_disk() {
        let outcomes = |outcome: &str| {
            let mut plan = plan(&["lib-1"]);
            let (client, why) = (String::new(), String::new());
            let attempt =
                AttemptRow { job: 0, attempt: 1, client, began_ms: 0, ended_ms: Some(1), outcome: outcome.into(), why };
            plan.restore_attempts(&[attempt]);
            plan.expect_needs(&[cost("lib-1", 1, 100, 800)], Some(ScratchMemory { size: 1000 << 10, limit: None }));
            plan.package(0).on_disk
        };
        assert_eq!(["machine", "interrupted", "failed"].map(outcomes), [true, false, false]);
    }

    #[test]
    fn packages_that_do_not_fit_together_run_in_sequence() {
        let started = |memory, disk, in_memory| {
            let mut plan = plan(&["lib-1", "app-1"]);
            plan.expect_needs(&[cost("lib-1", 1, 600, 70), cost("app-1", 1, 600, 70)], in_memory);
            let mut schedule = plan.schedule(&[1, 1]).unwrap();
            schedule.limit_admission(AdmissionLimits { memory_kib: None, slots: usize::MAX });
            schedule.begin();
            schedule.update_resources(ResourceSample {
                free_kib: Some(memory),
                free_disk_kib: Some(disk),
                ..ResourceSample::default()
            });
            std::iter::from_fn(|| schedule.take_next()).filter(|next| matches!(next, Next::Start(_))).count()
        };
        let much = Some(ScratchMemory { size: 1 << 30, limit: None });
        assert_eq!(started(1200, 140, None), 2);
        assert_eq!(started(1199, 140, None), 1);
        assert_eq!(started(1200, 139, None), 1);
        assert_eq!(started(1339, 0, much), 1);
        assert_eq!(started(1340, 0, much), 2);
    }
}
