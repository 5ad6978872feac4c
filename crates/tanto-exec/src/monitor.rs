//! Decides when to sample the processes of a job, when it hangs or exceeds a limit, and how it is terminated. A pure
//! state machine: samples and times are arguments.

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
    /// Returns whether a limit can only be checked by sampling.
    fn needs_samples(&self) -> bool {
        let has_any = self.hang_ms.or(self.cpu_ms).is_some() || self.memory_kib.or(self.disk_kib).is_some();
        self.sample || has_any
    }

    /// Returns the limit that a sample exceeds. Hangs are found by comparing samples, see `record_sample`.
    fn exceeded_by(&self, sample: &Sample) -> Option<TerminationReason> {
        let over = |most: Option<u64>, is: u64| most.filter(|&most| is > most);
        let spent_ms = i64::try_from(sample.total_cpu_us / 1000).unwrap_or(i64::MAX);
        let memory = self.memory_kib.filter(|&most| sample.exceeded_memory_limit || sample.memory_kib > most);
        let memory = memory.map(|limit_kib| TerminationReason::Memory { limit_kib });
        memory
            .or_else(|| over(self.disk_kib, sample.disk_kib).map(|limit_kib| TerminationReason::Disk { limit_kib }))
            .or_else(|| {
                self.cpu_ms.filter(|&most| spent_ms >= most).map(|after_ms| TerminationReason::CpuTime { after_ms })
            })
    }

    /// Shortens the interval to the next sample of a job that was idle for `idle_ms`, so that hangs and large memory
    /// use are found early.
    fn shorten_interval(&self, interval_ms: i64, idle_ms: i64) -> i64 {
        let until_hang = self.hang_ms.map(|hang_ms| (hang_ms / SAMPLES_PER_HANG).min(hang_ms - idle_ms));
        let memory = self.memory_kib.map(|_| MEMORY_INTERVAL_MS);
        let disk = self.disk_kib.map(|_| DISK_INTERVAL_MS);
        let most_ms = until_hang.into_iter().chain(memory).chain(disk).min().unwrap_or(MAX_INTERVAL_MS);
        interval_ms.min(MAX_INTERVAL_MS).min(most_ms).max(1)
    }
}

/// State of a job's processes at one moment.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sample {
    /// In ascending order.
    pub processes: Vec<ProcessId>,
    /// CPU time of the processes and their reaped children, in microseconds.
    pub cpu_us: u64,
    /// Bytes written to files and pipes, if known.
    pub written: u64,
    /// Changes whenever a process has reaped another one.
    pub waited: u64,
    /// CPU time of all current and former processes, in microseconds, if known.
    pub total_cpu_us: u64,
    /// Measured only if limited.
    pub memory_kib: u64,
    /// The kernel killed a process at the memory limit of the control group.
    pub exceeded_memory_limit: bool,
    /// Size of the scratch directory; measured only if limited.
    pub disk_kib: u64,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Take a sample, and pass it to `record_sample`.
    Sample(JobId),
    /// Send SIGTERM to all processes.
    Terminate(JobId, TerminationReason),
    /// Send SIGKILL to all processes.
    Kill(JobId),
    /// Go on without the job, which not even SIGKILL ended: a disk or network file system blocks it.
    Abandon(JobId),
}

/// Progress of the termination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobState {
    Running,
    Terminating,
    Killed,
    Abandoned,
}

struct MonitoredJob {
    limits: ResourceLimits,
    state: JobState,
    /// Its entry in `Monitor::due`.
    due_ms: Option<i64>,
    /// When `total_ms` or the grace period ends.
    ends_ms: Option<i64>,
    next_sample_ms: Option<i64>,
    /// Interval between the last sample and the next one.
    interval_ms: i64,
    sampled_ms: i64,
    last: Option<Sample>,
    /// Time without any activity.
    idle_ms: i64,
    /// It has printed something since the last sample.
    wrote: bool,
}

/// Running jobs, and what is due when.
#[derive(Default)]
pub struct Monitor {
    jobs: BTreeMap<JobId, MonitoredJob>,
    due: BTreeSet<(i64, JobId)>,
}

/// Shorter jobs are never sampled.
const FIRST_SAMPLE_MS: i64 = 100;
/// Intervals double up to this.
const MAX_INTERVAL_MS: i64 = 5_000;
/// Longest interval for jobs with a memory limit: a process fills some gigabytes per second.
const MEMORY_INTERVAL_MS: i64 = 250;
/// Longest interval for jobs with a disk limit: disks are slower, and measuring is expensive.
const DISK_INTERVAL_MS: i64 = 1_000;
/// Samples within the hang timeout.
const SAMPLES_PER_HANG: i64 = 4;
/// CPU time per 1000 microseconds that counts as idle: a waiting program still polls now and then.
const IDLE_PER_MILLE: u64 = 2;

impl Monitor {
    pub fn new() -> Monitor {
        Monitor::default()
    }

    pub fn started(&mut self, job: JobId, limits: ResourceLimits, now_ms: i64) {
        let monitored = MonitoredJob {
            limits,
            state: JobState::Running,
            due_ms: None,
            ends_ms: limits.total_ms.map(|total| now_ms.saturating_add(total)),
            next_sample_ms: limits.needs_samples().then(|| now_ms + limits.shorten_interval(FIRST_SAMPLE_MS, 0)),
            interval_ms: FIRST_SAMPLE_MS,
            sampled_ms: now_ms,
            last: None,
            idle_ms: 0,
            wrote: false,
        };
        self.jobs.insert(job, monitored);
        self.schedule(job);
    }

