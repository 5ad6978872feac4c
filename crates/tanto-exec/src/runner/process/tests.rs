//! Tests of the runner with real processes.

mod monitored;
mod recorded;

use super::*;
use crate::job::JobLimits;
use crate::job::ResourceLimits;
use crate::jobserver::broker::TokenBroker;
use crate::jobserver::server::Server;
use crate::jobserver::{Address, Client};
use crate::monitor::watcher::{CgroupUse, Leftovers};
use crate::testing::named_pipe;
use std::fs;
use std::path::Path;
use tanto_sys::ipc::token_pipe::TokenPipe;
use tanto_testing::Scratch;

fn runner() -> ProcessRunner {
    ProcessRunner::new(RunnerOptions::default()).unwrap()
}

fn start(runner: &mut ProcessRunner, job: u32, line: &str) {
    runner.start(JobId(job), &Command { line: line.into(), ..Command::default() }, Cost::default()).unwrap();
}

fn start_console(runner: &mut ProcessRunner, job: u32, line: &str) {
    runner
        .start(JobId(job), &Command { line: line.into(), console: true, ..Command::default() }, Cost::default())
        .unwrap();
}

/// Returns job, exit and output of the next completion.
fn next(runner: &mut ProcessRunner) -> (u32, Exit, String) {
    match runner.wait(None).unwrap() {
        Wakeup::Completed(it) => (it.job.0, it.exit, String::from_utf8(it.output).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn ok(job: u32, output: &str) -> (u32, Exit, String) {
    (job, Exit::Code(0), output.to_owned())
}

/// Ends the wait of `hold`.
fn release(fifo: &Path) {
    fs::write(fifo, "go\n").unwrap();
}

/// A command line that waits for `release`.
fn hold(fifo: &Path) -> String {
    format!("read x < '{}'", fifo.display())
}

#[test]
fn output_is_complete_and_in_order() {
    let mut runner = runner();
    start(&mut runner, 7, "echo out; echo err >&2; echo out");
    assert_eq!(next(&mut runner), ok(7, "out\nerr\nout\n"));
    start(&mut runner, 8, "i=0; while [ $i -lt 30000 ]; do echo 123456789; i=$((i+1)); done");
    assert_eq!(next(&mut runner).2.len(), 300_000);
}

#[test]
fn exit_status_is_that_of_the_process() {
    let mut runner = runner();
    for (line, exit) in [("exit 3", Exit::Code(3)), ("kill -9 $$", Exit::Signal(9)), ("kill $$", Exit::Signal(15))] {
        start(&mut runner, 0, line);
        assert_eq!(next(&mut runner), (0, exit, String::new()), "{line}");
    }
}

#[test]
fn resource_usage_is_reported() {
    let mut runner = runner();
    start(&mut runner, 0, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let Wakeup::Completed(it) = runner.wait(None).unwrap() else { panic!("not interrupted") };
    assert!(it.usage.user_us + it.usage.system_us > 0 && it.usage.max_rss_kib > 0);
}

#[test]
fn jobs_complete_in_order_of_exit() {
    let dir = Scratch::new("first");
    let fifo = named_pipe(&dir, "fifo");
    let mut runner = runner();
    start(&mut runner, 0, &format!("{}; echo slow", hold(&fifo)));
    start(&mut runner, 1, "echo fast");
    assert_eq!(next(&mut runner), ok(1, "fast\n"));
    release(&fifo);
    assert_eq!(next(&mut runner), ok(0, "slow\n"));
}

#[test]
fn a_job_with_closed_output_blocks_no_other() {
    let dir = Scratch::new("closes");
    let fifo = named_pipe(&dir, "fifo");
    let mut runner = runner();
    start(&mut runner, 0, &format!("exec >&- 2>&-; {}; exit 4", hold(&fifo)));
    start(&mut runner, 1, "echo b");
    assert_eq!(next(&mut runner), ok(1, "b\n"));
    release(&fifo);
    assert_eq!(next(&mut runner), (0, Exit::Code(4), String::new()));
}

#[test]
fn a_job_ends_when_its_last_writer_exits() {
    let dir = Scratch::new("daemon");
    let fifo = named_pipe(&dir, "fifo");
    let mut runner = runner();
    start(&mut runner, 0, &format!("echo early; ({}; echo late) &", hold(&fifo)));
    start(&mut runner, 1, "true");
    assert_eq!(next(&mut runner), ok(1, ""));
    release(&fifo);
    assert_eq!(next(&mut runner), ok(0, "early\nlate\n"));
}

#[test]
fn a_console_job_ends_while_another_runs() {
    let dir = Scratch::new("console");
    let fifo = named_pipe(&dir, "fifo");
    let mut runner = runner();
    start(&mut runner, 0, &hold(&fifo));
    start_console(&mut runner, 1, "exit 5");
    assert_eq!(next(&mut runner), (1, Exit::Code(5), String::new()));
    release(&fifo);
    assert_eq!(next(&mut runner), ok(0, ""));
}

#[test]
fn exits_are_noticed_without_pidfd() {
    let mut runner = runner();
    runner.system_calls.exit_fd = |_| Err(io::ErrorKind::Unsupported.into());
    start_console(&mut runner, 0, "exit 5");
    assert_eq!(next(&mut runner), (0, Exit::Code(5), String::new()));
    start(&mut runner, 1, "exec >&- 2>&-; exit 6");
    assert_eq!(next(&mut runner), (1, Exit::Code(6), String::new()));
}

#[test]
fn variables_are_in_the_environment() {
    let environment = vec![("TANTO_TEST".into(), "a b".into())];
    let mut runner = ProcessRunner::new(RunnerOptions { environment, ..RunnerOptions::default() }).unwrap();
    start(&mut runner, 0, "echo \"$TANTO_TEST\"");
    assert_eq!(next(&mut runner), ok(0, "a b\n"));
}

#[test]
fn abort_without_an_interruption_waits_for_the_end() {
    let dir = Scratch::new("abort");
    let mut runner = runner();
    start(&mut runner, 3, &format!("sleep 0.05; : > '{}'", dir.at("done").display()));
    start(&mut runner, 1, "exit 1");
    assert_eq!(runner.abort(), [JobId(3), JobId(1)]);
    assert!(dir.at("done").exists());
    assert!(runner.abort().is_empty());
}

#[test]
fn abort_returns_unreported_jobs() {
    let dir = Scratch::new("abort-ended");
    let fifo = named_pipe(&dir, "fifo");
    let mut runner = runner();
    // Both jobs end at nearly the same time, so one poll or two report them.
    start(&mut runner, 0, &hold(&fifo));
    release(&fifo);
    start(&mut runner, 1, "true");
    let (reported, ..) = next(&mut runner);
    assert_eq!(runner.abort(), [JobId(1 - reported)]);
}

#[test]
fn drop_waits_for_the_end() {
    let dir = Scratch::new("drop");
    let mut runner = runner();
    start(&mut runner, 0, &format!("sleep 0.05; : > '{}'", dir.at("done").display()));
    drop(runner);
    assert!(dir.at("done").exists());
}

#[test]
fn an_overlong_line_is_a_start_error() {
    let command = Command { line: vec![b'x'; 3 << 20], ..Command::default() };
    let error = runner().start(JobId(0), &command, Cost::default()).unwrap_err();
    assert_eq!(tanto_sys::error::text(&error), b"posix_spawn: Argument list too long");
}

#[test]
fn parallelism_limits_capacity() {
    let mut runner = ProcessRunner::new(RunnerOptions { parallelism: 2, ..RunnerOptions::default() }).unwrap();
    assert_eq!(runner.capacity(), 2);
    start(&mut runner, 0, "sleep 100");
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 1, "true");
    assert_eq!(runner.capacity(), 0);
    next(&mut runner);
    assert_eq!(runner.capacity(), 1);
    runner.interrupted_by = Some(9);
}

#[test]
fn load_limits_capacity() {
    let options = RunnerOptions { parallelism: 8, max_load: Some(4.5), ..RunnerOptions::default() };
    let mut runner = ProcessRunner::new(options).unwrap();
    runner.system_calls.load = || 1.0;
    assert_eq!(runner.capacity(), 3);
    runner.system_calls.load = || 1e9;
    assert_eq!(runner.capacity(), 1, "one job may always run");
    start(&mut runner, 0, "sleep 100");
    assert!(!runner.is_load_limited());
    assert_eq!((runner.capacity(), runner.is_load_limited()), (0, true));
    runner.system_calls.load = || 0.0;
    assert_eq!((runner.capacity(), runner.is_load_limited()), (4, false));
    runner.parallelism = 0;
    runner.max_load = None;
    assert_eq!(runner.capacity(), usize::MAX);
    runner.interrupted_by = Some(9);
}

/// A runner that shares its slots with the test.
fn sharing(fifo: &Path, tokens: &[u8]) -> (ProcessRunner, TokenPipe) {
    let pool = TokenPipe::open(fifo).unwrap();
    tokens.iter().for_each(|&token| pool.put(token).unwrap());
    let place = Address::Fifo(fifo.as_os_str().as_encoded_bytes().to_vec());
    let jobserver = Some(Jobserver::Client(Client::open(&place).unwrap()));
    (ProcessRunner::new(RunnerOptions { parallelism: 1, jobserver, ..RunnerOptions::default() }).unwrap(), pool)
}

fn drain(pool: &TokenPipe) -> Vec<u8> {
    std::iter::from_fn(|| pool.take().unwrap()).collect()
}

#[test]
fn each_job_has_a_slot() {
    let dir = Scratch::new("slots");
    let (hold_0, hold_1) = (named_pipe(&dir, "0"), named_pipe(&dir, "1"));
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"xy");
    for (job, fifo) in [(0, &hold_0), (1, &hold_1)] {
        assert_eq!((runner.capacity(), runner.capacity()), (1, 1));
        start(&mut runner, job, &hold(fifo));
    }
    assert_eq!(pool.take().unwrap(), Some(b'y'), "only one token was taken");
    assert_eq!(runner.capacity(), 0);
    release(&hold_1);
    assert_eq!(next(&mut runner), ok(1, ""));
    assert_eq!(drain(&pool), b"x");
    release(&hold_0);
    assert_eq!(next(&mut runner), ok(0, ""));
    assert_eq!(runner.capacity(), 1, "the implicit slot is free again");
}

#[test]
fn a_returned_token_wakes_the_runner() {
    let dir = Scratch::new("wakes");
    let held = named_pipe(&dir, "held");
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"");
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 0, &hold(&held));
    assert_eq!(runner.capacity(), 0);
    pool.put(b'z').unwrap();
    assert_eq!(runner.wait(None).unwrap(), Wakeup::SlotAvailable);
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 1, "true");
    assert_eq!(next(&mut runner), ok(1, ""));
    assert_eq!(drain(&pool), b"z");
    release(&held);
    assert_eq!(next(&mut runner), ok(0, ""));
}

