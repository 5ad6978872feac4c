//! Runs the monitor on real processes: samples and signals them when due.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use tanto_sys::cgroup::{CgroupUsage, StallTimes};
use tanto_sys::process::procs;

use super::disk_usage::{DiskUsage, DuEvent};
use super::process_trees::{self, Trees};
use super::{Action, Monitor, ResourceLimits, Sample};
use crate::job::Cost;
use crate::job::report::{JobSample, MonitorReport, ProcessInfo, Termination, TerminationReason};
use crate::job::{JobId, JobLimits};

/// What happens to processes that outlive their job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftovers {
    Ignore,
    Report,
    /// They are killed and reported.
    Kill,
}

/// Which jobs get control groups, where the system allows that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CgroupUse {
    None,
    /// Jobs that are expected to run for at least `LONG_MS`: for shorter ones, a group costs too much.
    Long,
    All,
    /// All; their memory is reported without tmpfs files, which are accounted separately.
    AllWithoutFiles,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// For jobs without limits of their own.
    pub limits: ResourceLimits,
    pub leftovers: Leftovers,
    pub cgroups: CgroupUse,
}

/// Result of `Watcher::poll`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEvent {
    Sampled(JobId, JobSample),
    /// The job did not end after SIGKILL: the runner has to go on without it, and call `ended`.
    Abandoned(JobId),
}

/// Watches the jobs of one runner.
pub struct Watcher {
    begun: Instant,
    options: WatchOptions,
    monitor: Monitor,
    trees: Trees,
    running: BTreeMap<JobId, RunningJob>,
    termination: BTreeMap<JobId, Termination>,
    /// Peak memory of jobs with a control group, in KiB.
    peaks: BTreeMap<JobId, u64>,
}

struct RunningJob {
    limits: ResourceLimits,
    /// If disk usage is limited.
    measure: Option<DiskUsage>,
}

/// Minimum expected duration of a long job.
pub const LONG_MS: u32 = 1000;
/// Leftover processes that exit within this time are not reported.
const EXIT_GRACE: Duration = Duration::from_millis(100);

impl Watcher {
    /// Makes this process the parent of all orphaned descendants. `is_daemon` recognizes processes that belong to no job.
    pub fn new(options: WatchOptions, is_daemon: fn(u32) -> bool) -> io::Result<Watcher> {
        Ok(Watcher {
            begun: Instant::now(),
            options,
            monitor: Monitor::new(),
            trees: Trees::new(options.cgroups != CgroupUse::None, is_daemon)?,
            running: BTreeMap::new(),
            termination: BTreeMap::new(),
            peaks: BTreeMap::new(),
        })
    }

    /// Returns the environment variable that marks the processes of a job: name and value.
    pub fn marker(&self, job: JobId) -> (&'static str, String) {
        (process_trees::MARK, self.trees.mark(job))
    }

    /// Excludes a child of Tanto that belongs to no job.
    pub fn ignore(&mut self, pid: u32) {
        self.trees.exclude(pid);
    }

    /// Records the start or end of a child of Tanto that belongs to no job.
    pub fn set_unrelated(&mut self, pid: u32, runs: bool) {
        self.trees.set_unrelated(pid, runs);
    }

    /// Returns the job's own limits or the general ones.
    pub fn limits(&self, own: Option<&JobLimits>) -> ResourceLimits {
        own.map_or(self.options.limits, |own| own.resources)
    }

    /// Creates a control group for a job that is about to start, if it is to have one. The first process joins by
    /// writing `0` to each of these files before it executes the command, so that no descendant can escape.
    pub fn create_cgroup(&mut self, job: JobId, expected: Cost, own: Option<&JobLimits>) -> Vec<File> {
        let wanted = match self.options.cgroups {
            CgroupUse::None => false,
            CgroupUse::Long => expected.wall_ms >= LONG_MS,
            CgroupUse::All | CgroupUse::AllWithoutFiles => true,
        };
        let memory_kib = self.limits(own).memory_kib;
        if wanted { self.trees.create_cgroup(job, memory_kib) } else { Vec::new() }
    }

    /// Records that a job will start in a sandbox: `first` is the first process there, and `keeper` a child of Tanto
    /// that belongs to no job.
    pub fn enter_sandbox(&mut self, job: JobId, first: u32, keeper: u32) {
        self.trees.enter_sandbox(job, first, keeper);
    }

