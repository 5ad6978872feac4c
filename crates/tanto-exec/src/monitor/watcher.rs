//! The monitor on real processes: looks at them when it is time, and tells them to end. Does not know who runs them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use tanto_sys::cgroup::{CgroupUsage, StallTimes};
use tanto_sys::process::procs;

use super::disk_usage::{Measure, News};
use super::process_trees::{self, Trees};
use super::{Act, Monitor, ResourceLimits, Sample};
use crate::job::Cost;
use crate::job::report::{JobSample, MonitorReport, ProcessInfo, Termination, TerminationReason};
use crate::job::{JobId, JobLimits};

/// What becomes of processes that outlive their job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftovers {
    /// Nobody looks for them.
    Ignore,
    /// They are told of.
    Report,
    /// They are killed, and told of.
    Kill,
}

/// Which jobs get a control group of their own, where the machine lets us make some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CgroupUse {
    /// None.
    None,
    /// Those that are expected to run for a second or longer: then it is worth what it costs.
    Long,
    /// All.
    All,
    /// All; of what they have used is said what processes held, without files in memory, for which somebody else looks.
    AllWithoutFiles,
}

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// What jobs may take that have no limits of their own.
    pub limits: ResourceLimits,
    /// What becomes of what they leave.
    pub leftovers: Leftovers,
    /// Which of them are counted whole.
    pub cgroups: CgroupUse,
}

/// What a runner hears while a job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEvent {
    /// A look at its processes.
    Sampled(JobId, JobSample),
    /// It does not end even though it was killed: the runner is to go on without it, and to say `ended`.
    Abandoned(JobId),
}

/// Watches the jobs of one runner.
pub struct Watcher {
    begun: Instant,
    leftovers: Leftovers,
    groups: CgroupUse,
    limits: ResourceLimits,
    monitor: Monitor,
    trees: Trees,
    running: BTreeMap<JobId, Own>,
    termination: BTreeMap<JobId, Termination>,
    /// The most memory that was seen of jobs that have a control group, in KiB.
    peaks: BTreeMap<JobId, u64>,
}

/// What is known of a job that runs.
struct Own {
    limits: ResourceLimits,
    /// Where it writes, if that has a limit.
    measure: Option<Measure>,
}

/// What is expected to run for so long is a long job, in milliseconds.
pub const LONG_MS: u32 = 1000;
/// How long one that has outlived its job may take to end without anybody's being told.
const LAST_MOMENT: Duration = Duration::from_millis(100);

impl Watcher {
    /// Makes this process the parent of all orphaned descendants. `is_daemon` recognizes processes that belong to no job.
    pub fn new(options: WatchOptions, is_daemon: fn(u32) -> bool) -> io::Result<Watcher> {
        Ok(Watcher {
            begun: Instant::now(),
            leftovers: options.leftovers,
            groups: options.cgroups,
            limits: options.limits,
            monitor: Monitor::new(),
            trees: Trees::new(options.cgroups != CgroupUse::None, is_daemon)?,
            running: BTreeMap::new(),
            termination: BTreeMap::new(),
            peaks: BTreeMap::new(),
        })
    }

    /// What the job is to find in its environment, so that its processes can be told from others': name and value.
    pub fn marker(&self, job: JobId) -> (&'static str, String) {
        (process_trees::MARK, self.trees.mark(job))
    }

    /// This child of ours belongs to no job.
    pub fn ignore(&mut self, pid: u32) {
        self.trees.spare(pid);
    }

    /// What a job may take that has these bounds of its own.
    pub fn limits(&self, own: Option<&JobLimits>) -> ResourceLimits {
        own.map_or(self.limits, |own| own.resources)
    }

    /// The job is about to be started: what its first process is to write a `0` to before it becomes another program,
    /// so that nothing of it can get away.
    pub fn create_cgroup(&mut self, job: JobId, expected: Cost, own: Option<&JobLimits>) -> Vec<File> {
        let wanted = match self.groups {
            CgroupUse::None => false,
            CgroupUse::Long => expected.wall_ms >= LONG_MS,
            CgroupUse::All | CgroupUse::AllWithoutFiles => true,
        };
        let memory_kib = self.limits(own).memory_kib;
        if wanted { self.trees.entrances(job, memory_kib) } else { Vec::new() }
    }