#[test]
fn unused_tokens_are_returned() {
    let dir = Scratch::new("unused");
    let held = named_pipe(&dir, "held");
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"q");
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 0, &hold(&held));
    assert_eq!(runner.capacity(), 1, "token q was taken");
    assert_eq!(drain(&pool), b"");
    release(&held);
    assert_eq!(next(&mut runner), ok(0, ""));
    assert_eq!(drain(&pool), b"q");
}

#[test]
fn a_free_token_does_not_wake_a_load_limited_runner() {
    let dir = Scratch::new("loaded");
    let held = named_pipe(&dir, "held");
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"");
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 0, &hold(&held));
    assert_eq!(runner.capacity(), 0, "no slot is free");
    runner.max_load = Some(1.0);
    runner.system_calls.load = || 1e9;
    assert_eq!(runner.capacity(), 0, "the load is too high");
    pool.put(b'z').unwrap();
    assert_eq!(runner.wait(Some(Duration::from_millis(1))).unwrap(), Wakeup::TimedOut);
    release(&held);
    assert_eq!(next(&mut runner), ok(0, ""));
}

#[test]
fn a_server_at_its_limit_waits_for_no_token() {
    let dir = Scratch::new("all");
    let holds = [named_pipe(&dir, "0"), named_pipe(&dir, "1")];
    let jobserver = Some(Jobserver::Server(Server::pipe(2).unwrap()));
    let mut runner =
        ProcessRunner::new(RunnerOptions { parallelism: 2, jobserver, ..RunnerOptions::default() }).unwrap();
    for (job, fifo) in (0..).zip(&holds) {
        assert_eq!(runner.capacity(), 1);
        start(&mut runner, job, &hold(fifo));
    }
    assert_eq!(runner.capacity(), 0);
    assert!(!runner.slots.as_ref().unwrap().is_waiting);
    for (job, fifo) in (0..).zip(&holds) {
        release(fifo);
        assert_eq!(next(&mut runner), ok(job, ""));
        assert_eq!(runner.capacity(), 1);
    }
}