    /// Records the start of a job; `pid` is its first process, which the runner reaps.
    pub fn started(&mut self, job: JobId, pid: u32, own: Option<&JobLimits>) {
        let limits = self.limits(own);
        let place = own.and_then(|own| own.scratch.as_deref()).filter(|_| limits.disk_kib.is_some());
        self.running.insert(job, RunningJob { limits, measure: place.map(DiskUsage::new) });
        self.trees.started(job, pid);
        self.monitor.started(job, limits, self.now_ms());
    }

    pub fn record_output(&mut self, job: JobId) {
        self.monitor.record_output(job);
    }

    /// Returns the time until `poll` has something to do.
    pub fn until_due(&self) -> Option<Duration> {
        let due = self.monitor.due_ms()?;
        Some(Duration::from_millis((due - self.now_ms()).max(0).unsigned_abs()))
    }

    /// Does what is due. Returns one event, or `None` if nothing more is due.
    pub fn poll(&mut self) -> Option<WatchEvent> {
        while let Some(action) = self.monitor.next(self.now_ms()) {
            if let Some(event) = self.perform(action) {
                return Some(event);
            }
        }
        None
    }

    /// Returns the usage counted by the job's control group, with its peak memory. Call before `ended`.
    pub fn cgroup_usage(&self, job: JobId) -> Option<CgroupUsage> {
        let cgroup_usage = self.trees.cgroup_usage(job)?;
        let peak = self.peaks.get(&job).copied();
        Some(CgroupUsage {
            memory_kib: self.job_memory_kib(&cgroup_usage).max(peak.filter(|&kib| kib > 0)),
            ..cgroup_usage
        })
    }

    /// Returns the stall times of the job's control group. Call before `ended`.
    pub fn waits(&self, job: JobId) -> Option<StallTimes> {
        self.trees.waits(job)
    }

    /// Records that the first process was reaped, or that the runner gave the job up, and returns the report.
    pub fn ended(&mut self, job: JobId) -> Option<Box<MonitorReport>> {
        self.monitor.ended(job);
        let own = self.running.remove(&job);
        if let Some(killed_pid) = own.and_then(|own| own.measure).and_then(|mut measure| measure.end()) {
            self.trees.set_unrelated(killed_pid, false);
        }
        self.peaks.remove(&job);
        let termination = self.termination.remove(&job);
        let wanted = termination.is_some() || self.options.leftovers != Leftovers::Ignore;
        let leftovers = if wanted { self.trees.orphans_left_by(job) } else { Vec::new() };
        let leftovers = process_trees::process_infos(&procs::trees(&leftovers));
        self.trees.leader_reaped(job);
        let had_oom_kill = termination.is_none() && self.trees.had_oom_kill(job);
        let left_killed = termination.is_some() || self.options.leftovers == Leftovers::Kill;
        if left_killed && (termination.is_some() || !leftovers.is_empty()) {
            self.trees.kill(job);
        }
        self.trees.forget(job);
        if termination.is_none() && leftovers.is_empty() && !had_oom_kill {
            return None;
        }
        // The processes of a terminated job are in its termination.
        let leftovers = if termination.is_some() { Vec::new() } else { leftovers };
        Some(Box::new(MonitorReport {
            termination,
            leftovers,
            leftovers_killed: left_killed,
            was_oom_killed: had_oom_kill,
        }))
    }

