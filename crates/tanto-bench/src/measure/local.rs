//! Runs commands on this machine under the process monitor and measures them.

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
use tanto_exec::text::tail::Tail;
use tanto_sys::fs::{page_cache, private_files};
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::machine::affinity::CpuMask;
use tanto_sys::machine::proc_stat::SystemTimes;
use tanto_sys::machine::{cpu, info};
use tanto_sys::signals::TerminationSignals;

use super::conditions::{Conditions, background_and_steal, is_idle};
use super::controls::{ActiveControls, Controls};
use super::descendants;
use super::{BackgroundLoad, CommandFailure, Executor, Pressure, RunError, Sample};
use crate::Error;

/// How long an interrupted command may take to end.
const GRACE: Duration = Duration::from_millis(GRACE_MS.unsigned_abs());

/// The period over which `--settle` measures the load of other programs.
const SETTLE_PERIOD: Duration = Duration::from_millis(500);

/// While it exists, termination signals do not end this program.
pub struct LocalExecutor {
    runner: ProcessRunner,
    signals: TerminationSignals,
    controls: Controls,
    /// The own affinity mask.
    own_cpus: CpuMask,
    log_dir: PathBuf,
    /// Processors of the machine.
    online: usize,
    started: Instant,
    /// The times of the system when the executor was created.
    initial: SystemTimes,
    /// Processor time of all commands so far.
    used: Duration,
    next: u32,
    // The last field, so that controls are in effect until the runner is dropped.
    _controls: ActiveControls,
}

struct Completed {
    completion: Completion,
    wall: Duration,
    sampled_peak_kib: u64,
}

impl LocalExecutor {
    /// Applies the controls. Output of failed commands is written below `log_dir`.
    pub fn new(controls: Controls, log_dir: &Path) -> Result<LocalExecutor, Error> {
        // First, so that a signal cannot end the program before the controls are undone.
        let signals = TerminationSignals::listen()?;
        let active = ActiveControls::apply(&controls)?;
        let limits = ResourceLimits { sample: true, ..ResourceLimits::NONE };
        let options = RunnerOptions {
            parallelism: 1,
            environment: without_jobserver(),
            watch: Some(WatchOptions { limits, leftovers: Leftovers::Report, cgroups: CgroupUse::All }),
            overflow: Some(log_dir.into()),
            ..RunnerOptions::default()
        };
        Ok(LocalExecutor {
            signals,
            runner: ProcessRunner::new(options)?,
            controls,
            own_cpus: CpuMask::current()?,
            log_dir: log_dir.into(),
            online: info::MachineInfo::query().processors,
            started: Instant::now(),
            initial: SystemTimes::now(),
            used: Duration::ZERO,
            next: 0,
            _controls: active,
        })
    }

    /// Runs a command to its end.
    fn complete(&mut self, line: &[u8]) -> Result<Completed, RunError> {
        let job = JobId(self.next);
        self.next += 1;
        let started = Instant::now();
        self.start(job, line)?;
        let mut sampled_peak_kib = 0;
        loop {
            match self.runner.wait(None)? {
                Wakeup::Completed(completion) if completion.exit.success() => {
                    self.used += Duration::from_micros(completion.usage.user_us + completion.usage.system_us);
                    return Ok(Completed { completion, wall: started.elapsed(), sampled_peak_kib });
                }
                Wakeup::Completed(completion) => return Err(self.failure(line, completion)),
                Wakeup::Interrupted(signal) => {
                    self.terminate(signal)?;
                    return Err(RunError::Interrupted(signal));
                }
                Wakeup::Sampled(_, load) => sampled_peak_kib = load.memory_kib.max(sampled_peak_kib),
                Wakeup::SlotAvailable | Wakeup::ControlRequest | Wakeup::TimedOut => {}
            }
        }
    }

    /// Forwards the signal to all descendants. Kills them after the grace period or upon a second signal.
    fn terminate(&mut self, signal: i32) -> std::io::Result<()> {
        descendants::signal_all(signal);
        let mut deadline = Instant::now() + GRACE;
        let mut killed = false;
        loop {
            match self.runner.wait(Some(deadline.saturating_duration_since(Instant::now())))? {
                Wakeup::Completed(_) => break,
                Wakeup::Interrupted(_) | Wakeup::TimedOut if !killed => {
                    descendants::kill_all();
                    (deadline, killed) = (Instant::now() + GRACE, true);
                }
                // The process is blocked in the kernel, for example by a disk or a network.
                Wakeup::TimedOut => break,
                _ => {}
            }
        }
        descendants::kill_all();
        Ok(())
    }

    /// A child inherits the affinity mask that its parent has when it is forked.
    fn start(&mut self, job: JobId, line: &[u8]) -> std::io::Result<()> {
        let command = Command { line: line.to_vec(), ..Command::default() };
        let Some(cpus) = &self.controls.cpus else { return self.runner.start(job, &command, Cost::default()) };
        cpus.apply()?;
        let started = self.runner.start(job, &command, Cost::default());
        self.own_cpus.apply().and(started)
    }

