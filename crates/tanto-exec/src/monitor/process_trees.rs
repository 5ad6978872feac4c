//! Maps processes to jobs, and signals them.
//!
//! A job owns its first process and all descendants. An orphan is reparented to Tanto; its job is found by its process
//! group or by the marker in its environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use tanto_sys::cgroup::{self, Cgroup, CgroupUsage, OwnCgroups, StallTimes};
use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs::{self, ProcessStat};
use tanto_sys::process::reaper::{self, Reaper};

use super::Sample;
use crate::job::JobId;
use crate::job::report::{JobSample, ProcessInfo};

/// Environment variable that marks the processes of a job.
pub(super) const MARK: &str = "TANTO_JOB";

pub(super) struct Trees {
    reaper: Reaper,
    /// Common prefix of the markers of all instances in this process.
    of_process: String,
    /// Common prefix of all markers of this instance.
    ours: String,
    /// Returns whether a process is a checkpoint daemon, which outlives the job that started it.
    is_daemon: fn(u32) -> bool,
    /// First process of each job; the runner reaps them.
    firsts: BTreeMap<u32, JobId>,
    /// Orphans. Their IDs are not reused before they are reaped here.
    orphans: BTreeMap<u32, OrphanOwner>,
    /// First process in each job's sandbox.
    sandboxes: BTreeMap<JobId, u32>,
    /// CPU time of reaped orphans, in microseconds.
    spent: BTreeMap<JobId, u64>,
    /// Control groups of jobs. Fields are dropped in order, so these go before their parent.
    groups: BTreeMap<JobId, Cgroup>,
    /// Parent of all control groups.
    whole: Option<Cgroup>,
}

/// Owner of an orphan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrphanOwner {
    Job(JobId),
    /// Some job.
    Unknown,
    /// No job here: it existed before, or belongs to another instance in this process.
    Excluded,
}

/// Number of instances so far, for distinct markers.
static MARKERS: AtomicU32 = AtomicU32::new(0);

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

impl Trees {
    /// With `groups`, jobs get control groups where possible.
    pub(super) fn new(groups: bool, is_daemon: fn(u32) -> bool) -> io::Result<Trees> {
        let reaper = Reaper::begin()?;
        let own = ProcessId::current()?;
        let number = MARKERS.fetch_add(1, Ordering::Relaxed);
        let home = groups.then(OwnCgroups::find).filter(|home| home.obstacle().is_none());
        let mut trees = Trees {
            reaper,
            of_process: format!("{own}."),
            ours: format!("{own}.{number}."),
            is_daemon,
            firsts: BTreeMap::new(),
            orphans: BTreeMap::new(),
            sandboxes: BTreeMap::new(),
            spent: BTreeMap::new(),
            groups: BTreeMap::new(),
            whole: home.and_then(|home| Cgroup::below(&home, &cgroup::group_name(own, number)).ok()),
        };
        let before = trees.reaper.children()?;
        trees.orphans = before.into_iter().map(|pid| (pid, OrphanOwner::Excluded)).collect();
        Ok(trees)
    }

    /// Excludes a child of Tanto that belongs to no job.
    pub(super) fn exclude(&mut self, pid: u32) {
        self.orphans.insert(pid, OrphanOwner::Excluded);
    }

    pub(super) fn mark(&self, job: JobId) -> String {
        format!("{}{}", self.ours, job.0)
    }

    pub(super) fn started(&mut self, job: JobId, pid: u32) {
        self.firsts.insert(pid, job);
        let Some(group) = self.groups.get(&job) else { return };
        // The process has already joined, or has ended, or could not join, or was started without the group.
        let is_outside = group.members().is_ok_and(|members| members.is_empty());
        let may_enter = |look: ProcessStat| look.is_gone() || group.add(pid).is_ok();
        if is_outside && !procs::stat(pid).is_none_or(may_enter) {
            self.groups.remove(&job);
        }
    }

    /// Records that a job will start in a sandbox: `first` is the first process there, and `keeper` a child of Tanto
    /// that belongs to no job.
    pub(super) fn enter_sandbox(&mut self, job: JobId, first: u32, keeper: u32) {
        self.orphans.insert(keeper, OrphanOwner::Excluded);
        self.sandboxes.insert(job, first);
    }

    /// Creates a control group for the job, if possible, and returns the files to join it.
    pub(super) fn create_cgroup(&mut self, job: JobId, memory_kib: Option<u64>) -> Vec<File> {
        let Some(group) = self.whole.as_ref().and_then(|whole| whole.within(&job.0.to_string()).ok()) else {
            return Vec::new();
        };
        let join_files = group.join_files().unwrap_or_default();
        // If the kernel cannot enforce the limit, samples do.
        let _ = memory_kib.map(|kib| group.limit_memory(kib.saturating_mul(1024)));
        self.groups.insert(job, group);
        join_files
    }

