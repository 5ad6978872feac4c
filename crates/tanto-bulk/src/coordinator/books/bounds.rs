//! What a stage may take, and what its log says if it took more. Does not know who sees to it.

use std::borrow::Cow;
use std::path::PathBuf;

use tanto_exec::job::{Completion, JobLimits};
use tanto_record::views::process_list;

use super::Books;
use crate::config::Stage;
use crate::resolve::Package;

impl Books<'_> {
    /// None: what all may take.
    pub(super) fn bounds(&self, package: Package, stage: Stage) -> Option<Box<JobLimits>> {
        let mut limits = self.site.limits.get(&stage)?.watched();
        limits.disk_kib = limits.disk_kib.filter(|_| stage.writes());
        let scratch = limits.disk_kib.and_then(|_| self.scratch(package));
        Some(Box::new(JobLimits { resources: limits, scratch }))
    }

    /// Where a package writes, if that is known.
    fn scratch(&self, package: Package) -> Option<PathBuf> {
        match &self.site.sandbox {
            Some(sandbox) => Some(sandbox.place(self.running[&package].client).scratch()),
            None => self.site.works.get(&self.plan.package(package).name),
        }
    }
}

/// What a stage has printed, and if it was ended why, with the processes that it had then.
pub(super) fn logged(stage: Stage, completion: &Completion) -> Cow<'_, [u8]> {
    let output = completion.output.as_slice();
    let Some(stopped) = completion.report.as_ref().and_then(|report| report.termination.as_ref()) else {
        return Cow::Borrowed(output);
    };
    let end: &[u8] = if output.last().is_some_and(|&last| last != b'\n') { b"\n" } else { b"" };
    Cow::Owned(
        [output, end, &process_list::termination(format!("tanto: {}", stage.name()).as_bytes(), stopped)].concat(),
    )
}
