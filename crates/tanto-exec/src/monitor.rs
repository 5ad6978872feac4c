//! Watches the processes of jobs: when one is looked at, when it is said to hang, how it is ended. A pure state machine:
//! it is told what was seen and what time it is, and knows no clock, no process and no job's meaning.

mod disk_usage;
pub mod orphans;
mod process_trees;
#[cfg(test)]
mod tests;
pub mod watcher;

use std::collections::{BTreeMap, BTreeSet};

use tanto_sys::process::pid_identity::ProcessId;

use crate::job::report::TerminationReason;
use crate::job::{JobId, ResourceLimits};

impl ResourceLimits {
    /// Only who looks can know when these are reached.
    fn wants_looks(&self) -> bool {
        let has_any = self.hang_ms.or(self.cpu_ms).is_some() || self.memory_kib.or(self.disk_kib).is_some();
        self.sample || has_any
    }

    /// Which of these this is too much for, if one is; not what takes time to be sure of.
    fn broken_by(&self, sample: &Sample) -> Option<TerminationReason> {
        let over = |most: Option<u64>, is: u64| most.filter(|&most| is > most);
        let spent_ms = i64::try_from(sample.spent_us / 1000).unwrap_or(i64::MAX);
        let memory = self.memory_kib.filter(|&most| sample.has_overrun || sample.memory_kib > most);
        let memory = memory.map(|limit_kib| TerminationReason::Memory { limit_kib });
        memory
            .or_else(|| over(self.disk_kib, sample.disk_kib).map(|limit_kib| TerminationReason::Disk { limit_kib }))
            .or_else(|| {
                self.cpu_ms.filter(|&most| spent_ms >= most).map(|after_ms| TerminationReason::CpuTime { after_ms })
            })
    }

    /// A gap after which a job that has done nothing for so long is looked at: not so long that a hang is found late, or that
    /// much is taken meanwhile that others need.
    fn shortened(&self, gap_ms: i64, idle_ms: i64) -> i64 {
        let until_hang = self.hang_ms.map(|hang_ms| (hang_ms / LOOKS_PER_HANG).min(hang_ms - idle_ms));
        let memory = self.memory_kib.map(|_| MEMORY_GAP_MS);
        let disk = self.disk_kib.map(|_| DISK_GAP_MS);
        let most_ms = until_hang.into_iter().chain(memory).chain(disk).min().unwrap_or(LONGEST_GAP_MS);
        gap_ms.min(LONGEST_GAP_MS).min(most_ms).max(1)
    }
}

/// What was seen of a job's processes at one moment.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sample {
    /// All of them, in ascending order.
    pub processes: Vec<ProcessId>,
    /// Processor time of them and of those that they have waited for, in microseconds.
    pub cpu_us: u64,
    /// Bytes that they have written, wherever to, as far as that is known.
    pub written: u64,
    /// Changes whenever one of them has waited for another one.
    pub waited: u64,
    /// Processor time of all that there ever were, in microseconds, as far as that is known.
    pub spent_us: u64,
    /// Memory that they hold, in KiB; asked for only where it is limited.
    pub memory_kib: u64,
    /// The kernel has killed one of them that wanted more memory than they may have.
    pub has_overrun: bool,
    /// What lies where they write, in KiB, as far as that is known; asked for only where it is limited.
    pub disk_kib: u64,
}

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Look at its processes, and tell `saw`.
    Look(JobId),
    /// Ask all of its processes to end.
    Terminate(JobId, TerminationReason),
    /// Kill all of its processes.
    Kill(JobId),
    /// Even killing did not end it (a process that a disk or a network keeps): go on without it.
    Abandon(JobId),
}

/// How far its end has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Runs,
    Terminated,
    Killed,
    /// Nothing more will be done.
    Abandoned,
}

struct Watched {
    limits: ResourceLimits,
    stage: Stage,
    /// When the next thing is due, as it stands in the list; none: nothing more.
    due_ms: Option<i64>,
    /// When it is ended whatever it does.
    ends_ms: Option<i64>,
    next_look_ms: Option<i64>,
    /// Between the last look and the next one.
    gap_ms: i64,
    looked_ms: i64,
    last: Option<Sample>,
    /// How long nothing has happened, as far as looks have shown.
    idle_ms: i64,
    /// It has printed something since the last look.
    wrote: bool,
}

/// The jobs that run, and what is due when.
#[derive(Default)]
pub struct Monitor {
    jobs: BTreeMap<JobId, Watched>,
    due: BTreeSet<(i64, JobId)>,
}

/// A job that ends sooner is never looked at.
const FIRST_LOOK_MS: i64 = 100;
/// The gaps between looks double, up to this.
const LONGEST_GAP_MS: i64 = 5_000;
/// Between looks at a job whose memory has a limit, at most: whoever fills memory needs a second for some gigabytes.
const MEMORY_GAP_MS: i64 = 250;
/// The same for the disk, which is slower, and is not asked each time.
const DISK_GAP_MS: i64 = 1_000;
/// Looks in the time after which a job hangs.
const LOOKS_PER_HANG: i64 = 4;
/// Of a thousand microseconds, so many of processor time count as none: a program that only waits looks at the clock
/// now and then.
const IDLE_PER_MILLE: u64 = 2;

impl Monitor {
    /// With nothing to watch yet.
    pub fn new() -> Monitor {
        Monitor::default()
    }