    /// Returns the usage counted by the job's control group.
    pub(super) fn cgroup_usage(&self, job: JobId) -> Option<CgroupUsage> {
        Some(self.groups.get(&job)?.usage())
    }

    /// Returns the stall times of the job's control group.
    pub(super) fn waits(&self, job: JobId) -> Option<StallTimes> {
        self.groups.get(&job)?.stall_times()
    }

    /// Returns whether the kernel killed a process at the group's memory limit.
    pub(super) fn exceeded_memory_limit(&self, job: JobId) -> bool {
        self.groups.get(&job).is_some_and(Cgroup::exceeded_limit)
    }

    /// Returns whether the kernel killed a process for lack of memory, whatever the limit.
    pub(super) fn had_oom_kill(&self, job: JobId) -> bool {
        self.groups.get(&job).is_some_and(Cgroup::had_oom_kill)
    }

    /// Returns the CPU time of orphans reaped here, in microseconds.
    pub(super) fn orphans_cpu_us(&self, job: JobId) -> u64 {
        self.spent.get(&job).copied().unwrap_or(0)
    }

    /// Records the start or end of a child of Tanto that belongs to no job.
    pub(super) fn set_unrelated(&mut self, pid: u32, runs: bool) {
        match runs {
            true => drop(self.orphans.insert(pid, OrphanOwner::Excluded)),
            false => drop(self.orphans.remove(&pid)),
        }
    }

    /// The first process was reaped, so that its ID may be reused.
    pub(super) fn leader_reaped(&mut self, job: JobId) {
        self.firsts.retain(|_, its| *its != job);
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.groups.remove(&job);
        self.sandboxes.remove(&job);
        self.spent.remove(&job);
    }

    /// Finds new orphans, and reaps those that have ended.
    pub(super) fn adopt(&mut self) {
        let Ok(children) = self.reaper.children() else { return };
        for pid in children {
            let known = self.orphans.get(&pid).copied();
            if known == Some(OrphanOwner::Excluded) || self.firsts.contains_key(&pid) {
                continue;
            }
            if known.is_none() && (self.is_daemon)(pid) {
                self.orphans.insert(pid, OrphanOwner::Excluded);
                continue;
            }
            let owner = known.unwrap_or_else(|| self.owner_of(pid));
            if owner == OrphanOwner::Excluded {
                self.orphans.insert(pid, owner);
                continue;
            }
            let used_us = procs::stat(pid).map_or(0, |look| look.cpu_us);
            if !reaper::reap(pid) {
                self.orphans.insert(pid, owner);
                continue;
            }
            self.orphans.remove(&pid);
            if let OrphanOwner::Job(job) = owner
                && self.firsts.values().any(|its| *its == job)
            {
                *self.spent.entry(job).or_default() += used_us;
            }
        }
    }

    fn owner_of(&self, pid: u32) -> OrphanOwner {
        let Some(process) = procs::stat(pid) else { return OrphanOwner::Unknown };
        if let Some(&job) = self.firsts.get(&process.group) {
            return OrphanOwner::Job(job);
        }
        let mark = procs::initial_env_var(pid, MARK.as_bytes()).and_then(|mark| String::from_utf8(mark).ok());
        let Some(mark) = mark.filter(|mark| mark.starts_with(&self.of_process)) else { return OrphanOwner::Unknown };
        match mark.strip_prefix(&self.ours) {
            Some(job) => job.parse().map_or(OrphanOwner::Unknown, |job| OrphanOwner::Job(JobId(job))),
            None => OrphanOwner::Excluded,
        }
    }

    /// Returns the orphans of a finished job. Orphans of unknown origin count if no other job runs.
    pub(super) fn orphans_left_by(&mut self, job: JobId) -> Vec<u32> {
        self.adopt();
        let alone = self.firsts.values().all(|its| *its == job);
        let members = self.groups.get(&job).and_then(|group| group.members().ok()).unwrap_or_default();
        let unknown = self.orphans.iter_mut().filter(|(_, owner)| **owner == OrphanOwner::Unknown);
        for (_, owner) in unknown.filter(|(pid, _)| alone || members.contains(pid)) {
            *owner = OrphanOwner::Job(job);
        }
        self.orphans_of(job).collect()
    }

    /// Returns the living processes of finished jobs.
    pub(super) fn leftovers(&mut self) -> BTreeMap<JobId, Vec<u32>> {
        self.adopt();
        let mut leftovers: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
        for (&pid, &owner) in &self.orphans {
            if let OrphanOwner::Job(job) = owner
                && !self.firsts.values().any(|its| *its == job)
            {
                leftovers.entry(job).or_default().push(pid);
            }
        }
        leftovers
    }

