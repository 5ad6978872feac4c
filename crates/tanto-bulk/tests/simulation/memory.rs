//! A package that was killed, perhaps for memory, waits until its memory is free, or runs alone.

use std::io;
use std::time::Duration;

use tanto_exec::job::Cost;
use tanto_exec::job::{Exit, JobId};
use tanto_exec::runner::Wakeup;
use tanto_exec::schedule::ResourceSample;

use super::*;

/// The reported memory of each command.
const RSS_KIB: u64 = 1000;

/// Reports that memory for each command.
struct LargeCommands<F>(FakeRunner<F>);

impl<F: FnMut(&Command) -> Effect> Runner for LargeCommands<F> {
    fn capacity(&mut self) -> usize {
        self.0.capacity()
    }

    fn start(&mut self, job: JobId, command: &Command, expected: Cost) -> io::Result<()> {
        self.0.start(job, command, expected)
    }

    fn has_completed(&self) -> bool {
        self.0.has_completed()
    }

    fn wait(&mut self, most: Option<Duration>) -> io::Result<Wakeup> {
        Ok(match self.0.wait(most)? {
            Wakeup::Completed(mut completion) => {
                completion.usage.max_rss_kib = RSS_KIB;
                Wakeup::Completed(completion)
            }
            other => other,
        })
    }

    fn abort(&mut self) -> Vec<JobId> {
        self.0.abort()
    }
}

/// Builds two packages with this free memory; the first is killed once. Returns the starts and ends of attempts, in order.
fn attempts(free_kib: u64) -> String {
    let mut world = World::new(0);
    world.settings.clients = 2;
    let text = ["pkg0", "pkg1"].map(|it| format!("PKGNAME={it}-1\nPKG_LOCATION=cat/{it}\n")).concat();
    let plan = plan(&(text, vec![vec![]; 2]));
    let mut kills = 1;
    let effect = |command: &Command| {
        let line = String::from_utf8_lossy(&command.line);
        if kills > 0 && line.contains("/pkg0 ") && line.contains(" all ") {
            kills -= 1;
            return Effect::Ends { exit: Exit::Signal(9), output: Vec::new() };
        }
        Effect::success()
    };
    let mut runner = LargeCommands(FakeRunner::new(2, effect));
    let reading = Some(ResourceSample { free_kib: Some(free_kib), ..ResourceSample::default() });
    let (outcome, plan) = world.build_in(plan, &mut runner, &mut NoControl, Sources::default(), reading);
    assert_eq!((outcome, plan.counts()[0]), (BuildOutcome::Succeeded, 2));
    world.check(&plan);
    let attempts = world.store().attempts(world.run).unwrap();
    let text = |it: &tanto_record::database::AttemptRow| format!("{} {}", it.job, it.outcome);
    assert_eq!(attempts.iter().map(text).collect::<Vec<_>>(), ["0 machine", "0 done", "1 done"]);
    let event = |line: &Vec<u8>| {
        let line = String::from_utf8_lossy(line);
        let event = if line.contains(" VARNAME=WRKDIR ") { "begins" } else { "ends" };
        let package = if line.contains("/pkg1 ") { 1 } else { 0 };
        line.contains(" clean ").then(|| format!("{event} {package}, "))
    };
    runner.0.started().iter().filter_map(event).collect()
}

#[test]
fn killed_package_waits_for_memory() {
    assert_eq!(attempts(RSS_KIB), "begins 0, begins 1, begins 0, ends 1, ends 0, ");
    assert_eq!(attempts(RSS_KIB - 1), "begins 0, begins 1, ends 1, begins 0, ends 0, ");
}
