//! The watcher on real processes. Orphans are reparented to the whole program, so these tests are a program of their
//! own and run sequentially.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tanto_exec::job::Cost;
use tanto_exec::job::JobId;
use tanto_exec::job::ResourceLimits;
use tanto_exec::job::report::{MonitorReport, TerminationReason};
use tanto_exec::monitor::watcher::{CgroupUse, LONG_MS, Leftovers, WatchEvent, WatchOptions, Watcher};
use tanto_sys::cgroup;
use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs;

/// Longer than any test, in milliseconds.
const NEVER: i64 = 3_600_000;
const LIMITS: ResourceLimits = ResourceLimits { grace_ms: NEVER, ..ResourceLimits::NONE };

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A watcher and its jobs.
struct Watch {
    watcher: Watcher,
    children: Vec<(JobId, Child)>,
    _alone: MutexGuard<'static, ()>,
}

impl Watch {
    fn new(limits: ResourceLimits, leftovers: Leftovers) -> Watch {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = if limits.hang_ms.is_some() { CgroupUse::All } else { CgroupUse::Long };
        let options = WatchOptions { limits, leftovers, cgroups: groups };
        Watch { watcher: Watcher::new(options, |_| false).unwrap(), children: Vec::new(), _alone: alone }
    }

    /// Starts a shell line, which reads from the returned pipe, and waits until it prints something.
    fn start(&mut self, number: u32, line: &str) -> ChildStdin {
        self.start_expecting(number, line, 0)
    }

