//! Measures commands on this machine: runs them under the monitor, and asks the kernel before and after. Does not know
//! what is made of it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_exec::job::Cost;
use tanto_exec::job::{Command, Completion, JobId};
use tanto_exec::job::{GRACE_MS, ResourceLimits};
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions};
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::runner::{Runner, Wakeup};
use tanto_sys::fs::{page_cache, private_files};
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::proc_stat::SystemTimes;
use tanto_sys::machine::{cpu, info};
use tanto_sys::signals::TerminationSignals;

use super::below;
use super::conditions::{Conditions, is_calm, shares};
use super::controls::{Controls, Held};
use super::{Bench, Failure, Halt, Others, Pressure, Sample};
use crate::run::tail::Tail;

/// How long a command has to end itself when it is interrupted.
const PATIENCE: Duration = Duration::from_millis(GRACE_MS.unsigned_abs());

/// For so long other programs have to rest, to count as calm.
const LOOK: Duration = Duration::from_millis(500);

/// This machine. While it lives, signals that ask for an end come to it and don't end the program.
pub struct Meter {
    runner: ProcessRunner,
    endings: TerminationSignals,
    controls: Controls,
    /// The processors that we had before.
    all: CpuMask,
    /// Where logs are kept.
    dir: PathBuf,
    /// Processors of the machine.
    online: usize,
    begun: Instant,
    /// What the machine had done when we began.
    before: SystemTimes,
    /// Processor time of all commands so far.
    used: Duration,
    next: u32,
    // After all else: what it holds still has to stay so until nothing runs.
    _held: Held,
}

/// A command that has come to its end.
struct Done {
    completion: Completion,
    wall: Duration,
    /// The most memory that was seen, in KiB.
    seen_kib: u64,
}

impl Meter {
    /// For commands that run with this held still. Logs of failures go into `dir`. An error is a text for the user.
    pub fn new(controls: Controls, dir: &Path) -> Result<Meter, Vec<u8>> {
        let failed = |error| tanto_sys::error::text(&error);
        // First, so that no signal ends us before what is held is given back.
        let endings = TerminationSignals::listen().map_err(failed)?;
        let held = Held::begin(&controls)?;
        let limits = ResourceLimits { sample: true, ..ResourceLimits::NONE };
        let options = RunnerOptions {
            parallelism: 1,
            environment: without_jobserver(),
            watch: Some(WatchOptions { limits, leftovers: Leftovers::Report, cgroups: CgroupUse::All }),
            overflow: Some(dir.into()),
            ..RunnerOptions::default()
        };
        Ok(Meter {
            endings,
            runner: ProcessRunner::new(options).map_err(failed)?,
            controls,
            all: CpuMask::current().map_err(failed)?,
            dir: dir.into(),
            online: info::MachineInfo::query().processors,
            begun: Instant::now(),
            before: SystemTimes::now(),
            used: Duration::ZERO,
            next: 0,
            _held: held,
        })
    }

    /// From its start to its end; an error if there is none, or it failed.
    fn complete(&mut self, line: &[u8]) -> Result<Done, Halt> {
        let failed = |error| Halt::Machine(tanto_sys::error::text(&error));
        let job = JobId(self.next);
        self.next += 1;
        let begun = Instant::now();
        self.start(job, line).map_err(failed)?;
        let mut seen_kib = 0;
        loop {
            match self.runner.wait(None).map_err(failed)? {
                Wakeup::Completed(completion) if completion.exit.success() => {
                    self.used += Duration::from_micros(completion.usage.user_us + completion.usage.system_us);
                    return Ok(Done { completion, wall: begun.elapsed(), seen_kib });
                }
                Wakeup::Completed(completion) => return Err(self.failure(line, completion)),
                Wakeup::Interrupted(signal) => {
                    self.end(signal).map_err(failed)?;
                    return Err(Halt::Interrupted(signal));
                }
                Wakeup::Sampled(_, load) => seen_kib = load.memory_kib.max(seen_kib),
                Wakeup::SlotAvailable | Wakeup::ControlRequest | Wakeup::TimedOut => {}
            }
        }
    }

    /// Hands the signal on to all that runs, and kills what does not heed it in time, or before the user asks again;
    /// and then whoever was left behind.
    fn end(&mut self, signal: i32) -> std::io::Result<()> {
        below::tell(signal);
        let mut until = Instant::now() + PATIENCE;
        let mut killed = false;
        loop {
            match self.runner.wait(Some(until.saturating_duration_since(Instant::now())))? {
                Wakeup::Completed(_) => break,
                Wakeup::Interrupted(_) | Wakeup::TimedOut if !killed => {
                    below::kill();
                    (until, killed) = (Instant::now() + PATIENCE, true);
                }
                // Not even that ends it: a disk or a network keeps it.
                Wakeup::TimedOut => break,
                _ => {}
            }
        }
        below::kill();
        Ok(())
    }

    /// A child has the processors that its parent has when it is made.
    fn start(&mut self, job: JobId, line: &[u8]) -> std::io::Result<()> {
        let command = Command { line: line.to_vec(), console: false, limits: None };
        let Some(cpus) = &self.controls.cpus else { return self.runner.start(job, &command, Cost::default()) };
        cpus.apply()?;
        let started = self.runner.start(job, &command, Cost::default());
        self.all.apply().and(started)
    }