    /// The job is about to be started in a room that is its alone; this is the first process there, and a child of ours
    /// that keeps it and is to be left alone.
    pub fn enter_sandbox(&mut self, job: JobId, first: u32, keeper: u32) {
        self.trees.housed(job, first, keeper);
    }

    /// The job runs; this is its first process, which the runner waits for.
    pub fn started(&mut self, job: JobId, pid: u32, own: Option<&JobLimits>) {
        let limits = self.limits(own);
        let place = own.and_then(|own| own.scratch.as_deref()).filter(|_| limits.disk_kib.is_some());
        self.running.insert(job, Own { limits, measure: place.map(Measure::new) });
        self.trees.started(job, pid);
        self.monitor.started(job, limits, self.now_ms());
    }

    /// The job has printed something.
    pub fn record_output(&mut self, job: JobId) {
        self.monitor.wrote(job);
    }

    /// In how much time `attend` will have something to do.
    pub fn until_due(&self) -> Option<Duration> {
        let due = self.monitor.due_ms()?;
        Some(Duration::from_millis((due - self.now_ms()).max(0).unsigned_abs()))
    }

    /// Does what is due; comes back with what there is to tell, or with nothing when nothing is due any more.
    pub fn poll(&mut self) -> Option<WatchEvent> {
        while let Some(act) = self.monitor.next(self.now_ms()) {
            if let Some(note) = self.do_it(act) {
                return Some(note);
            }
        }
        None
    }

    /// What the whole tree of a job that is about to be said to have ended has used, if a control group has counted it:
    /// with the most memory that was seen.
    pub fn used(&self, job: JobId) -> Option<CgroupUsage> {
        let used = self.trees.used(job)?;
        let peak = self.peaks.get(&job).copied();
        Some(CgroupUsage { memory_kib: self.counted(&used).max(peak.filter(|&kib| kib > 0)), ..used })
    }

    /// How long the processes of such a job have waited, if its control group tells.
    pub fn waits(&self, job: JobId) -> Option<StallTimes> {
        self.trees.waits(job)
    }

    /// The job has ended (its first process was waited for), or the runner has given it up. What there is to tell.
    pub fn ended(&mut self, job: JobId) -> Option<Box<MonitorReport>> {
        self.monitor.ended(job);
        let own = self.running.remove(&job);
        if let Some(asked) = own.and_then(|own| own.measure).and_then(|mut measure| measure.end()) {
            self.trees.has_own(asked, false);
        }
        self.peaks.remove(&job);
        let termination = self.termination.remove(&job);
        let wanted = termination.is_some() || self.leftovers != Leftovers::Ignore;
        let leftovers = if wanted { self.trees.left_by(job) } else { Vec::new() };
        let leftovers = process_trees::seen(&procs::trees(&leftovers));
        self.trees.first_is_gone(job);
        let was_short = termination.is_none() && self.trees.was_short(job);
        let left_killed = termination.is_some() || self.leftovers == Leftovers::Kill;
        if left_killed && (termination.is_some() || !leftovers.is_empty()) {
            self.trees.kill(job);
        }
        self.trees.forget(job);
        if termination.is_none() && leftovers.is_empty() && !was_short {
            return None;
        }
        // Of a job that was ended, its processes have been told already.
        let leftovers = if termination.is_some() { Vec::new() } else { leftovers };
        Some(Box::new(MonitorReport {
            termination,
            leftovers,
            leftovers_killed: left_killed,
            was_oom_killed: was_short,
        }))
    }

    /// What jobs that have ended have left and is still there, by job; to be called when no job runs any more. What is
    /// about to end gets a moment for it.
    pub fn leftovers(&mut self) -> Vec<(JobId, Vec<ProcessInfo>)> {
        if self.leftovers == Leftovers::Ignore {
            return Vec::new();
        }
        let until = Instant::now() + LAST_MOMENT;
        while self.trees.has_left() && Instant::now() < until {
            std::thread::sleep(LAST_MOMENT / 20);
        }
        let leftovers = self.trees.left();
        leftovers.into_iter().map(|(job, pids)| (job, process_trees::seen(&procs::trees(&pids)))).collect()
    }

