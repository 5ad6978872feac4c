//! Who may start when memory or processors are short: a pure state machine beside the schedule. It is told numbers and
//! reads none; it does not know where they come from.

use std::collections::HashMap;
use std::fmt;

use crate::job::JobId;
use crate::job::report::Size;

/// What jobs may take together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionLimits {
    /// Memory for all jobs, in KiB; none: what the machine has free.
    pub memory_kib: Option<u64>,
    /// How many jobs there may be at a time, of which half may run under pressure on the processors; `usize::MAX` for no
    /// such limit.
    pub slots: usize,
}

/// What the machine says at a moment. What it does not say limits nothing.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct ResourceSample {
    /// Memory that could be had now, in KiB, besides what the running jobs hold.
    pub free_kib: Option<u64>,
    /// Disk space that is free now, in KiB, where jobs write.
    pub free_disk_kib: Option<u64>,
    /// The part of the last ten seconds in which some process waited for memory, in percent.
    pub memory_some: f64,
    /// The part in which all waited for it.
    pub memory_full: f64,
    /// The part in which some process waited for a processor.
    pub cpu_some: f64,
}

/// Why nothing is started, though there is a slot and a job for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThrottleReason {
    /// The next job would not fit into what is free.
    Memory {
        /// The job.
        job: JobId,
        /// What it is expected to need, in KiB.
        needs_kib: u64,
        /// What is left for it, in KiB.
        available_kib: u64,
    },
    /// What the next job would write does not fit on the disk beside what those that run may still write.
    Disk {
        /// The job.
        job: JobId,
        /// What it is expected to write, in KiB.
        needs_kib: u64,
        /// What is left for it, in KiB.
        available_kib: u64,
    },
    /// The machine is short of memory.
    MemoryPressure,
    /// The processors have more to do than they can.
    CpuPressure,
    /// The load average is as high as the user wants it to be (`-l`).
    LoadAverage,
}

impl ThrottleReason {
    /// Is the other one for the same reason, whatever the numbers?
    pub fn same_kind(self, other: ThrottleReason) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The job that does not fit into memory or on the disk.
    pub fn job(self) -> Option<JobId> {
        match self {
            ThrottleReason::Memory { job, .. } | ThrottleReason::Disk { job, .. } => Some(job),
            _ => None,
        }
    }

    /// The reason without numbers.
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
                let size = |kib: u64| Size(kib.saturating_mul(1024));
                write!(f, ": {} needed, {} left", size(needs_kib), size(available_kib))
            }
            _ => Ok(()),
        }
    }
}

/// A job whose turn it could be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) job: JobId,
    /// What it is expected to need, in KiB; none for a group, which needs nothing at all.
    pub(super) needs_kib: Option<u64>,
    /// What it is expected to write, in KiB.
    pub(super) disk_kib: u64,
}

/// A running job's memory, in KiB.
#[derive(Clone, Copy)]
struct JobShare {
    expected: u64,
    /// What it holds already, as far as anybody has said.
    held: u64,
    /// What it may write, in KiB.
    disk_kib: u64,
}

/// A sign that goes on at one number and off at a lower one, so that it does not flicker.
#[derive(Clone, Copy, Default)]
struct Hysteresis(bool);

/// Others may start before a job so often; then nothing does until it fits.
pub const MAX_TIMES_PASSED_OVER: u32 = 16;
/// So many jobs are looked at, at most, to find one that fits.
const LOOK: usize = 64;

/// What is rationed, and who has what.
#[derive(Clone)]
pub(super) struct AdmissionControl {
    limits: AdmissionLimits,
    reading: ResourceSample,
    short_of_memory: Hysteresis,
    short_of_cpu: Hysteresis,
    running: HashMap<JobId, JobShare>,
    /// How often others were started before these.
    passed_over: HashMap<JobId, u32>,
    /// Those for whom that was too often.
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
        // Where all wait it is worse than where some do.
        let memory = reading.memory_some.max(reading.memory_full * 2.0);
        self.short_of_memory.update(memory, 20.0, 5.0);
        self.short_of_cpu.update(reading.cpu_some, 95.0, 80.0);
        self.reading = reading;
    }

    /// The running job holds so much now, in KiB.
    pub(super) fn update_memory(&mut self, job: JobId, kib: u64) {
        if let Some(share) = self.running.get_mut(&job) {
            share.held = kib;
        }
    }

    /// The running job is expected to take that, all in all.
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

    /// The job does not wait for its turn any more.
    pub(super) fn dequeued(&mut self, job: JobId) {
        if self.passed_over.remove(&job).is_some() {
            self.starving.retain(|other| other.job != job);
        }
    }

    /// The first that may start. `candidates` come in the order of their urgency.
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

    /// Is it better to start nothing now? A build never waits for itself: one job may always run.
    fn pressure(&self) -> Option<ThrottleReason> {
        match self.running.len() {
            0 => None,
            _ if self.short_of_memory.0 => Some(ThrottleReason::MemoryPressure),
            // Whoever else wants the processors gets half. Two jobs are nobody's trouble: a build of quick commands on
            // two processors looks like pressure, and is none.
            running if self.short_of_cpu.0 && running >= (self.limits.slots / 2).max(2) => {
                Some(ThrottleReason::CpuPressure)
            }
            _ => None,
        }
    }

    /// What the running jobs leave for others, when they have all that they are expected to need; none for no limit.
    /// Below 0 there is not even room for what needs nothing that anybody knows of.
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

    /// What the running jobs leave of the disk when each has written all that it is expected to; none for no limit. What
    /// they have written by now counts twice: rather too little is started than too much.
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
