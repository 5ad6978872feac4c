//! The summary of failures at the end of a build.

use std::fmt::Write;

use tanto_exec::job::{Exit, JobId, JobInfo};

use super::text;

/// Limit of failures listed.
const MOST_FAILURES: usize = 20;
/// Limit of skipped commands listed per failure.
const MOST_SKIPPED: usize = 3;

struct Failure {
    job: JobId,
    name: String,
    how: String,
    /// The first outputs of skipped commands.
    skipped: Vec<String>,
    skipped_more: usize,
}

#[derive(Default)]
pub(super) struct Failures {
    unicode: bool,
    all: Vec<Failure>,
}

impl Failures {
    pub(super) fn new(unicode: bool) -> Failures {
        Failures { unicode, all: Vec::new() }
    }

    pub(super) fn failed(&mut self, job: JobId, info: &JobInfo, exit: Exit) {
        let name = self.name(&info.outputs);
        self.all.push(Failure { job, name, how: how(exit), skipped: Vec::new(), skipped_more: 0 });
    }

    /// The job will run again.
    pub(super) fn forget(&mut self, job: JobId) {
        self.all.retain(|failure| failure.job != job);
    }

    pub(super) fn skipped(&mut self, outputs: &[Vec<u8>], because: JobId) {
        let name = self.name(outputs);
        let Some(failure) = self.all.iter_mut().find(|failure| failure.job == because) else { return };
        if failure.skipped.len() < MOST_SKIPPED {
            failure.skipped.push(name);
        } else {
            failure.skipped_more += 1;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    fn name(&self, outputs: &[Vec<u8>]) -> String {
        let first = outputs.first().map(|path| text::clean(path, self.unicode)).unwrap_or_default();
        match outputs.len() {
            0 | 1 => first,
            more => format!("{first} (and {} more)", more - 1),
        }
    }

    /// Formats the failures; `unbuilt` of `total` commands did not run.
    pub(super) fn text(&self, total: usize, unbuilt: usize, color: bool) -> String {
        let (red, plain) = if color { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let mut out = format!("\n{red}{} of {total} failed{plain}", self.all.len());
        if unbuilt > 0 {
            put(&mut out, format_args!(", {unbuilt} not built"));
        }
        out.push('\n');
        for failure in self.all.iter().take(MOST_FAILURES) {
            put(&mut out, format_args!("  {}: {}\n", failure.name, failure.how));
            let mut skipped = failure.skipped.join(", ");
            if failure.skipped_more > 0 {
                put(&mut skipped, format_args!(" and {} more", failure.skipped_more));
            }
            if !skipped.is_empty() {
                put(&mut out, format_args!("    not built because of it: {skipped}\n"));
            }
        }
        if self.all.len() > MOST_FAILURES {
            put(&mut out, format_args!("  and {} more\n", self.all.len() - MOST_FAILURES));
        }
        out
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Dumped(signal) => format!("signal {signal}, core dumped"),
    }
}
