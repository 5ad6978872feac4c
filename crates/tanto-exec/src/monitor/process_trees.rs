//! Which processes belong to which job, and how they are told to end. Does not know why they are.
//!
//! A job's are its first process and all below it. One that has lost its parent comes to us; it belongs to the job in
//! whose process group it is, or whose mark it has in its environment.

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

/// The variable in a job's environment by which its processes are known.
pub(super) const MARK: &str = "TANTO_JOB";

/// All processes below us.
pub(super) struct Trees {
    reaper: Reaper,
    /// What all marks of ours begin with.
    ours: String,
    /// Whether a process is a checkpoint daemon, which outlives the job that started it.
    is_daemon: fn(u32) -> bool,
    /// The jobs' first processes, which somebody else waits for.
    firsts: BTreeMap<u32, JobId>,
    /// Those that lost their parents. Their numbers stay theirs: only we could free them.
    orphans: BTreeMap<u32, Whose>,
    /// The first process of the room that a job has.
    rooms: BTreeMap<JobId, u32>,
    /// Processor time of orphans that are gone, in microseconds.
    spent: BTreeMap<JobId, u64>,
    /// The control groups of jobs. Fields are dropped in this order: a group goes before the one that it is in.
    groups: BTreeMap<JobId, Cgroup>,
    /// In which those of jobs are.
    whole: Option<Cgroup>,
}

/// Whose an orphan is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Job(JobId),
    /// Some job's.
    Unknown,
    /// It was there before.
    Nobodys,
}

/// How many have marked jobs in this process.
static MARKERS: AtomicU32 = AtomicU32::new(0);

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

impl Trees {
    /// With `groups`, jobs can get control groups, where those can be had.
    pub(super) fn new(groups: bool, is_daemon: fn(u32) -> bool) -> io::Result<Trees> {
        let reaper = Reaper::begin()?;
        let own = ProcessId::current()?;
        let number = MARKERS.fetch_add(1, Ordering::Relaxed);
        let home = groups.then(OwnCgroups::find).filter(|home| home.obstacle().is_none());
        let mut trees = Trees {
            reaper,
            ours: format!("{own}.{number}."),
            is_daemon,
            firsts: BTreeMap::new(),
            orphans: BTreeMap::new(),
            rooms: BTreeMap::new(),
            spent: BTreeMap::new(),
            groups: BTreeMap::new(),
            whole: home.and_then(|home| Cgroup::below(&home, &cgroup::group_name(own, number)).ok()),
        };
        let before = trees.reaper.children()?;
        trees.orphans = before.into_iter().map(|pid| (pid, Whose::Nobodys)).collect();
        Ok(trees)
    }

    /// This child of ours is no job's.
    pub(super) fn spare(&mut self, pid: u32) {
        self.orphans.insert(pid, Whose::Nobodys);
    }

    pub(super) fn mark(&self, job: JobId) -> String {
        format!("{}{}", self.ours, job.0)
    }

    pub(super) fn started(&mut self, job: JobId, pid: u32) {
        self.firsts.insert(pid, job);
        let Some(group) = self.groups.get(&job) else { return };
        // It has entered by itself, or has ended, or could not (or whoever started it did not tell it to).
        let is_outside = group.members().is_ok_and(|members| members.is_empty());
        let may_enter = |look: ProcessStat| look.is_gone() || group.add(pid).is_ok();
        if is_outside && !procs::stat(pid).is_none_or(may_enter) {
            self.groups.remove(&job);
        }
    }

    /// The job is about to be started in a room that is its alone; this is the first process there, and a child of ours
    /// that is no job's keeps it.
    pub(super) fn housed(&mut self, job: JobId, first: u32, keeper: u32) {
        self.orphans.insert(keeper, Whose::Nobodys);
        self.rooms.insert(job, first);
    }

