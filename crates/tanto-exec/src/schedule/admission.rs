//! Admission control: decides which ready job may start when memory, disk space or CPUs are short. A pure state
//! machine.

use std::collections::HashMap;
use std::fmt;

use crate::job::JobId;
use crate::text::units::memory;

/// Limits for all jobs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionLimits {
    /// Memory in KiB; `None`: the free memory of the system.
    pub memory_kib: Option<u64>,
    /// Number of slots, of which half are used under CPU pressure; `usize::MAX`: unlimited.
    pub slots: usize,
}

/// State of the system at one moment. Missing values limit nothing.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct ResourceSample {
    /// Memory available besides that of running jobs.
    pub free_kib: Option<u64>,
    /// Free disk space where jobs write.
    pub free_disk_kib: Option<u64>,
    /// Share of the last ten seconds in which some task waited for memory, in percent.
    pub memory_some: f64,
    /// Share in which all tasks waited for memory.
    pub memory_full: f64,
    /// Share in which some task waited for a CPU.
    pub cpu_some: f64,
}

/// Why nothing starts although there are slots and ready jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThrottleReason {
    /// The next job does not fit into memory.
    Memory {
        job: JobId,
        needs_kib: u64,
        available_kib: u64,
    },
    /// The expected output of the next job does not fit on the disk besides that of running jobs.
    Disk {
        job: JobId,
        needs_kib: u64,
        available_kib: u64,
    },
    MemoryPressure,
    CpuPressure,
    /// The limit of `-l` is reached.
    LoadAverage,
}

impl ThrottleReason {
    /// Compares reasons without their numbers.
    pub fn same_kind(self, other: ThrottleReason) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the job that does not fit.
    pub fn job(self) -> Option<JobId> {
        match self {
            ThrottleReason::Memory { job, .. } | ThrottleReason::Disk { job, .. } => Some(job),
            _ => None,
        }
    }

    /// Returns the reason without numbers.
    pub fn summary(self) -> &'static str {
        match self {
            ThrottleReason::Memory { .. } => "not enough memory",
            ThrottleReason::Disk { .. } => "not enough disk space",
            ThrottleReason::MemoryPressure => "memory pressure is high",
            ThrottleReason::CpuPressure => "CPUs are overloaded",
            ThrottleReason::LoadAverage => "the load average is too high",
        }
    }
}

impl fmt::Display for ThrottleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.summary())?;
        match *self {
            ThrottleReason::Memory { needs_kib, available_kib, .. }
            | ThrottleReason::Disk { needs_kib, available_kib, .. } => {
                let size = |kib| if kib == 0 { "nothing".into() } else { memory(kib) };
                write!(f, ": {} needed, {} left", size(needs_kib), size(available_kib))
            }
            _ => Ok(()),
        }
    }
}

/// A ready job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) job: JobId,
    /// Expected memory; `None` for groups, which always fit.
    pub(super) needs_kib: Option<u64>,
    /// Expected disk usage.
    pub(super) disk_kib: u64,
}

/// Resources of a running job.
#[derive(Clone, Copy)]
struct JobShare {
    expected: u64,
    /// Last sample of its memory.
    held: u64,
    /// Expected disk usage.
    disk_kib: u64,
}

/// A flag that turns on above one threshold and off below a lower one.
#[derive(Clone, Copy, Default)]
struct Hysteresis(bool);

/// How often others may start before a job; then nothing else starts until it fits.
pub const MAX_TIMES_PASSED_OVER: u32 = 16;
/// Number of ready jobs that are searched for one that fits.
const LOOK: usize = 64;

#[derive(Clone)]
pub(super) struct AdmissionControl {
    limits: AdmissionLimits,
    reading: ResourceSample,
    short_of_memory: Hysteresis,
    short_of_cpu: Hysteresis,
    running: HashMap<JobId, JobShare>,
    /// How often other jobs were started before this one.
    passed_over: HashMap<JobId, u32>,
    /// Jobs that reached `MAX_TIMES_PASSED_OVER`.
    starving: Vec<Candidate>,
    pub(super) throttled: Option<ThrottleReason>,
}

impl AdmissionControl {
    pub(super) fn new(limits: AdmissionLimits) -> AdmissionControl {
        AdmissionControl {
            limits,
            reading: ResourceSample::default(),
            short_of_memory: Hysteresis::default(),
            short_of_cpu: Hysteresis::default(),
            running: HashMap::new(),
            passed_over: HashMap::new(),
            starving: Vec::new(),
            throttled: None,
        }
    }

    pub(super) fn update_resources(&mut self, reading: ResourceSample) {
        // A stall of all tasks is worse than one of some.
        let memory = reading.memory_some.max(reading.memory_full * 2.0);
        self.short_of_memory.update(memory, 20.0, 5.0);
        self.short_of_cpu.update(reading.cpu_some, 95.0, 80.0);
        self.reading = reading;
    }

