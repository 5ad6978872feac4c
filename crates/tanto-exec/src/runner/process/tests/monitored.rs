//! Limits, and processes that outlive their command.

use super::*;

fn monitored(limits: ResourceLimits) -> ProcessRunner {
    let watch = WatchOptions { limits, leftovers: Leftovers::Kill, cgroups: CgroupUse::None };
    ProcessRunner::new(RunnerOptions { watch: Some(watch), ..RunnerOptions::default() }).unwrap()
}

#[test]
fn a_killed_job_is_terminated() {
    let limits = ResourceLimits { grace_ms: 20_000, ..ResourceLimits::NONE };
    let mut runner = monitored(limits);
    assert!(!runner.terminate(JobId(3), TerminationReason::Requested), "nothing runs");
    start(&mut runner, 3, "sleep 600 & echo said; wait");
    start(&mut runner, 4, "true");
    while runner.output_so_far(JobId(3)).unwrap().is_empty() {
        runner.wait(Some(Duration::from_millis(1))).unwrap();
    }
    assert_eq!((runner.output_so_far(JobId(3)).unwrap(), runner.output_so_far(JobId(9))), (b"said\n".to_vec(), None));
    assert!(runner.terminate(JobId(3), TerminationReason::Requested));
    assert!(!runner.terminate(JobId(3), TerminationReason::Requested), "it is ending already");
    let ended = loop {
        match runner.wait(None).unwrap() {
            Wakeup::Completed(it) if it.job == JobId(3) => break it,
            _ => {}
        }
    };
    assert_eq!(ended.exit, Exit::Code(TerminationReason::Requested.exit_code()));
    assert_eq!(ended.report.unwrap().termination.unwrap().reason, TerminationReason::Requested);
}

#[test]
fn excessive_output_terminates_and_keeps_both_ends() {
    let mut runner = monitored(ResourceLimits::NONE);
    let limits = ResourceLimits { output_bytes: Some(1 << 20), ..ResourceLimits::NONE };
    let bounds = Some(Box::new(JobLimits { resources: limits, scratch: None }));
    let line = b"echo begins; yes".to_vec();
    runner.start(JobId(3), &Command { line, limits: bounds, ..Command::default() }, Cost::default()).unwrap();
    let Wakeup::Completed(ended) = runner.wait(None).unwrap() else { panic!("nothing else runs") };
    let why = TerminationReason::Output { limit_bytes: 1 << 20 };
    assert_eq!((ended.exit, ended.report.unwrap().termination.unwrap().reason), (Exit::Code(why.exit_code()), why));
    assert!(ended.output.starts_with(b"begins\ny\n") && ended.output.len() < (1 << 20) + 100);
    assert!(String::from_utf8_lossy(&ended.output).contains(" bytes are left out ...]"));
    // The limit of this command only.
    start(&mut runner, 4, "yes | head -c 2m");
    let Wakeup::Completed(ended) = runner.wait(None).unwrap() else { panic!("nothing else runs") };
    assert_eq!((ended.exit, ended.output.len()), (Exit::Code(0), 2 << 20));
}

#[test]
fn processes_that_keep_the_output_open_are_reported_and_killed() {
    let limits = ResourceLimits { linger_ms: Some(100), ..ResourceLimits::NONE };
    let mut runner = monitored(limits);
    for noise in ["sleep 1009", "while :; do echo noise; sleep 0.01; done"] {
        start(&mut runner, 3, &format!("echo said; ({noise}) & exit 3"));
        let Wakeup::Completed(ended) = runner.wait(None).unwrap() else { panic!("nothing else runs") };
        assert_eq!(ended.exit, Exit::Code(3));
        assert!(ended.output.starts_with(b"said\n"), "{ended:?}");
        let report = ended.report.unwrap();
        assert!(report.leftovers_killed && report.termination.is_none());
        let is_sleep =
            |result: &ProcessInfo| result.command.starts_with(b"sleep") || result.command.starts_with(b"/bin/sh");
        assert!(!report.leftovers.is_empty() && report.leftovers.iter().all(is_sleep), "{report:?}");
    }
    // Processes that exit soon are not reported.
    let bounds =
        Some(Box::new(JobLimits { resources: ResourceLimits { linger_ms: Some(600_000), ..limits }, scratch: None }));
    let line = b"(sleep 0.01; echo late) & echo said".to_vec();
    runner.start(JobId(4), &Command { line, limits: bounds, ..Command::default() }, Cost::default()).unwrap();
    let Wakeup::Completed(ended) = runner.wait(None).unwrap() else { panic!("nothing else runs") };
    assert_eq!(ended.output, b"said\nlate\n");
}

#[test]
fn processes_of_another_runner_are_no_leftovers() {
    let (mut other, mut own) = (monitored(ResourceLimits::NONE), monitored(ResourceLimits::NONE));
    start(&mut other, 3, "sleep 1019 & echo $!");
    let orphan = loop {
        other.wait(Some(Duration::from_millis(1))).unwrap();
        let pid = String::from_utf8(other.output_so_far(JobId(3)).unwrap()).unwrap().trim().parse().ok();
        let is_adopted = |pid| tanto_sys::process::procs::stat(pid).unwrap().parent == std::process::id();
        if let Some(pid) = pid.filter(|&pid| is_adopted(pid)) {
            break pid;
        }
    };
    start(&mut own, 4, "true");
    let Wakeup::Completed(ended) = own.wait(None).unwrap() else { panic!("nothing else runs") };
    assert_eq!(ended.report, None);
    assert!(!tanto_sys::process::procs::stat(orphan).unwrap().is_gone());
    assert!(other.terminate(JobId(3), TerminationReason::Requested));
    let ended = loop {
        if let Wakeup::Completed(ended) = other.wait(None).unwrap() {
            break ended;
        }
    };
    assert_eq!(ended.report.unwrap().termination.unwrap().reason, TerminationReason::Requested);
}