    /// Makes a control group for the job, if that can be; its entrances. Its processes may hold so much memory.
    pub(super) fn entrances(&mut self, job: JobId, memory_kib: Option<u64>) -> Vec<File> {
        let Some(group) = self.whole.as_ref().and_then(|whole| whole.within(&job.0.to_string()).ok()) else {
            return Vec::new();
        };
        let entrances = group.join_files().unwrap_or_default();
        // Where the kernel does not see to it, looks have to do.
        let _ = memory_kib.map(|kib| group.limit_memory(kib.saturating_mul(1024)));
        self.groups.insert(job, group);
        entrances
    }

    /// What its control group says that the job has used; none if it has none.
    pub(super) fn used(&self, job: JobId) -> Option<CgroupUsage> {
        Some(self.groups.get(&job)?.usage())
    }

    /// How long its processes have waited, if its control group tells.
    pub(super) fn waits(&self, job: JobId) -> Option<StallTimes> {
        self.groups.get(&job)?.stall_times()
    }

    /// Has the kernel killed one of its processes because they wanted more memory than they may have?
    pub(super) fn has_overrun(&self, job: JobId) -> bool {
        self.groups.get(&job).is_some_and(Cgroup::exceeded_limit)
    }

    /// Has the kernel killed one of its processes for memory, whoever has set the limit?
    pub(super) fn was_short(&self, job: JobId) -> bool {
        self.groups.get(&job).is_some_and(Cgroup::had_oom_kill)
    }

    /// Processor time of those that are gone and that nobody has waited for but us, in microseconds.
    pub(super) fn spent_us(&self, job: JobId) -> u64 {
        self.spent.get(&job).copied().unwrap_or(0)
    }

    /// A child of ours that is no job's has been started, or has ended and was waited for.
    pub(super) fn has_own(&mut self, pid: u32, runs: bool) {
        match runs {
            true => drop(self.orphans.insert(pid, Whose::Nobodys)),
            false => drop(self.orphans.remove(&pid)),
        }
    }

    /// The job's first process is gone, and was waited for: its number may be somebody else's.
    pub(super) fn first_is_gone(&mut self, job: JobId) {
        self.firsts.retain(|_, its| *its != job);
    }

    /// Nothing more will be asked about the job as a whole.
    pub(super) fn forget(&mut self, job: JobId) {
        self.groups.remove(&job);
        self.rooms.remove(&job);
        self.spent.remove(&job);
    }

    /// Finds out who has lost their parents since the last call, and takes note of those that have ended.
    pub(super) fn adopt(&mut self) {
        let Ok(children) = self.reaper.children() else { return };
        for pid in children {
            let known = self.orphans.get(&pid).copied();
            if known == Some(Whose::Nobodys) || self.firsts.contains_key(&pid) {
                continue;
            }
            if known.is_none() && (self.is_daemon)(pid) {
                self.orphans.insert(pid, Whose::Nobodys);
                continue;
            }
            let whose = known.unwrap_or_else(|| self.job_of(pid).map_or(Whose::Unknown, Whose::Job));
            let used_us = procs::stat(pid).map_or(0, |look| look.cpu_us);
            if !reaper::reap(pid) {
                self.orphans.insert(pid, whose);
                continue;
            }
            self.orphans.remove(&pid);
            if let Whose::Job(job) = whose
                && self.firsts.values().any(|its| *its == job)
            {
                *self.spent.entry(job).or_default() += used_us;
            }
        }
    }

    fn job_of(&self, pid: u32) -> Option<JobId> {
        let group = procs::stat(pid)?.group;
        let by_group = self.firsts.get(&group).copied();
        by_group.or_else(|| {
            let mark = String::from_utf8(procs::initial_env_var(pid, MARK.as_bytes())?).ok()?;
            mark.strip_prefix(&self.ours)?.parse().ok().map(JobId)
        })
    }