#[test]
fn tokens_are_returned_at_the_end() {
    let dir = Scratch::new("end");
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"abc");
    for job in 0..2 {
        assert_eq!(runner.capacity(), 1);
        start(&mut runner, job, "true");
    }
    assert_eq!(runner.capacity(), 1);
    runner.abort();
    let mut left = drain(&pool);
    left.sort_unstable();
    assert_eq!(left, b"abc");
    pool.put(b'd').unwrap();
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 2, "true");
    assert_eq!(runner.capacity(), 1);
    drop(runner);
    assert_eq!(drain(&pool), b"d");
}

#[test]
fn a_failed_start_keeps_its_slot() {
    let dir = Scratch::new("refused");
    let (mut runner, pool) = sharing(&named_pipe(&dir, "slots"), b"");
    assert_eq!(runner.capacity(), 1);
    runner.start(JobId(0), &Command { line: vec![b'x'; 3 << 20], ..Command::default() }, Cost::default()).unwrap_err();
    assert_eq!(runner.capacity(), 1);
    drop(runner);
    assert_eq!(drain(&pool), b"");
}

/// A runner that can start at most this many processes.
fn short_of_processes(most: usize) -> ProcessRunner {
    let mut runner = runner();
    runner.system_calls.start = match most {
        0 => |_, _| Err(io::Error::from_raw_os_error(11)),
        _ => |starter, command| match std::str::from_utf8(&command.line).is_ok_and(|line| line.contains("held")) {
            true if REFUSALS.replace(REFUSALS.get() - 1) > 0 => Err(io::Error::from_raw_os_error(11)),
            _ => starter.start(command),
        },
    };
    runner
}