    fn orphans_of(&self, job: JobId) -> impl Iterator<Item = u32> {
        let here = self.orphans.iter().filter(move |(_, owner)| **owner == OrphanOwner::Job(job)).map(|(&pid, _)| pid);
        here.chain(self.sandboxes.get(&job).map(|&first| procs::children_of(first)).unwrap_or_default())
    }

    /// Returns the processes of a job with their depth, parents before children.
    pub(super) fn of(&mut self, job: JobId) -> Vec<(u32, ProcessStat)> {
        self.adopt();
        let first = self.firsts.iter().find(|(_, its)| **its == job).map(|(&pid, _)| pid);
        let roots: Vec<u32> = first.into_iter().chain(self.orphans_of(job)).collect();
        let mut found = procs::trees(&roots);
        let members = self.groups.get(&job).and_then(|group| group.members().ok()).unwrap_or_default();
        let known: BTreeSet<u32> = found.iter().map(|(_, look)| look.process.pid()).collect();
        let others = members.into_iter().filter(|pid| !known.contains(pid));
        found.extend(others.filter_map(|pid| Some((0, procs::stat(pid)?))));
        found
    }

    /// Sends SIGTERM to all processes of a job, and continues the stopped ones, which would not receive it.
    pub(super) fn terminate(&mut self, job: JobId) {
        for (_, look) in self.of(job) {
            // An error means that the process is gone or belongs to another user.
            let _ = procs::signal(look.process, SIGTERM);
            if look.is_stopped() {
                let _ = procs::signal(look.process, SIGCONT);
            }
        }
    }

    /// Sends SIGKILL to all processes of a job. Repeats until no new ones are found: killed processes start no others.
    pub(super) fn kill(&mut self, job: JobId) {
        if let Some(group) = self.groups.get(&job) {
            // The kernel may be too old; the signals below do the same.
            let _ = group.kill();
        }
        let mut signaled = Vec::new();
        for _ in 0..MAX_KILL_ROUNDS {
            let known = signaled.len();
            for (_, look) in self.of(job) {
                if !look.is_gone() && !signaled.contains(&look.process) {
                    let _ = procs::signal(look.process, SIGKILL);
                    signaled.push(look.process);
                }
            }
            if signaled.len() == known {
                break;
            }
        }
    }
}

/// A tree that survives this many rounds grows faster than it can be killed.
const MAX_KILL_ROUNDS: usize = 100;

/// Returns a sample without the values that only limits need; `written` only if `wanted`.
pub(super) fn sample(tree: &[(u32, ProcessStat)], wanted: bool) -> Sample {
    let mut processes: Vec<ProcessId> = tree.iter().map(|(_, look)| look.process).collect();
    processes.sort_unstable();
    let sum = |of: fn(&ProcessStat) -> u64| tree.iter().map(|(_, look)| of(look)).fold(0, u64::wrapping_add);
    let written = |look: &ProcessStat| if wanted { procs::written_bytes(look.process.pid()).unwrap_or(0) } else { 0 };
    Sample {
        processes,
        cpu_us: sum(|look| look.cpu_us),
        written: tree.iter().map(|(_, look)| written(look)).fold(0, u64::wrapping_add),
        waited: sum(|look| look.waited_faults),
        ..Sample::default()
    }
}

/// Returns the memory of all processes in KiB; shared pages count once.
pub(super) fn memory_kib_of(tree: &[(u32, ProcessStat)]) -> u64 {
    let held = |look: &ProcessStat| procs::anonymous_kib(look.process.pid()).unwrap_or(look.rss_kib);
    tree.iter().map(|(_, look)| look).filter(|look| !look.is_gone()).map(held).sum()
}

pub(super) fn load(tree: &[(u32, ProcessStat)]) -> JobSample {
    let living = || tree.iter().map(|(_, look)| look).filter(|look| !look.is_gone());
    JobSample {
        processes: u32::try_from(living().count()).unwrap_or(u32::MAX),
        cpu_ms: living().map(|look| look.cpu_us / 1000).sum(),
        memory_kib: living().map(|look| look.rss_kib).sum(),
        files_kib: None,
    }
}

/// Describes processes for the user.
pub(super) fn process_infos(tree: &[(u32, ProcessStat)]) -> Vec<ProcessInfo> {
    let one = |(depth, look): &(u32, ProcessStat)| {
        let pid = look.process.pid();
        ProcessInfo {
            pid,
            depth: *depth,
            state: look.state,
            cpu_ms: look.cpu_us / 1000,
            memory_kib: look.rss_kib,
            command: procs::command_line(pid).unwrap_or_else(|| look.name.clone()),
            directory: procs::current_dir(pid),
        }
    };
    tree.iter().map(one).collect()
}