    /// The orphans of a job that has ended; those that nobody can tell the job of are its, if no other job runs.
    pub(super) fn left_by(&mut self, job: JobId) -> Vec<u32> {
        self.adopt();
        let alone = self.firsts.values().all(|its| *its == job);
        let members = self.groups.get(&job).and_then(|group| group.members().ok()).unwrap_or_default();
        let unknown = self.orphans.iter_mut().filter(|(_, whose)| **whose == Whose::Unknown);
        for (_, whose) in unknown.filter(|(pid, _)| alone || members.contains(pid)) {
            *whose = Whose::Job(job);
        }
        self.orphans_of(job).collect()
    }

    /// Is there a process of a job that has ended?
    pub(super) fn has_left(&mut self) -> bool {
        !self.left().is_empty()
    }

    /// The processes of jobs that have ended.
    pub(super) fn left(&mut self) -> BTreeMap<JobId, Vec<u32>> {
        self.adopt();
        let mut left: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
        for (&pid, &whose) in &self.orphans {
            if let Whose::Job(job) = whose
                && !self.firsts.values().any(|its| *its == job)
            {
                left.entry(job).or_default().push(pid);
            }
        }
        left
    }

    fn orphans_of(&self, job: JobId) -> impl Iterator<Item = u32> {
        let here = self.orphans.iter().filter(move |(_, whose)| **whose == Whose::Job(job)).map(|(&pid, _)| pid);
        here.chain(self.rooms.get(&job).map(|&first| procs::children_of(first)).unwrap_or_default())
    }

    /// The job's processes, each before those below it, with how far below the first of their tree they are.
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

    /// Asks all processes of the job to end; those that are stopped go on, for they could not hear it.
    pub(super) fn terminate(&mut self, job: JobId) {
        for (_, look) in self.of(job) {
            // Whoever is gone, or somebody else's, need not or cannot be told.
            let _ = procs::signal(look.process, SIGTERM);
            if look.is_stopped() {
                let _ = procs::signal(look.process, SIGCONT);
            }
        }
    }

    /// Kills all processes of the job. What they start meanwhile is found by looking again: one that was killed
    /// starts nothing more.
    pub(super) fn kill(&mut self, job: JobId) {
        if let Some(group) = self.groups.get(&job) {
            // The first process need not be dead before it has been waited for; and the kernel may be too old.
            let _ = group.kill();
        }
        let mut told = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let known = told.len();
            for (_, look) in self.of(job) {
                if !look.is_gone() && !told.contains(&look.process) {
                    let _ = procs::signal(look.process, SIGKILL);
                    told.push(look.process);
                }
            }
            if told.len() == known {
                break;
            }
        }
    }
}

/// Each round kills all that were there when it began: who outlives so many multiplies faster than we can look.
const MOST_ROUNDS: usize = 100;

/// What the monitor wants to know of these processes, but for what only their job's limits ask for. What they write is
/// asked for only if it is `wanted`.
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

/// The memory that these processes hold together, in KiB: what they share counts once.
pub(super) fn held_kib(tree: &[(u32, ProcessStat)]) -> u64 {
    let held = |look: &ProcessStat| procs::anonymous_kib(look.process.pid()).unwrap_or(look.rss_kib);
    tree.iter().map(|(_, look)| look).filter(|look| !look.is_gone()).map(held).sum()
}

/// How much these processes have.
pub(super) fn load(tree: &[(u32, ProcessStat)]) -> JobSample {
    let living = || tree.iter().map(|(_, look)| look).filter(|look| !look.is_gone());
    JobSample {
        processes: u32::try_from(living().count()).unwrap_or(u32::MAX),
        cpu_ms: living().map(|look| look.cpu_us / 1000).sum(),
        memory_kib: living().map(|look| look.rss_kib).sum(),
        files_kib: None,
    }
}

/// These processes as a user wants to see them.
pub(super) fn seen(tree: &[(u32, ProcessStat)]) -> Vec<ProcessInfo> {
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
