//! Single cases: results in full, requests of the user, aborts and samples.

use super::*;

/// A runner of one attempt or more, without a sandbox.
struct Case {
    place: Scratch,
    settings: BuildSettings,
    inner: Inner,
    clock: FakeClock,
}

impl Case {
    fn new() -> Case {
        let place = Scratch::new("attempt-case");
        let inner = Inner { slots: Cell::new(2), ..Inner::default() };
        Case { settings: settings(&place), place, inner, clock: FakeClock::default() }
    }

    fn with(&self, test: impl FnOnce(&mut AttemptRunner<'_>)) {
        let mut commands = Commands(&self.inner);
        test(&mut AttemptRunner::new(&mut commands, &self.settings, &self.clock));
    }

    /// Ends the stages of job 0 with success until this one runs.
    fn reach(&self, runner: &mut AttemptRunner<'_>, stage: Stage) {
        loop {
            match runner.wait(None).unwrap() {
                Wakeup::Progress(_, AttemptEvent::Stage { stage: begun, .. }) if begun == stage => return,
                Wakeup::Progress(_, AttemptEvent::Stage { .. }) => self.inner.end(0, Fate::Succeeds),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until the next stage of job 0 begins.
    fn reach_next(&self, runner: &mut AttemptRunner<'_>) {
        let wakeup = runner.wait(None).unwrap();
        assert!(matches!(wakeup, Wakeup::Progress(_, AttemptEvent::Stage { .. })), "{wakeup:?}");
    }

    /// Ends all remaining stages with success. Returns the result and the completion.
    fn finish(&self, runner: &mut AttemptRunner<'_>) -> (AttemptResult, Completion) {
        let mut result = None;
        loop {
            match runner.wait(None).unwrap() {
                Wakeup::Progress(_, AttemptEvent::Stage { .. }) => self.inner.end(0, Fate::Succeeds),
                Wakeup::Progress(_, AttemptEvent::Result(it)) => result = Some(*it),
                Wakeup::Completed(completion) => return (result.expect("a result before the end"), completion),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn start(runner: &mut AttemptRunner<'_>, spec: &AttemptSpec) {
    runner.start(JobId(0), &attempt(spec), Cost::default()).unwrap();
}

#[test]
fn failed_attempt_has_files_in_its_directory_only() {
    let mut case = Case::new();
    case.settings.keep_wrkdir = true;
    let spec = AttemptSpec { attempt: 3, ..spec("pkg-1") };
    let dir = format!("{}/pkg-1/3", case.settings.logs);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(format!("{dir}/install.log"), "of a killed build").unwrap();
    case.with(|runner| {
        start(runner, &spec);
        case.reach(runner, Stage::Build);
        assert!(case.inner.line(0).unwrap().contains(&dir), "{:?}", case.inner.line(0));
        case.inner.end(0, Fate::Fails);
        let (result, completion) = case.finish(runner);
        assert_eq!((&*result.log, &*result.output, result.exit), ("build.log", "cc: error\n", 2));
        assert_eq!(result.outcome.why(), "build exited with 2");
        assert_eq!((completion.exit, &completion.output[..]), (Exit::Code(2), &b"cc: error\n"[..]));
        assert_eq!(tanto_protocol::Message::encode(&result).map(drop), Ok(()), "names are relative");
    });
    let names = |dir: &str| {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    let stages = ["build", "checksum", "clean", "client-clean", "configure", "keep", "pre-clean"];
    assert_eq!(names(&dir), stages.map(|stage| format!("{stage}.log")));
    assert_eq!(std::fs::read(format!("{dir}/build.log")).unwrap(), b"cc: error\n");
    assert_eq!(names(case.place.text()), ["bulklog"]);
}

#[test]
fn built_attempt_lists_its_package_and_resources() {
    let case = Case::new();
    let spec = spec("pkg-1");
    case.with(|runner| {
        start(runner, &spec);
        case.reach(runner, Stage::Install);
        let mut completion = Fate::Succeeds.completion(JobId(0));
        completion.usage = Usage { user_us: 5_000, system_us: 2_000, max_rss_kib: 900, ..Usage::default() };
        case.inner.complete(completion);
        case.reach_next(runner);
        std::fs::write(format!("{}/pkg-1/1/size", case.settings.logs), "4321\t/work\n").unwrap();
        case.inner.end(0, Fate::Succeeds);
        let (result, completion) = case.finish(runner);
        assert_eq!((kind(&result), result.cpu_ms, result.peak_kib, result.disk_kib), ("built", 7, 900, 4321));
        let built: Vec<(&str, &str)> = result.packages.iter().map(|it| (&*it.name, &*it.file)).collect();
        assert_eq!(built, [("pkg-1", "pkg-1.tgz")]);
        assert_eq!((completion.exit, completion.output, &*result.log), (Exit::Code(0), Vec::new(), ""));
    });
}

#[test]
fn stage_that_ends_well_after_a_request_to_kill_it_was_killed() {
    for can_terminate in [true, false] {
        let case = Case::new();
        case.inner.can_terminate.set(can_terminate);
        case.with(|runner| {
            start(runner, &spec("pkg-1"));
            case.reach(runner, Stage::Configure);
            assert_eq!(runner.terminate(JobId(0), TerminationReason::Requested), can_terminate);
            assert_eq!(case.inner.terminated.take(), [(JobId(0), TerminationReason::Requested)]);
            case.inner.end(0, Fate::Succeeds);
            let (result, completion) = case.finish(runner);
            assert_eq!((kind(&result), result.outcome.why(), result.exit), ("failed", "killed by the user", 143));
            assert!(failure::termination(&completion).is_some_and(|it| it.reason == TerminationReason::Requested));
        });
    }
}

#[test]
fn request_to_kill_an_ended_attempt_changes_nothing() {
    let case = Case::new();
    case.inner.can_terminate.set(true);
    case.with(|runner| {
        start(runner, &spec("pkg-1"));
        case.reach(runner, Stage::Clean);
        case.inner.end(0, Fate::Succeeds);
        let Wakeup::Progress(_, AttemptEvent::Result(result)) = runner.wait(None).unwrap() else { panic!("no result") };
        assert!(!runner.terminate(JobId(0), TerminationReason::Requested));
        let Wakeup::Completed(completion) = runner.wait(None).unwrap() else { panic!("not completed") };
        assert_eq!((kind(&result), completion.exit, completion.report), ("built", Exit::Code(0), None));
    });
}

#[test]
fn request_during_the_clean_up_keeps_the_first_failure() {
    let case = Case::new();
    case.with(|runner| {
        start(runner, &spec("pkg-1"));
        case.reach(runner, Stage::Build);
        case.inner.end(0, Fate::Fails);
        case.reach_next(runner);
        runner.terminate(JobId(0), TerminationReason::Requested);
        case.inner.end(0, Fate::Hung);
        let (result, completion) = case.finish(runner);
        assert_eq!((result.outcome.why(), completion.exit), ("build exited with 2", Exit::Code(2)));
        assert_eq!(completion.report, None, "the stage that failed was not terminated");
    });
}

#[test]
fn aborted_runner_returns_running_and_completed_jobs() {
    for delivered in [0, 1] {
        let case = Case::new();
        case.with(|runner| {
            start(runner, &spec("pkg-1"));
            runner.start(JobId(7), &command("deliver"), Cost::default()).unwrap();
            assert_eq!(runner.capacity(), 0);
            case.reach(runner, Stage::Clean);
            case.inner.end(0, Fate::Succeeds);
            case.inner.slots.set(3);
            for _ in 0..=delivered {
                runner.wait(None).unwrap();
            }
            assert_eq!(runner.capacity(), 1 + delivered, "a completed task keeps its slot");
            let mut jobs = runner.abort();
            jobs.sort_unstable();
            assert_eq!(jobs, if delivered == 0 { vec![JobId(0), JobId(7)] } else { vec![JobId(7)] });
            assert!(!runner.has_completed());
        });
    }
}

#[test]
fn commands_of_the_coordinator_end_as_they_are() {
    let case = Case::new();
    case.with(|runner| {
        let mut ends = |fate, kill| {
            runner.start(JobId(0), &command("deliver"), Cost::default()).unwrap();
            if kill {
                runner.terminate(JobId(0), TerminationReason::Requested);
            }
            case.inner.end(0, fate);
            let Wakeup::Completed(it) = runner.wait(None).unwrap() else { panic!("not completed") };
            (it.exit.code(), it.report.is_some())
        };
        assert_eq!(ends(Fate::Succeeds, false), (0, false));
        assert_eq!(ends(Fate::Fails, false), (2, false));
        assert_eq!(ends(Fate::Interrupted, false), (1, false), "the user did not interrupt the build");
        assert_eq!(ends(Fate::Succeeds, true), (143, true));
        assert_eq!(ends(Fate::Fails, true), (2, true));
        assert_eq!(ends(Fate::Succeeds, false), (0, false), "the request was for one command");
    });
}

#[test]
fn package_that_fills_its_memory_is_moved_to_the_disk_even_if_it_succeeds() {
    let room_kib = 1 << 20;
    let full_kib = room_kib - room_kib / 16;
    for (expected_disk_kib, expected) in
        [(room_kib, "exceeded tmpfs"), (full_kib, "exceeded tmpfs"), (full_kib - 1, "built")]
    {
        let case = Case::new();
        case.with(|runner| {
            start(runner, &AttemptSpec { scratch_memory: Some(room_kib << 10), expected_disk_kib, ..spec("pkg-1") });
            let (result, _) = case.finish(runner);
            assert_eq!(kind(&result), expected, "{expected_disk_kib}");
        });
    }
}

#[test]
fn samples_raise_the_peak() {
    let case = Case::new();
    case.with(|runner| {
        start(runner, &spec("pkg-1"));
        case.reach(runner, Stage::Build);
        let sample = JobSample { processes: 2, cpu_ms: 1, memory_kib: 5_000, files_kib: Some(1_000) };
        for job in [0, 9] {
            case.inner.wakeups.borrow_mut().push_back(Wakeup::Sampled(JobId(job), sample));
            assert_eq!(runner.wait(None).unwrap(), Wakeup::Sampled(JobId(job), sample));
        }
        case.inner.end(0, Fate::Succeeds);
        assert_eq!(case.finish(runner).0.peak_kib, 5_000);
    });
}

#[test]
fn wakeups_that_concern_no_job_pass_through() {
    let case = Case::new();
    case.with(|runner| {
        let others = [(Wakeup::Interrupted(2), Wakeup::Interrupted(2)), (Wakeup::SlotAvailable, Wakeup::SlotAvailable)];
        for (inner, outer) in others.into_iter().chain([(Wakeup::ControlRequest, Wakeup::ControlRequest)]) {
            case.inner.wakeups.borrow_mut().push_back(inner);
            assert_eq!(runner.wait(None).unwrap(), outer);
        }
        assert_eq!(runner.wait(None).unwrap(), Wakeup::TimedOut);
    });
}