    fn failure(&self, line: &[u8], completion: Completion) -> Halt {
        let mut tail = Tail::default();
        tail.push(completion.full_output());
        let log = if completion.output.is_empty() { None } else { self.keep(completion.full_output()) };
        Halt::Failed(Failure { line: line.to_vec(), exit: completion.exit, last_lines: tail.lines(), log })
    }

    /// That it cannot be kept is no reason to keep quiet about the rest.
    fn keep(&self, output: &[u8]) -> Option<PathBuf> {
        let path = self.dir.join("failed.txt");
        make(&self.dir).ok()?;
        let _ = fs::remove_file(&path);
        private_files::create(&path).and_then(|mut file| file.write_all(output)).ok()?;
        Some(path)
    }

    /// Writes to the disks what is in memory only, and waits until other programs rest, for as long as `--settle`
    /// allows. Returns whether they do; `None` without `--settle`.
    fn settle(&mut self) -> Result<Option<bool>, Halt> {
        page_cache::sync();
        if self.controls.drop_caches {
            page_cache::drop_caches().map_err(|error| Halt::Machine(tanto_sys::error::text(&error)))?;
        }
        if self.controls.settle.is_zero() {
            return self.pause(Duration::ZERO).map(|()| None);
        }
        let begun = Instant::now();
        loop {
            let (looked, before) = (Instant::now(), SystemTimes::now());
            self.pause(LOOK)?;
            let calm = is_calm(&SystemTimes::now().since(&before), looked.elapsed(), self.online).unwrap_or(true);
            if calm || begun.elapsed() + LOOK > self.controls.settle {
                return Ok(Some(calm));
            }
        }
    }

    /// Waits for so long, or until the user asks for an end.
    fn pause(&mut self, time: Duration) -> Result<(), Halt> {
        let until = Instant::now() + time;
        loop {
            if let Some(signal) = self.endings.take() {
                return Err(Halt::Interrupted(signal));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            poll::wait(&mut [Watch::new(&self.endings)], Some(left))
                .map_err(|error| Halt::Machine(tanto_sys::error::text(&error)))?;
        }
    }

    fn conditions(&self, load: f64, between: &SystemTimes, done: &Done, own: Duration) -> Conditions {
        let (background, stolen) = shares(between, done.wall, own, self.online);
        Conditions {
            processors: self.controls.cpus.as_ref().unwrap_or(&self.all).count(),
            frequency_mhz: info::frequency_mhz(),
            governor: info::governor(),
            load,
            background,
            stolen,
            left: done.completion.report.as_ref().map_or(0, |report| report.leftovers.len()),
            calm: None,
        }
    }
}

impl Bench for Meter {
    fn run(&mut self, line: &[u8]) -> Result<Sample, Halt> {
        let calm = self.settle()?;
        let (load, before) = (cpu::load_average(), SystemTimes::now());
        let mut done = self.complete(line)?;
        if self.controls.count_sync {
            let begun = Instant::now();
            page_cache::sync();
            done.wall += begun.elapsed();
        }
        let between = SystemTimes::now().since(&before);
        let usage = done.completion.usage;
        let (user, system) = (Duration::from_micros(usage.user_us), Duration::from_micros(usage.system_us));
        let stalled = |us: Option<u64>| us.map(Duration::from_micros);
        let kib = done.seen_kib.max(usage.max_rss_kib);
        Ok(Sample {
            wall: done.wall,
            user,
            system,
            peak_memory: (kib > 0).then_some(kib * 1024),
            io_wait: Duration::from_micros(between.io_wait_us),
            pressure: Pressure {
                cpu: stalled(between.cpu_us),
                memory: stalled(between.memory_us),
                io: stalled(between.io_us),
            },
            conditions: Conditions { calm, ..self.conditions(load, &between, &done, user + system) },
        })
    }

    fn prepare(&mut self, line: &[u8]) -> Result<(), Halt> {
        if let Some(signal) = self.endings.take() {
            return Err(Halt::Interrupted(signal));
        }
        self.complete(line).map(|_| ())
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn others(&self) -> Option<Others> {
        let between = SystemTimes::now().since(&self.before);
        let (background, stolen) = shares(&between, self.begun.elapsed(), self.used, self.online);
        let share = (background? + stolen?).min(1.0);
        Some(Others { share, left: self.online as f64 * (1.0 - share) })
    }
}

/// Makes the directory below `.tanto/` that is ours.
pub fn make(dir: &Path) -> std::io::Result<()> {
    if let Some(top) = dir.parent() {
        private_files::create_state_dir(top)?;
    }
    private_files::create_dir(dir).map(|_| ())
}

/// A `make` that runs us must not lend its slots to what is measured.
fn without_jobserver() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let flags = std::env::var_os("MAKEFLAGS").filter(|flags| flags.to_string_lossy().contains("--jobserver"));
    flags.map(|_| ("MAKEFLAGS".into(), "".into())).into_iter().collect()
}