    /// The same with an expected duration.
    fn start_expecting(&mut self, number: u32, line: &str, wall_ms: u32) -> ChildStdin {
        let job = JobId(number);
        let (name, mark) = self.watcher.marker(job);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).env(name, mark).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        drop(self.watcher.create_cgroup(job, Cost { wall_ms, ..Cost::default() }, None));
        let mut child = command.spawn().unwrap();
        self.watcher.started(job, child.id(), None);
        let input = child.stdin.take().unwrap();
        self.children.push((job, child));
        input
    }

    /// Reads one byte of the job's output.
    fn hear(&mut self, number: u32) {
        let (_, child) = self.children.iter_mut().find(|(job, _)| job.0 == number).unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    /// Polls until the job has ended.
    fn end(&mut self, number: u32) -> Option<MonitorReport> {
        let at = self.children.iter().position(|(job, _)| job.0 == number).unwrap();
        let (job, mut child) = self.children.remove(at);
        for _ in 0..60_000 {
            if child.try_wait().unwrap().is_some() || self.watcher.poll() == Some(WatchEvent::Abandoned(job)) {
                self.watcher.first_exited(job);
                return self.watcher.ended(job).map(|report| *report);
            }
            let most = Duration::from_millis(1);
            std::thread::sleep(self.watcher.until_due().unwrap_or(most).min(most));
        }
        panic!("job {number} does not end");
    }

    /// Returns the living processes with the marker of a job.
    fn marked(&self, number: u32) -> Vec<u32> {
        let (name, mark) = self.watcher.marker(JobId(number));
        let has_mark =
            |pid: u32| procs::initial_env_var(pid, name.as_bytes()).is_some_and(|its| its == mark.as_bytes());
        let all = procs::all().unwrap();
        let living = all.iter().filter(|look| !look.is_gone()).map(|look| look.process.pid());
        living.filter(|&pid| has_mark(pid)).collect()
    }

    fn await_nobody(&self, number: u32) {
        for _ in 0..60_000 {
            if self.marked(number).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{:?} live on", self.marked(number));
    }

    fn kill_marked(&self, number: u32) {
        for pid in self.marked(number) {
            procs::stat(pid).map(|look| procs::signal(look.process, 9));
        }
        self.await_nobody(number);
    }
}

/// A limit that is reached soon.
fn hang() -> ResourceLimits {
    ResourceLimits { hang_ms: Some(500), ..LIMITS }
}

fn line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[test]
fn an_idle_tree_hangs_and_is_terminated() {
    let mut watch = Watch::new(hang(), Leftovers::Ignore);
    let _input = watch.start(1, "cd /; sleep 1000 & sleep 1001");
    let stopped = watch.end(1).unwrap().termination.unwrap();
    assert_eq!(stopped.reason, TerminationReason::Hung { after_ms: 500 });
    assert!(!stopped.killed);
    let lines: Vec<String> = stopped.processes.iter().map(|seen| line(&seen.command)).collect();
    assert_eq!(&lines[1..], ["sleep 1000", "sleep 1001"]);
    assert_eq!(stopped.processes.iter().map(|seen| seen.depth).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(stopped.processes[2].directory.as_deref(), Some(&b"/"[..]));
    watch.await_nobody(1);
}

#[test]
fn ignoring_sigterm_leads_to_sigkill() {
    let mut watch = Watch::new(ResourceLimits { grace_ms: 100, ..hang() }, Leftovers::Ignore);
    let _input = watch.start(1, "trap '' TERM; sleep 1000 & sleep 1001; sleep 1002");
    let stopped = watch.end(1).unwrap().termination.unwrap();
    assert!(stopped.killed);
    watch.await_nobody(1);
}

#[test]
fn a_stopped_tree_hangs_and_exits_on_sigterm() {
    let mut watch = Watch::new(hang(), Leftovers::Ignore);
    let _input = watch.start(1, "sleep 1000 & kill -STOP $! $$");
    let stopped = watch.end(1).unwrap().termination.unwrap();
    assert!(!stopped.killed && stopped.processes.iter().all(|seen| seen.state == b'T'), "{stopped:?}");
    watch.await_nobody(1);
}

#[test]
fn zombies_are_idle_and_reported() {
    let mut watch = Watch::new(hang(), Leftovers::Ignore);
    let _input = watch.start(1, "sleep 0 & exec sleep 1000");
    let stopped = watch.end(1).unwrap().termination.unwrap();
    assert_eq!(stopped.processes.iter().map(|seen| seen.state).collect::<Vec<_>>(), b"SZ");
    watch.await_nobody(1);
}

#[test]
fn time_limits_terminate_busy_jobs() {
    let mut watch = Watch::new(ResourceLimits { total_ms: Some(300), ..LIMITS }, Leftovers::Ignore);
    let _input = watch.start(1, "while :; do :; done");
    let stopped = watch.end(1).unwrap().termination.unwrap();
    assert_eq!(stopped.reason, TerminationReason::Timeout { after_ms: 300 });
}

#[test]
fn cpu_limits_count_ended_processes() {
    let limits = ResourceLimits { cpu_ms: Some(300), ..LIMITS };
    // Each part is short, and only the test waits for it.
    let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    for line in ["while :; do :; done", &format!("while :; do (sh -c '{busy}; :' & :); sleep 0.05; done")] {
        let mut watch = Watch::new(limits, Leftovers::Kill);
        let _input = watch.start(1, line);
        assert_eq!(watch.end(1).unwrap().termination.unwrap().reason, TerminationReason::CpuTime { after_ms: 300 });
        watch.await_nobody(1);
    }
}

/// A line that makes the shell hold this many MiB.
fn hold(mib: u32) -> String {
    format!("x=$(head -c {mib}m /dev/zero | tr '\\0' x)")
}

#[test]
fn memory_limits_kill_the_whole_tree() {
    // By samples alone, and with control groups by the kernel too.
    for hang_ms in [None, Some(NEVER)] {
        let limits = ResourceLimits { memory_kib: Some(64 << 10), hang_ms, ..LIMITS };
        let mut watch = Watch::new(limits, Leftovers::Ignore);
        let mut input = watch.start(1, &format!("read x; ({}; sleep 1000; :) & wait; read x", hold(200)));
        input.write_all(b"go\n").unwrap();
        let stopped = watch.end(1).unwrap().termination.unwrap();
        assert_eq!(stopped.reason, TerminationReason::Memory { limit_kib: 64 << 10 });
        assert!(stopped.killed);
        watch.await_nobody(1);
    }
}

#[test]
fn shared_pages_count_once_toward_the_limit() {
    let limits = ResourceLimits { memory_kib: Some(96 << 10), sample: true, ..LIMITS };
    let mut watch = Watch::new(limits, Leftovers::Kill);
    // Six shells share the same 32 MiB, which counts for each.
    let input = watch.start(1, &format!("{}; for i in 1 2 3 4 5; do (sleep 1000; :) & done; echo; read x", hold(32)));
    watch.hear(1);
    let mut most = 0;
    while most < 150 << 10 {
        match watch.watcher.poll() {
            Some(WatchEvent::Sampled(_, load)) => most = most.max(load.memory_kib),
            Some(other) => panic!("{other:?}"),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    drop(input);
    assert!(watch.end(1).unwrap().termination.is_none());
    watch.await_nobody(1);
}

#[test]
fn forking_trees_are_killed_completely() {
    let limits = ResourceLimits { total_ms: Some(300), grace_ms: 100, ..LIMITS };
    let mut watch = Watch::new(limits, Leftovers::Ignore);
    let storm = "trap '' TERM; grow() { sleep 0.02; (setsid sleep 1000 </dev/null >/dev/null 2>&1 &); grow & sleep 1000; }; grow";
    let _input = watch.start(1, storm);
    assert!(watch.end(1).unwrap().termination.unwrap().killed);
    watch.await_nobody(1);
}

#[test]
fn leftover_daemons_are_reported() {
    let mut watch = Watch::new(LIMITS, Leftovers::Report);
    watch.start(1, "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ");
    let report = watch.end(1).unwrap();
    assert!(report.termination.is_none() && !report.leftovers_killed && !report.leftovers.is_empty());
    watch.start(2, "(setsid sleep 0 </dev/null >/dev/null 2>&1 &)");
    assert!(watch.end(2).is_none_or(|report| report.termination.is_none()));
    watch.await_nobody(2);
    let left = watch.watcher.leftovers();
    let [(JobId(1), processes)] = &left[..] else { panic!("{left:?}") };
    assert_eq!(processes.iter().map(|seen| line(&seen.command)).collect::<Vec<_>>(), ["sleep 1000"]);
    watch.kill_marked(1);
    assert_eq!(watch.watcher.leftovers(), []);
}

#[test]
fn leftovers_are_killed_on_request() {
    let mut watch = Watch::new(LIMITS, Leftovers::Kill);
    watch.start(1, "(setsid sh -c 'trap \"\" TERM; sleep 1000; :' </dev/null >/dev/null 2>&1 &) ");
    let report = watch.end(1).unwrap();
    assert!(report.leftovers_killed && !report.leftovers.is_empty());
    watch.await_nobody(1);
}

/// Waits for a process with this command line: before `exec`, its environment is not its own.
fn await_program(line: &[u8]) -> ProcessId {
    let runs = |look: &procs::ProcessStat| procs::command_line(look.process.pid()).is_some_and(|its| its == line);
    loop {
        if let Some(look) = procs::all().unwrap().into_iter().find(runs) {
            return look.process;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn unmarked_leftovers_are_found_when_no_other_job_runs() {
    let mut watch = Watch::new(LIMITS, Leftovers::Kill);
    let input = watch.start(1, "(env -i setsid sleep 1003 </dev/null >/dev/null 2>&1 &) ; echo; read x");
    watch.hear(1);
    let process = await_program(b"sleep 1003");
    assert_eq!(procs::initial_env_var(process.pid(), b"TANTO_JOB"), None);
    drop(input);
    let left = watch.end(1).unwrap().leftovers;
    assert_eq!(left.iter().map(|seen| seen.pid).collect::<Vec<_>>(), [process.pid()]);
    while procs::stat(process.pid()).is_some_and(|look| look.process == process && !look.is_gone()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn processes_of_running_jobs_are_not_leftovers() {
    let mut watch = Watch::new(LIMITS, Leftovers::Kill);
    let input = watch.start(1, "(setsid sleep 1004 </dev/null >/dev/null 2>&1 &) ; echo; read x");
    watch.hear(1);
    await_program(b"sleep 1004");
    let second = watch.start(2, "(setsid sleep 1001 </dev/null >/dev/null 2>&1 &) ; echo; read x");
    watch.hear(2);
    await_program(b"sleep 1001");
    drop(second);
    let left = watch.end(2).unwrap().leftovers;
    assert!(left.len() == 1 && line(&left[0].command).contains("sleep 1001"), "{left:?}");
    watch.await_nobody(2);
    assert_eq!(watch.marked(1).len(), 2);
    drop(input);
    assert_eq!(watch.end(1).unwrap().leftovers.len(), 1);
    watch.await_nobody(1);
}

#[test]
fn samples_report_memory_and_processes() {
    let mut watch = Watch::new(ResourceLimits { sample: true, ..LIMITS }, Leftovers::Ignore);
    let input = watch.start(1, "sleep 1000 & read x; kill $!");
    let load = loop {
        match watch.watcher.poll() {
            Some(WatchEvent::Sampled(JobId(1), load)) if load.processes == 2 => break load,
            Some(WatchEvent::Sampled(..)) | None => std::thread::sleep(Duration::from_millis(1)),
            Some(other) => panic!("{other:?}"),
        }
    };
    assert!(load.memory_kib > 0);
    drop(input);
    assert_eq!(watch.end(1), None);
}

#[test]
fn cgroups_count_the_whole_tree() {
    if cgroup::OwnCgroups::find().obstacle().is_some() {
        return;
    }
    let mut watch = Watch::new(ResourceLimits { hang_ms: Some(NEVER), ..LIMITS }, Leftovers::Report);
    // Processes that nobody waits for are in no sum of `wait4`, and one without the marker is found by its group.
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; exec sleep 1000";
    let line = format!("read x; (env -i setsid sh -c '{busy}' </dev/null 2>/dev/null &) ; read x; exec >/dev/null");
    let mut input = watch.start(1, &line);
    input.write_all(b"go\n").unwrap();
    let other = watch.start(2, "read x");
    watch.hear(1);
    let used = watch.watcher.cgroup_usage(JobId(1)).unwrap();
    assert!(used.user_us >= 10_000, "{used:?}");
    drop(input);
    let left = watch.end(1).unwrap().leftovers;
    assert_eq!(left.len(), 1, "{left:?}");
    drop(other);
    watch.end(2);
    procs::stat(left[0].pid).map(|look| procs::signal(look.process, 9));
}

#[test]
fn only_long_jobs_get_a_cgroup() {
    if cgroup::OwnCgroups::find().obstacle().is_some() {
        eprintln!("skipped: no control group can be made here");
        return;
    }
    let mut watch = Watch::new(LIMITS, Leftovers::Report);
    let long = watch.start_expecting(1, "read x", LONG_MS);
    let short = watch.start_expecting(2, "read x", LONG_MS - 1);
    assert!(watch.watcher.cgroup_usage(JobId(1)).is_some());
    assert_eq!(watch.watcher.cgroup_usage(JobId(2)), None);
    drop((long, short));
    assert_eq!((watch.end(1), watch.end(2)), (None, None));
    assert_eq!(watch.watcher.cgroup_usage(JobId(1)), None, "it is gone with its job");
}