    pub(super) fn update_memory(&mut self, job: JobId, kib: u64) {
        if let Some(share) = self.running.get_mut(&job) {
            share.held = kib;
        }
    }

    pub(super) fn update_expected(&mut self, job: JobId, expected: u64, disk: u64) {
        if let Some(share) = self.running.get_mut(&job) {
            (share.expected, share.disk_kib) = (expected, disk);
        }
    }

    pub(super) fn started(&mut self, job: JobId, expected: u64, disk: u64) {
        self.running.insert(job, JobShare { expected, held: 0, disk_kib: disk });
    }

    pub(super) fn ended(&mut self, job: JobId) {
        self.running.remove(&job);
    }

    /// The job is no longer ready.
    pub(super) fn dequeued(&mut self, job: JobId) {
        if self.passed_over.remove(&job).is_some() {
            self.starving.retain(|other| other.job != job);
        }
    }

    /// Returns the first candidate that may start; candidates come in order of priority.
    pub(super) fn choose(&mut self, candidates: impl Iterator<Item = Candidate>) -> Option<JobId> {
        self.throttled = None;
        let (pressure, left, disk_left) = (self.pressure(), self.available_kib(), self.available_disk_kib());
        let starving = self.starving.first().copied();
        let fits = |it: Candidate| {
            let is_room = left.is_none_or(|left| it.needs_kib.unwrap_or(0).cast_signed() <= left);
            pressure.is_none() && is_room && (it.disk_kib == 0 || disk_left.is_none_or(|left| it.disk_kib <= left))
        };
        if let Some(it) = starving.filter(|&it| fits(it)) {
            return Some(it.job);
        }
        let mut passed = Vec::new();
        for it in candidates.take(LOOK) {
            if it.needs_kib.is_none() {
                return Some(it.job);
            }
            if starving.is_none() && fits(it) {
                self.pass_over(&passed);
                return Some(it.job);
            }
            passed.push(it);
        }
        let first = starving.or(passed.first().copied())?;
        let (job, needs_kib) = (first.job, first.needs_kib.unwrap_or(0));
        let memory = left.filter(|&left| needs_kib.cast_signed() > left);
        let memory =
            memory.map(|left| ThrottleReason::Memory { job, needs_kib, available_kib: left.max(0).cast_unsigned() });
        let disk = ThrottleReason::Disk { job, needs_kib: first.disk_kib, available_kib: disk_left.unwrap_or(0) };
        self.throttled = Some(pressure.or(memory).unwrap_or(disk));
        None
    }

    /// Returns whether pressure forbids starts. One job may always run.
    fn pressure(&self) -> Option<ThrottleReason> {
        match self.running.len() {
            0 => None,
            _ if self.short_of_memory.0 => Some(ThrottleReason::MemoryPressure),
            // Other programs get half of the CPUs. Two jobs are always allowed: a build of quick commands on two CPUs
            // causes pressure by itself.
            running if self.short_of_cpu.0 && running >= (self.limits.slots / 2).max(2) => {
                Some(ThrottleReason::CpuPressure)
            }
            _ => None,
        }
    }

    /// Returns the memory left when all running jobs use as much as expected; `None`: unlimited. Below 0, not even jobs
    /// of unknown size fit.
    fn available_kib(&self) -> Option<i64> {
        if self.running.is_empty() {
            return None;
        }
        let shares = self.running.values();
        let (all, taken): (u64, u64) = match self.limits.memory_kib {
            Some(all) => (all, shares.map(|share| share.expected.max(share.held)).sum()),
            None => (self.reading.free_kib?, shares.map(|share| share.expected.saturating_sub(share.held)).sum()),
        };
        Some(all.cast_signed().saturating_sub_unsigned(taken))
    }

    /// Returns the disk space left when all running jobs have written as much as expected; `None`: unlimited. Data
    /// already written counts twice, so the result is too low rather than too high.
    fn available_disk_kib(&self) -> Option<u64> {
        if self.running.is_empty() {
            return None;
        }
        let taken: u64 = self.running.values().map(|share| share.disk_kib).sum();
        Some(self.reading.free_disk_kib?.saturating_sub(taken))
    }

    fn pass_over(&mut self, jobs: &[Candidate]) {
        for &it in jobs {
            let count = self.passed_over.entry(it.job).or_default();
            *count += 1;
            if *count == MAX_TIMES_PASSED_OVER {
                self.starving.push(it);
            }
        }
    }
}

impl Hysteresis {
    fn update(&mut self, number: f64, on: f64, off: f64) {
        self.0 = number >= if self.0 { off } else { on };
    }
}

#[cfg(test)]
mod tests;