    pub fn record_output(&mut self, job: JobId) {
        if let Some(it) = self.jobs.get_mut(&job) {
            it.wrote = true;
        }
    }

    pub fn ended(&mut self, job: JobId) {
        if let Some(due) = self.jobs.remove(&job).and_then(|it| it.due_ms) {
            self.due.remove(&(due, job));
        }
    }

    /// Returns when `next` has something to do.
    pub fn due_ms(&self) -> Option<i64> {
        self.due.first().map(|&(due, _)| due)
    }

    /// Returns one action that is due; `None`: nothing before `due_ms`. Answer a `Sample` before the next call.
    pub fn next(&mut self, now_ms: i64) -> Option<Action> {
        let &(due, job) = self.due.first()?;
        if due > now_ms {
            return None;
        }
        let it = self.jobs.get_mut(&job)?;
        let action = match it.state {
            JobState::Running if it.ends_ms.is_some_and(|end| end <= now_ms) => {
                let after_ms = it.limits.total_ms.unwrap_or(0);
                return Some(self.begin_termination(job, now_ms, TerminationReason::Timeout { after_ms }));
            }
            // Due again in a millisecond, in case the sample is not taken.
            JobState::Running => {
                it.next_sample_ms = Some(now_ms + 1);
                Action::Sample(job)
            }
            JobState::Terminating => {
                self.set_state(job, JobState::Killed, now_ms);
                return Some(Action::Kill(job));
            }
            JobState::Killed | JobState::Abandoned => {
                self.set_state(job, JobState::Abandoned, now_ms);
                return Some(Action::Abandon(job));
            }
        };
        self.schedule(job);
        Some(action)
    }

    /// Records a sample. Returns an action if the job hangs or exceeds a limit.
    pub fn record_sample(&mut self, job: JobId, now_ms: i64, sample: Sample) -> Option<Action> {
        let it = self.jobs.get_mut(&job).filter(|it| it.state == JobState::Running)?;
        let limits = it.limits;
        if let Some(why) = limits.exceeded_by(&sample) {
            return Some(self.begin_termination(job, now_ms, why));
        }
        let interval_ms = now_ms - it.sampled_ms;
        it.idle_ms = match it.is_active(&sample, interval_ms) {
            true => 0,
            // Time in which Tanto itself was stopped, or the system slept, does not count.
            false => it.idle_ms + interval_ms.min(2 * it.interval_ms),
        };
        it.wrote = false;
        it.sampled_ms = now_ms;
        let (idle_ms, doubled) = (it.idle_ms, if it.last.is_some() { 2 * it.interval_ms } else { it.interval_ms });
        it.last = Some(sample);
        if let Some(after_ms) = limits.hang_ms.filter(|&hang| idle_ms >= hang) {
            return Some(self.begin_termination(job, now_ms, TerminationReason::Hung { after_ms }));
        }
        it.interval_ms = limits.shorten_interval(doubled, idle_ms);
        it.next_sample_ms = Some(now_ms + it.interval_ms);
        self.schedule(job);
        None
    }

    /// Terminates a job, unless it is already ending.
    pub fn terminate_job(&mut self, job: JobId, now_ms: i64, why: TerminationReason) -> Option<Action> {
        self.jobs.get(&job).filter(|it| it.state == JobState::Running)?;
        Some(self.begin_termination(job, now_ms, why))
    }

    fn begin_termination(&mut self, job: JobId, now_ms: i64, why: TerminationReason) -> Action {
        self.set_state(job, JobState::Terminating, now_ms);
        if let Some(it) = self.jobs.get_mut(&job).filter(|_| why.is_urgent()) {
            it.ends_ms = Some(now_ms);
            self.schedule(job);
        }
        Action::Terminate(job, why)
    }

    /// Advances the termination of a job. No other function changes its state.
    fn set_state(&mut self, job: JobId, state: JobState, now_ms: i64) {
        if let Some(it) = self.jobs.get_mut(&job) {
            it.state = state;
            it.ends_ms = (state != JobState::Abandoned).then(|| now_ms.saturating_add(it.limits.grace_ms));
            it.next_sample_ms = None;
        }
        self.schedule(job);
    }

    fn schedule(&mut self, job: JobId) {
        let Some(it) = self.jobs.get_mut(&job) else { return };
        if let Some(due) = it.due_ms {
            self.due.remove(&(due, job));
        }
        it.due_ms = it.ends_ms.into_iter().chain(it.next_sample_ms).min();
        if let Some(due) = it.due_ms {
            self.due.insert((due, job));
        }
    }
}

impl MonitoredJob {
    /// Returns whether anything happened since the last sample. The exit of a process counts: its parent may go on now.
    fn is_active(&self, now: &Sample, interval_ms: i64) -> bool {
        let Some(before) = &self.last else { return true };
        let idle_us = interval_ms.unsigned_abs() * IDLE_PER_MILLE;
        self.wrote
            || now.processes != before.processes
            || (now.written, now.waited) != (before.written, before.waited)
            || now.cpu_us.abs_diff(before.cpu_us) > idle_us
    }
}
