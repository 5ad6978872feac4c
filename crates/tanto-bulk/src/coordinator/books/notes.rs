//! What the books write down: states, attempts, stages and what they cost for the database, and logs. Does not know what
//! comes next for a package.

use std::fs;
use std::path::{Path, PathBuf};

use tanto_exec::job::report::JobSample;
use tanto_exec::job::{Completion, Usage};
use tanto_record::database::{AttemptRow, Change, CostRow, FileRow};

use super::{Books, Progress};
use crate::attempt::build_settings::Site;
use crate::attempt::stages::files;
use crate::config::Stage;
use crate::coordinator::clients;
use crate::coordinator::state::{MACHINE, StateRecord};
use crate::freshness::{Content, PackageFiles};
use crate::package::ALL;
use crate::resolve::Package;

impl Books<'_> {
    /// A package was built. If that brought the same as before, as far as it is asked, nothing else is built for that.
    pub(super) fn note_content(&mut self, package: Package) {
        let Site { pkgsrc, packages, suffix, .. } = self.site;
        let place = PackageFiles { pkgsrc, packages, suffix, contents: true };
        let it = self.plan.package(package);
        let renewed = it.content.as_ref().and_then(|before| place.renewed(&it.name, before));
        match &renewed {
            Some(Content { written_ns, since_ns, .. }) if since_ns < written_ns => {
                let (name, written_ns, since_ns) = (it.name.clone(), *written_ns, *since_ns);
                self.journal.record(Change::Content { name, written_ns, since_ns });
            }
            _ => self.plan.built(package),
        }
        self.plan.holds(package, renewed);
    }

    /// The settings of a package that is done; those that it was built with stand if it was not built now.
    pub(super) fn note_options(&mut self, package: Package, is_new: bool) {
        if let Some(change) = self.plan.package(package).options_row(is_new) {
            self.journal.record(change);
        }
    }

    /// Journals changes of states, and keeps them for the view.
    pub(super) fn publish(&mut self, records: impl IntoIterator<Item = StateRecord>) {
        for record in records {
            self.has_moved = true;
            self.journal.record(record.change());
            self.records.push(record);
        }
    }

    /// A package is something else now.
    pub(super) fn note_again(&mut self, package: Package) {
        self.has_moved = true;
        self.plan.rows_of(package).for_each(|change| self.journal.record(change));
    }

    /// Who builds it.
    pub(super) fn client(&self, it: &Progress) -> String {
        clients::name(it.client)
    }

    /// Milliseconds since 1970.
    pub(super) fn date(&self, ms: i64) -> i64 {
        self.epoch_ms.saturating_add(ms)
    }

    pub(super) fn note_attempt(&mut self, package: Package, progress: &Progress, outcome: &str, why: &str) {
        let ended_ms = Some(self.date(self.clock.now_ms()));
        self.journal.record(Change::Attempt(self.attempt_row(package, progress, ended_ms, outcome, why)));
    }

    /// An attempt has ended, and not for a fault of the package.
    pub(super) fn note_fault(&mut self, package: Package, why: &str) {
        let ended_ms = Some(self.date(self.clock.now_ms()));
        let row = self.attempt_row(package, &self.running[&package], ended_ms, MACHINE, why);
        self.journal.record(Change::Attempt(row));
    }

    pub(super) fn attempt_row(
        &self,
        job: u32,
        it: &Progress,
        ended_ms: Option<i64>,
        outcome: &str,
        why: &str,
    ) -> AttemptRow {
        AttemptRow {
            job,
            attempt: it.attempt,
            client: self.client(it),
            began_ms: self.date(it.began_ms),
            ended_ms,
            outcome: outcome.into(),
            why: why.into(),
        }
    }

    pub(super) fn note_stage(&mut self, package: Package, completion: &Completion, log: String) {
        let progress = &self.running[&package];
        let usage = completion.usage;
        self.journal.record(Change::Stage(tanto_record::database::StageRow {
            job: package,
            attempt: progress.attempt,
            stage: progress.stage.name().into(),
            began_ms: self.date(progress.stage_began_ms),
            wall_ms: u64::try_from(self.clock.now_ms() - progress.stage_began_ms).unwrap_or(0),
            cpu_ms: cpu_ms(usage),
            peak_kib: usage.max_rss_kib,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
            waits: usage.waits,
            exit: completion.exit.code(),
            log,
        }));
    }

    pub(super) fn note_cost(&mut self, package: Package, progress: &Progress) {
        let it = self.plan.package(package);
        let now_ms = self.clock.now_ms();
        self.journal.record(Change::Cost(CostRow {
            name: it.name.clone(),
            location: it.location.clone(),
            at_ms: self.date(now_ms),
            wall_ms: u64::try_from(now_ms - progress.began_ms).unwrap_or(0),
            cpu_ms: progress.cpu_ms,
            peak_kib: progress.peak_kib,
            disk_kib: progress.disk_kib,
        }));
    }

    /// So much of memory was seen in the hands of a package's processes. What they and its files hold now.
    pub fn looked(&mut self, package: Package, load: JobSample) -> JobSample {
        let files_kib = self.files_in_memory(package);
        let Some(progress) = self.running.get_mut(&package) else { return load };
        // What the kernel counts for a command is what that has written itself, and not what others have before.
        let written_kib = files_kib.and(load.files_kib).unwrap_or(0);
        let own_kib = load.memory_kib.saturating_sub(written_kib);
        progress.peak_kib = progress.peak_kib.max(own_kib);
        progress.disk_kib = progress.disk_kib.max(files_kib.unwrap_or(0));
        JobSample { memory_kib: own_kib + files_kib.unwrap_or(0), ..load }
    }

    /// A package was made: it will write no more than it has.
    pub(super) fn measure(&mut self, package: Package) {
        let progress = self.running.get_mut(&package).expect("it runs");
        let file = files::size(self.site, &self.plan.package(package).name);
        let text = fs::read_to_string(file).unwrap_or_default();
        progress.disk_kib = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    }

    /// What its file is told by, which has got its place.
    pub(super) fn note_file(&mut self, package: Package) {
        let (name, client) = (self.plan.package(package).name.clone(), self.running[&package].client);
        let Ok(digest) = fs::read_to_string(files::digest(self.site, &name, client)) else { return };
        let path = format!("{ALL}/{name}{}", self.site.suffix);
        let Ok(data) = fs::metadata(Path::new(&self.site.packages).join(&path)) else { return };
        self.journal.record(Change::File(FileRow { name, path, bytes: data.len(), digest: digest.into_bytes() }));
    }

    pub(super) fn logs(&self, package: Package) -> PathBuf {
        PathBuf::from(&self.site.logs).join(&self.plan.package(package).name)
    }

    /// What a stage printed, in a file; its name, or nothing if it printed nothing. A log that cannot be written is no
    /// failure of the package.
    pub(super) fn write_log(&self, package: Package, stage: Stage, output: &[u8]) -> String {
        let path = self.logs(package).join(format!("{}.log", stage.name()));
        let write = || fs::create_dir_all(self.logs(package)).and_then(|()| fs::write(&path, output));
        if output.is_empty() || write().is_err() { String::new() } else { path.to_string_lossy().into_owned() }
    }
}

/// What the processor worked.
pub(super) fn cpu_ms(usage: Usage) -> u64 {
    (usage.user_us + usage.system_us) / 1000
}