thread_local!(static REFUSALS: std::cell::Cell<i32> = const { std::cell::Cell::new(0) });

#[test]
fn descriptors_limit_capacity() {
    let mut runner = runner();
    runner.max_descriptors = 0;
    assert!(runner.capacity() > 1);
    for job in 0..2 {
        start(&mut runner, job, "true");
        assert_eq!(runner.capacity(), 0);
        next(&mut runner);
        assert!(runner.capacity() > 1);
    }
}

#[test]
fn out_of_processes_waits_for_another_job_to_end() {
    let dir = Scratch::new("room");
    let fifo = named_pipe(&dir, "fifo");
    // At the start, and at the beginning of the first wait.
    REFUSALS.set(2);
    let mut runner = short_of_processes(1);
    start(&mut runner, 0, "echo a");
    start(&mut runner, 1, &hold(&fifo));
    start(&mut runner, 2, "echo held");
    assert_eq!(runner.capacity(), 0, "it blocks other jobs");
    assert_eq!(next(&mut runner), ok(0, "a\n"));
    assert_eq!(next(&mut runner), ok(2, "held\n"));
    assert!(runner.capacity() > 0);
    release(&fifo);
    assert_eq!(next(&mut runner), ok(1, ""));
}

#[test]
fn out_of_processes_with_nothing_running_is_an_error() {
    let mut runner = short_of_processes(0);
    let error =
        runner.start(JobId(0), &Command { line: b"echo".into(), ..Command::default() }, Cost::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(11));
    REFUSALS.set(1000);
    let mut runner = short_of_processes(1);
    start(&mut runner, 0, "echo a");
    start(&mut runner, 1, "echo held");
    assert_eq!(next(&mut runner), ok(0, "a\n"));
    assert_eq!(runner.wait(None).unwrap_err().raw_os_error(), Some(11));
}

#[test]
fn abort_includes_deferred_commands() {
    REFUSALS.set(1000);
    let mut runner = short_of_processes(1);
    start(&mut runner, 0, "true");
    start(&mut runner, 1, "echo held");
    let mut jobs = runner.abort();
    jobs.sort_unstable();
    assert_eq!(jobs, [JobId(0), JobId(1)]);
}

#[test]
fn hang_limits_create_a_cgroup_at_the_start() {
    if tanto_sys::cgroup::OwnCgroups::find().obstacle().is_some() {
        return;
    }
    let limits = ResourceLimits { hang_ms: Some(3_600_000), ..ResourceLimits::NONE };
    let watch = WatchOptions { limits, leftovers: Leftovers::Ignore, cgroups: CgroupUse::All };
    let mut runner = ProcessRunner::new(RunnerOptions { watch: Some(watch), ..RunnerOptions::default() }).unwrap();
    // The first process forks at once, and nothing waits for the busy child.
    start(&mut runner, 5, "cat /proc/self/cgroup; (i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo busy) &");
    let Wakeup::Completed(it) = runner.wait(None).unwrap() else { panic!("not interrupted") };
    let output = String::from_utf8_lossy(&it.output);
    assert!(output.lines().any(|line| line.starts_with("0::") && line.ends_with("/5")), "{output}");
    assert!(output.ends_with("busy\n") && it.usage.user_us >= 10_000, "{it:?}");
}

#[test]
fn a_stopped_job_ends_when_the_build_is_interrupted() {
    let mut runner = runner();
    start(&mut runner, 3, "kill -STOP $$; echo");
    let pid = runner.running[0].child.pid();
    while !tanto_sys::process::procs::stat(pid).unwrap().is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    runner.interrupted_by = Some(15);
    assert_eq!(runner.abort(), [JobId(3)]);
}

