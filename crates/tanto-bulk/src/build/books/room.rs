//! Where a package writes: in memory while there is room, else on the disk. Does not know what it writes.

use tanto_exec::job::{Command, Completion};
use tanto_exec::monitor::findings::Why;
use tanto_sys::disk;

use super::faults::{says_full, why};
use super::{Books, Progress};
use crate::build::stages::Stage;
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

    /// What a package has written, if that is kept in memory.
    pub(super) fn files_in_memory(&self, package: Package) -> Option<u64> {
        let progress = self.running.get(&package).filter(|it| it.room_kib.is_some())?;
        disk::in_memory_kib(&self.site.sandbox.as_ref()?.place(progress.client).scratch())
    }

    /// A stage has ended. Was there too little room in memory for what it wrote? Then even what has succeeded may be
    /// something else than it should be: a question of `configure` may have been answered by that.
    pub(super) fn has_outgrown(&mut self, package: Package, completion: &Completion) -> bool {
        let files_kib = self.files_in_memory(package).unwrap_or(0);
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.disk_kib = progress.disk_kib.max(files_kib);
        let stopped = completion.findings.as_ref().and_then(|findings| findings.stopped.as_ref());
        let is_full = match stopped.map(|stopped| stopped.why) {
            None => progress.has_filled_its_room() || !completion.exit.success() && says_full(completion),
            // On the disk its files are no part of that.
            Some(Why::Memory { most_kib }) => progress.disk_kib > most_kib / LITTLE,
            Some(_) => false,
        };
        progress.outgrew = progress.room_kib.is_some() && progress.stage.writes() && !progress.killed && is_full;
        progress.outgrew
    }

    /// What a package has written goes, and then it is tried again on the disk.
    pub(super) fn go_to_disk(&mut self, package: Package, completion: &Completion) -> Command {
        let progress = self.running.get_mut(&package).expect("it runs");
        progress.retries = true;
        let why = match completion.exit.success() {
            true => progress.stage.name().to_owned(),
            false => why(progress.stage, completion),
        };
        self.note_fault(package, &format!("{why}: {OUTGREW}"));
        self.plan.write_on_disk(package);
        self.enter(package, Stage::Clean)
    }
}

impl Progress {
    /// Has it ever had all of its room in memory, or nearly? It is looked at now and then.
    fn has_filled_its_room(&self) -> bool {
        self.room_kib.is_some_and(|room_kib| self.disk_kib >= room_kib - room_kib / LITTLE)
    }
}