    /// Returns the living processes of finished jobs. Call when no job runs; processes that are about to exit get a
    /// moment.
    pub fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        if self.options.leftovers == Leftovers::Ignore {
            return Vec::new();
        }
        let until = Instant::now() + EXIT_GRACE;
        while !self.trees.leftovers().is_empty() && Instant::now() < until {
            std::thread::sleep(EXIT_GRACE / 20);
        }
        let leftovers = self.trees.leftovers();
        leftovers.into_iter().map(|(job, pids)| (job, process_trees::process_infos(&procs::trees(&pids)))).collect()
    }

    /// Terminates a running job; returns false if it does not run or is already ending.
    pub fn terminate(&mut self, job: JobId, reason: TerminationReason) -> bool {
        let action = self.monitor.terminate_job(job, self.now_ms(), reason);
        action.map(|action| self.perform(action)).is_some()
    }

    /// The first process has exited. Returns why the job was terminated, if it was, possibly by the kernel.
    pub fn first_exited(&mut self, job: JobId) -> Option<TerminationReason> {
        let memory_kib = self.running.get(&job).and_then(|own| own.limits.memory_kib);
        if let Some(limit_kib) = memory_kib
            && !self.termination.contains_key(&job)
            && self.trees.exceeded_memory_limit(job)
        {
            let reason = TerminationReason::Memory { limit_kib };
            self.termination.insert(job, Termination { reason, processes: Vec::new(), killed: true });
        }
        self.reason(job)
    }

    /// Returns why the job is being terminated, if it is.
    pub fn reason(&self, job: JobId) -> Option<TerminationReason> {
        self.termination.get(&job).map(|termination| termination.reason)
    }

    fn perform(&mut self, action: Action) -> Option<WatchEvent> {
        match action {
            Action::Sample(job) => self.sample(job),
            Action::Terminate(job, reason) => {
                let processes = process_trees::process_infos(&self.trees.of(job));
                self.termination.insert(job, Termination { reason, processes, killed: false });
                self.trees.terminate(job);
                None
            }
            Action::Kill(job) => {
                if let Some(termination) = self.termination.get_mut(&job) {
                    termination.killed = true;
                }
                self.trees.kill(job);
                None
            }
            Action::Abandon(job) => Some(WatchEvent::Abandoned(job)),
        }
    }

    fn sample(&mut self, job: JobId) -> Option<WatchEvent> {
        let tree = self.trees.of(job);
        let limits = self.running.get(&job)?.limits;
        let mut sample = process_trees::sample(&tree, limits.hang_ms.is_some());
        let cgroup_usage = self.trees.cgroup_usage(job);
        let mut load = process_trees::load(&tree);
        sample.total_cpu_us = sample.cpu_us.saturating_add(self.trees.orphans_cpu_us(job));
        if let Some(cgroup_usage) = cgroup_usage {
            load.memory_kib = cgroup_usage.memory_kib.unwrap_or(load.memory_kib);
            load.files_kib = cgroup_usage.memory_kib.and(cgroup_usage.files_kib);
            let job_memory_kib = self.job_memory_kib(&cgroup_usage).unwrap_or(0);
            let peak = self.peaks.entry(job).or_default();
            *peak = job_memory_kib.max(*peak);
            sample.total_cpu_us = sample.total_cpu_us.max(cgroup_usage.user_us.saturating_add(cgroup_usage.system_us));
        }
        if let Some(limit_kib) = limits.memory_kib {
            let is_counted = cgroup_usage.is_some_and(|cgroup_usage| cgroup_usage.memory_kib.is_some());
            let is_sure = is_counted || load.memory_kib <= limit_kib;
            sample.memory_kib = if is_sure { load.memory_kib } else { process_trees::memory_kib_of(&tree) };
            sample.exceeded_memory_limit = self.trees.exceeded_memory_limit(job);
        }
        self.measure(job, &mut sample);
        if let Some(action) = self.monitor.record_sample(job, self.now_ms(), sample) {
            return self.perform(action);
        }
        limits.sample.then_some(WatchEvent::Sampled(job, load))
    }

    /// Returns the memory that counts as used by the job.
    fn job_memory_kib(&self, cgroup_usage: &CgroupUsage) -> Option<u64> {
        let files_kib =
            if self.options.cgroups == CgroupUse::AllWithoutFiles { cgroup_usage.files_kib.unwrap_or(0) } else { 0 };
        Some(cgroup_usage.memory_kib?.saturating_sub(files_kib))
    }

    /// Adds the last known size of the scratch directory to a sample.
    fn measure(&mut self, job: JobId, sample: &mut Sample) {
        let Some(measure) = self.running.get_mut(&job).and_then(|own| own.measure.as_mut()) else { return };
        match measure.poll() {
            Some(DuEvent::Started(pid)) => self.trees.set_unrelated(pid, true),
            Some(DuEvent::Finished(pid)) => self.trees.set_unrelated(pid, false),
            None => {}
        }
        sample.disk_kib = measure.kib();
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