#[test]
fn the_wake_fd_interrupts_a_wait() {
    let place = Scratch::new("spawn-bell");
    let fifo = named_pipe(&place, "go");
    let (wake_fd, mut rope) = std::io::pipe().unwrap();
    let mut runner =
        ProcessRunner::new(RunnerOptions { wake_fd: Some(wake_fd.into()), ..RunnerOptions::default() }).unwrap();
    start(&mut runner, 0, &hold(&fifo));
    std::io::Write::write_all(&mut rope, b"!").unwrap();
    assert_eq!(runner.wait(None).unwrap(), Wakeup::ControlRequest);
    release(&fifo);
    // Constant requests do not keep commands from ending.
    while runner.wait(None).unwrap() == Wakeup::ControlRequest {}
}

/// Prints whether the token pipe exists.
const HAS_TOKENS: &str = "test -p \"/proc/self/fd/${TANTO_TOKENS%,*}\" && echo yes || echo no";

#[test]
fn each_command_has_its_own_token_pipe() {
    let dealt = |slots, most| {
        let jobserver = Some(Jobserver::Broker(TokenBroker::new(slots, most)));
        ProcessRunner::new(RunnerOptions { jobserver, ..RunnerOptions::default() }).unwrap()
    };
    let mut shared = dealt(3, 3);
    shared.set_next_priority(5);
    assert_eq!(shared.capacity(), 1);
    start(&mut shared, 1, &format!("{HAS_TOKENS}; echo $CARGO_MAKEFLAGS | cut -c -19"));
    assert_eq!(next(&mut shared), ok(1, "yes\n-j --jobserver-fds=\n"));
    // The next command of the same job gets its slot without `capacity`.
    start(&mut shared, 1, HAS_TOKENS);
    assert_eq!((shared.capacity(), next(&mut shared)), (1, ok(1, "yes\n")));
    let mut as_process = dealt(3, 1);
    assert_eq!(as_process.capacity(), 1);
    start(&mut as_process, 1, HAS_TOKENS);
    assert_eq!(next(&mut as_process), ok(1, "no\n"));
}

#[test]
fn a_job_keeps_its_slot_between_commands() {
    let place = Scratch::new("spawn-kept");
    let end = named_pipe(&place, "end");
    let jobserver = Some(Jobserver::Broker(TokenBroker::new(2, 2)));
    let mut runner = ProcessRunner::new(RunnerOptions { jobserver, ..RunnerOptions::default() }).unwrap();
    runner.set_next_priority(9);
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 1, "dd bs=1 count=1 of=/dev/null 2>/dev/null <\"/proc/self/fd/${TANTO_TOKENS%,*}\"");
    runner.set_next_priority(1);
    assert_eq!(runner.capacity(), 1);
    start(&mut runner, 2, ":");
    assert_eq!(next(&mut runner), ok(2, ""));
    start(&mut runner, 2, &hold(&end));
    for _ in 0..5 {
        assert_eq!(runner.wait(Some(Duration::from_millis(20))).unwrap(), Wakeup::TimedOut);
    }
    release(&end);
    assert_eq!(next(&mut runner), ok(2, ""));
    assert_eq!(next(&mut runner), ok(1, ""), "its slot goes to the more urgent job afterwards");
}

#[test]
fn tokens_taken_by_a_command_are_in_use() {
    let place = Scratch::new("spawn-dealt");
    let [taken, end] = ["taken", "end"].map(|name| named_pipe(&place, name));
    let jobserver = Some(Jobserver::Broker(TokenBroker::new(2, 2)));
    let mut runner = ProcessRunner::new(RunnerOptions { jobserver, ..RunnerOptions::default() }).unwrap();
    assert_eq!(runner.capacity(), 1);
    let take = "dd bs=1 count=1 of=/dev/null 2>/dev/null <\"/proc/self/fd/${TANTO_TOKENS%,*}\"";
    start(&mut runner, 1, &format!("{take}; echo >'{}'; {}", taken.display(), hold(&end)));
    // Tokens are reallocated during waits.
    assert_eq!(runner.wait(Some(Duration::from_millis(100))).unwrap(), Wakeup::TimedOut);
    fs::read(&taken).unwrap();
    assert_eq!(runner.capacity(), 0, "both slots are in use");
    release(&end);
    assert_eq!(next(&mut runner), ok(1, ""));
    assert_eq!(runner.capacity(), 1, "its tokens are free again");
}