    /// Ends a job that runs; whether there is one to end.
    pub fn terminate(&mut self, job: JobId, reason: TerminationReason) -> bool {
        let act = self.monitor.end(job, self.now_ms(), reason);
        act.map(|act| self.do_it(act)).is_some()
    }

    /// The job's first process has ended. Why the job was ended, if it was: the kernel may have done it.
    pub fn first_exited(&mut self, job: JobId) -> Option<TerminationReason> {
        let memory_kib = self.running.get(&job).and_then(|own| own.limits.memory_kib);
        if let Some(limit_kib) = memory_kib
            && !self.termination.contains_key(&job)
            && self.trees.has_overrun(job)
        {
            let reason = TerminationReason::Memory { limit_kib };
            self.termination.insert(job, Termination { reason, processes: Vec::new(), killed: true });
        }
        self.reason(job)
    }

    /// Why the job is being ended, if it is.
    pub fn reason(&self, job: JobId) -> Option<TerminationReason> {
        self.termination.get(&job).map(|termination| termination.reason)
    }

    fn do_it(&mut self, act: Act) -> Option<WatchEvent> {
        match act {
            Act::Look(job) => self.look(job),
            Act::Terminate(job, reason) => {
                let processes = process_trees::seen(&self.trees.of(job));
                self.termination.insert(job, Termination { reason, processes, killed: false });
                self.trees.terminate(job);
                None
            }
            Act::Kill(job) => {
                if let Some(termination) = self.termination.get_mut(&job) {
                    termination.killed = true;
                }
                self.trees.kill(job);
                None
            }
            Act::Abandon(job) => Some(WatchEvent::Abandoned(job)),
        }
    }

    fn look(&mut self, job: JobId) -> Option<WatchEvent> {
        let tree = self.trees.of(job);
        let limits = self.running.get(&job)?.limits;
        let mut sample = process_trees::sample(&tree, limits.hang_ms.is_some());
        let used = self.trees.used(job);
        let mut load = process_trees::load(&tree);
        sample.spent_us = sample.cpu_us.saturating_add(self.trees.spent_us(job));
        if let Some(used) = used {
            load.memory_kib = used.memory_kib.unwrap_or(load.memory_kib);
            load.files_kib = used.memory_kib.and(used.files_kib);
            let counted = self.counted(&used).unwrap_or(0);
            let peak = self.peaks.entry(job).or_default();
            *peak = counted.max(*peak);
            sample.spent_us = sample.spent_us.max(used.user_us.saturating_add(used.system_us));
        }
        if let Some(limit_kib) = limits.memory_kib {
            let is_counted = used.is_some_and(|used| used.memory_kib.is_some());
            let is_sure = is_counted || load.memory_kib <= limit_kib;
            sample.memory_kib = if is_sure { load.memory_kib } else { process_trees::held_kib(&tree) };
            sample.has_overrun = self.trees.has_overrun(job);
        }
        self.measure(job, &mut sample);
        if let Some(act) = self.monitor.saw(job, self.now_ms(), sample) {
            return self.do_it(act);
        }
        limits.sample.then_some(WatchEvent::Sampled(job, load))
    }

    /// What counts as memory that a job has used.
    fn counted(&self, used: &CgroupUsage) -> Option<u64> {
        let files_kib = if self.groups == CgroupUse::AllWithoutFiles { used.files_kib.unwrap_or(0) } else { 0 };
        Some(used.memory_kib?.saturating_sub(files_kib))
    }

    /// How much lies where the job writes, as far as it is known by now.
    fn measure(&mut self, job: JobId, sample: &mut Sample) {
        let Some(measure) = self.running.get_mut(&job).and_then(|own| own.measure.as_mut()) else { return };
        match measure.go_on() {
            Some(News::Asks(pid)) => self.trees.has_own(pid, true),
            Some(News::Answered(pid)) => self.trees.has_own(pid, false),
            None => {}
        }
        sample.disk_kib = measure.kib();
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}