    /// The job has started, and may take so much.
    pub fn started(&mut self, job: JobId, limits: ResourceLimits, now_ms: i64) {
        let watched = Watched {
            limits,
            stage: Stage::Runs,
            due_ms: None,
            ends_ms: limits.total_ms.map(|total| now_ms.saturating_add(total)),
            next_look_ms: limits.wants_looks().then(|| now_ms + limits.shortened(FIRST_LOOK_MS, 0)),
            gap_ms: FIRST_LOOK_MS,
            looked_ms: now_ms,
            last: None,
            idle_ms: 0,
            wrote: false,
        };
        self.jobs.insert(job, watched);
        self.schedule(job);
    }

    /// The job has printed something.
    pub fn wrote(&mut self, job: JobId) {
        if let Some(it) = self.jobs.get_mut(&job) {
            it.wrote = true;
        }
    }

    /// The job has ended; nothing more is said of it.
    pub fn ended(&mut self, job: JobId) {
        if let Some(due) = self.jobs.remove(&job).and_then(|it| it.due_ms) {
            self.due.remove(&(due, job));
        }
    }

    /// When `next` will have something to do.
    pub fn due_ms(&self) -> Option<i64> {
        self.due.first().map(|&(due, _)| due)
    }

    /// What is to be done now, one thing at a time; none: nothing before `due_ms`. A look that is asked for has to be
    /// answered before the next call.
    pub fn next(&mut self, now_ms: i64) -> Option<Act> {
        let &(due, job) = self.due.first()?;
        if due > now_ms {
            return None;
        }
        let it = self.jobs.get_mut(&job)?;
        let act = match it.stage {
            Stage::Runs if it.ends_ms.is_some_and(|end| end <= now_ms) => {
                let after_ms = it.limits.total_ms.unwrap_or(0);
                return Some(self.terminate(job, now_ms, TerminationReason::Timeout { after_ms }));
            }
            // Not before the next millisecond, should nobody answer.
            Stage::Runs => {
                it.next_look_ms = Some(now_ms + 1);
                Act::Look(job)
            }
            Stage::Terminated => {
                self.enter(job, Stage::Killed, now_ms);
                return Some(Act::Kill(job));
            }
            Stage::Killed | Stage::Abandoned => {
                self.enter(job, Stage::Abandoned, now_ms);
                return Some(Act::Abandon(job));
            }
        };
        self.schedule(job);
        Some(act)
    }

    /// What a look at the job's processes has shown. If it hangs or takes too much, what is to be done is returned.
    pub fn saw(&mut self, job: JobId, now_ms: i64, sample: Sample) -> Option<Act> {
        let it = self.jobs.get_mut(&job).filter(|it| it.stage == Stage::Runs)?;
        let limits = it.limits;
        if let Some(why) = limits.broken_by(&sample) {
            return Some(self.terminate(job, now_ms, why));
        }
        let gap_ms = now_ms - it.looked_ms;
        it.idle_ms = match it.is_active(&sample, gap_ms) {
            true => 0,
            // Whoever was stopped together with us (or slept while the machine did) had no time either.
            false => it.idle_ms + gap_ms.min(2 * it.gap_ms),
        };
        it.wrote = false;
        it.looked_ms = now_ms;
        let (idle_ms, doubled) = (it.idle_ms, if it.last.is_some() { 2 * it.gap_ms } else { it.gap_ms });
        it.last = Some(sample);
        if let Some(after_ms) = limits.hang_ms.filter(|&hang| idle_ms >= hang) {
            return Some(self.terminate(job, now_ms, TerminationReason::Hung { after_ms }));
        }
        it.gap_ms = limits.shortened(doubled, idle_ms);
        it.next_look_ms = Some(now_ms + it.gap_ms);
        self.schedule(job);
        None
    }

    /// The job is to end now. What is to be done, if it runs and is not ending already.
    pub fn end(&mut self, job: JobId, now_ms: i64, why: TerminationReason) -> Option<Act> {
        self.jobs.get(&job).filter(|it| it.stage == Stage::Runs)?;
        Some(self.terminate(job, now_ms, why))
    }

    fn terminate(&mut self, job: JobId, now_ms: i64, why: TerminationReason) -> Act {
        self.enter(job, Stage::Terminated, now_ms);
        if let Some(it) = self.jobs.get_mut(&job).filter(|_| why.is_urgent()) {
            it.ends_ms = Some(now_ms);
            self.schedule(job);
        }
        Act::Terminate(job, why)
    }

    /// The one place where a job comes nearer to its end.
    fn enter(&mut self, job: JobId, stage: Stage, now_ms: i64) {
        if let Some(it) = self.jobs.get_mut(&job) {
            it.stage = stage;
            it.ends_ms = (stage != Stage::Abandoned).then(|| now_ms.saturating_add(it.limits.grace_ms));
            it.next_look_ms = None;
        }
        self.schedule(job);
    }

    fn schedule(&mut self, job: JobId) {
        let Some(it) = self.jobs.get_mut(&job) else { return };
        if let Some(due) = it.due_ms {
            self.due.remove(&(due, job));
        }
        it.due_ms = it.ends_ms.into_iter().chain(it.next_look_ms).min();
        if let Some(due) = it.due_ms {
            self.due.insert((due, job));
        }
    }
}

impl Watched {
    /// Has it done anything since the last look? A process that is gone counts: who waited for it may go on now.
    fn is_active(&self, now: &Sample, gap_ms: i64) -> bool {
        let Some(before) = &self.last else { return true };
        let idle_us = gap_ms.unsigned_abs() * IDLE_PER_MILLE;
        self.wrote
            || now.processes != before.processes
            || (now.written, now.waited) != (before.written, before.waited)
            || now.cpu_us.abs_diff(before.cpu_us) > idle_us
    }
}