    fn failure(&self, line: &[u8], completion: Completion) -> RunError {
        let mut tail = Tail::default();
        tail.push(completion.full_output());
        let log = if completion.output.is_empty() { None } else { self.write_log(completion.full_output()) };
        let last_lines = tail.lines();
        RunError::Failed(CommandFailure { line: line.to_vec(), exit: completion.exit, last_lines, log })
    }

    fn write_log(&self, output: &[u8]) -> Option<PathBuf> {
        let path = self.log_dir.join("failed.txt");
        create_log_dir(&self.log_dir).ok()?;
        let _ = fs::remove_file(&path);
        private_files::create(&path).and_then(|mut file| file.write_all(output)).ok()?;
        Some(path)
    }

    /// Flushes dirty pages and waits until other programs are idle, at most as long as `--settle` allows.
    /// Returns whether they are idle; `None` without `--settle`.
    fn settle(&mut self) -> Result<Option<bool>, RunError> {
        page_cache::sync();
        if self.controls.drop_caches {
            page_cache::drop_caches()?;
        }
        if self.controls.settle.is_zero() {
            return self.sleep(Duration::ZERO).map(|()| None);
        }
        let started = Instant::now();
        loop {
            let (period, before) = (Instant::now(), SystemTimes::now());
            self.sleep(SETTLE_PERIOD)?;
            let idle = is_idle(&SystemTimes::now().since(&before), period.elapsed(), self.online).unwrap_or(true);
            if idle || started.elapsed() + SETTLE_PERIOD > self.controls.settle {
                return Ok(Some(idle));
            }
        }
    }

    /// Sleeps until the time is over or a termination signal arrives.
    fn sleep(&mut self, time: Duration) -> Result<(), RunError> {
        let deadline = Instant::now() + time;
        loop {
            if let Some(signal) = self.signals.take() {
                return Err(RunError::Interrupted(signal));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            poll::wait(&mut [Watch::new(&self.signals)], Some(left))?;
        }
    }
}

impl Executor for LocalExecutor {
    fn run(&mut self, line: &[u8]) -> Result<Sample, RunError> {
        let settled = self.settle()?;
        let (load, before) = (cpu::load_average(), SystemTimes::now());
        let mut completed = self.complete(line)?;
        if self.controls.count_sync {
            let started = Instant::now();
            page_cache::sync();
            completed.wall += started.elapsed();
        }
        let Completed { completion, wall, sampled_peak_kib } = completed;
        let between = SystemTimes::now().since(&before);
        let usage = completion.usage;
        let (user, system) = (Duration::from_micros(usage.user_us), Duration::from_micros(usage.system_us));
        let (background, steal) = background_and_steal(&between, wall, user + system, self.online);
        let stalled = |us: Option<u64>| us.map(Duration::from_micros);
        let kib = sampled_peak_kib.max(usage.max_rss_kib);
        Ok(Sample {
            wall,
            user,
            system,
            peak_memory: (kib > 0).then_some(kib * 1024),
            io_wait: Duration::from_micros(between.io_wait_us),
            pressure: Pressure {
                cpu: stalled(between.cpu_us),
                memory: stalled(between.memory_us),
                io: stalled(between.io_us),
            },
            conditions: Conditions {
                processors: self.controls.cpus.as_ref().unwrap_or(&self.own_cpus).count(),
                frequency_mhz: info::frequency_mhz(),
                governor: info::governor(),
                load,
                background,
                steal,
                leftover_processes: completion.report.as_ref().map_or(0, |report| report.leftovers.len()),
                settled,
            },
        })
    }

    fn prepare(&mut self, line: &[u8]) -> Result<(), RunError> {
        if let Some(signal) = self.signals.take() {
            return Err(RunError::Interrupted(signal));
        }
        self.complete(line).map(|_| ())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn background_load(&self) -> Option<BackgroundLoad> {
        let between = SystemTimes::now().since(&self.initial);
        let (background, steal) = background_and_steal(&between, self.started.elapsed(), self.used, self.online);
        let fraction = (background? + steal?).min(1.0);
        Some(BackgroundLoad { fraction, free_cpus: self.online as f64 * (1.0 - fraction) })
    }
}

/// Creates the log directory and the state directory above it.
pub fn create_log_dir(dir: &Path) -> std::io::Result<()> {
    if let Some(state_dir) = dir.parent() {
        private_files::create_state_dir(state_dir)?;
    }
    private_files::create_dir(dir).map(|_| ())
}

/// Hides the jobserver of a `make` that runs this program, whose slots would limit measured commands.
fn without_jobserver() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let flags = std::env::var_os("MAKEFLAGS").filter(|flags| flags.to_string_lossy().contains("--jobserver"));
    flags.map(|_| ("MAKEFLAGS".into(), "".into())).into_iter().collect()
}
