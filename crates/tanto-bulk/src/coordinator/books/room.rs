//! Where a package writes: in memory while there is room, else on the disk. Does not know what it writes.

use tanto_exec::job::report::TerminationReason;
use tanto_exec::job::{Command, Completion};
use tanto_sys::fs::page_cache;

use super::faults::{says_full, why};
use super::{Books, Progress};
use crate::config::Stage;
use crate::coordinator::needs::Needs;
use crate::resolve::Package;

/// What was to be in memory and has no room there.
const OUTGREW: &str = "it writes more than may be in memory, and is built again on the disk";

/// One of so many parts is little.
const LITTLE: u64 = 16;

impl Books<'_> {
    /// How many bytes a package that begins may write in memory; none: it writes on the disk.
    pub(super) fn room(&self, package: Package) -> Option<u64> {
        self.site.memory.filter(|_| !self.plan.package(package).on_disk)
    }

    /// How many KiB a package that begins will write, as far as that is seen only in memory: on the disk, only what is left
    /// at the end is.
    pub(super) fn known_to_write(&self, package: Package) -> u64 {
        let it = self.plan.package(package);
        // In memory nobody has seen more than there was room for.
        self.site.memory.filter(|_| it.on_disk).map_or(0, |most| it.needs.disk_kib.min(most / 1024))
    }

    /// What a package has written, if that is kept in memory.
    pub(super) fn files_in_memory(&self, package: Package) -> Option<u64> {
        let progress = self.running.get(&package).filter(|it| it.room_kib.is_some())?;
        page_cache::tmpfs_used_kib(&self.site.sandbox.as_ref()?.place(progress.client).scratch())
    }

    /// A stage has ended. Was there too little room in memory for what it wrote? Then even what has succeeded may be
    /// something else than it should be: a question of `configure` may have been answered by that.
    pub(super) fn has_outgrown(&mut self, package: Package, completion: &Completion) -> bool {
        let files_kib = self.files_in_memory(package).unwrap_or(0);
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.disk_kib = progress.disk_kib.max(files_kib);
        let wants_kib = progress.wants_more_than(completion).filter(|_| progress.stage.writes() && !progress.killed);
        progress.outgrew = wants_kib.is_some();
        progress.disk_kib = progress.disk_kib.max(wants_kib.unwrap_or(0));
        progress.outgrew
    }

    /// From now on a package that runs writes on the disk. It had so much by now.
    pub(super) fn leave_memory(&mut self, package: Package, had: Needs) {
        self.plan.write_on_disk(package, had);
        self.moved.push(package);
    }

    /// What a package has written goes, and then it is tried again on the disk.
    pub(super) fn go_to_disk(&mut self, package: Package, completion: &Completion) -> Command {
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.retries = true;
        let had = progress.had();
        let why = match completion.exit.success() {
            true => progress.stage.name().to_owned(),
            false => why(progress.stage, completion),
        };
        self.note_fault(package, &format!("{why}: {OUTGREW}"));
        self.leave_memory(package, had);
        self.enter(package, Stage::Clean)
    }
}

impl Progress {
    /// What it has had of the machine by now.
    pub(super) fn had(&self) -> Needs {
        Needs { memory_kib: self.peak_kib, disk_kib: self.disk_kib }
    }

    /// A stage has ended. If it had too little room in memory for what it wrote: it would write more KiB than these.
    fn wants_more_than(&self, completion: &Completion) -> Option<u64> {
        let room_kib = self.room_kib?;
        let stopped = completion.report.as_ref().and_then(|report| report.termination.as_ref());
        // These stages write elsewhere too, and what is full may be there.
        let is_apart = matches!(self.stage, Stage::Checksum | Stage::SyncPackage);
        match stopped.map(|stopped| stopped.reason) {
            Some(TerminationReason::Requested | TerminationReason::Disk { .. }) => None,
            // On the disk its files are no part of that.
            Some(TerminationReason::Memory { limit_kib }) if self.disk_kib > limit_kib / LITTLE => {
                Some(limit_kib.saturating_sub(self.peak_kib))
            }
            None if !is_apart && !completion.exit.success() && says_full(completion) => Some(room_kib),
            // What did not get on, or for too long, may have waited for room.
            _ => self.has_filled_its_room().then_some(room_kib),
        }
    }

    /// Has it ever had all of its room in memory, or nearly? It is looked at now and then.
    fn has_filled_its_room(&self) -> bool {
        self.room_kib.is_some_and(|room_kib| self.disk_kib >= room_kib - room_kib / LITTLE)
    }
}
