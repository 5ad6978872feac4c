//! The terminal output of ninja, byte for byte.

mod status_line;

use std::io::Write;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::{ExecutedBy, Exit, JobId, JobInfo};
use tanto_exec::schedule::ThrottleReason;

use crate::text::ansi;
use crate::views::messages;
use crate::views::ninja::status_line::StatusLine;
use crate::views::progress::Progress;
use crate::views::status_format::ProgressFormat;
use crate::views::terminal::Terminal;
use crate::views::truncated_output::{FullOutputHint, truncate};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verbosity {
    /// Only output and failures of commands (`--quiet`).
    Quiet,
    /// Progress with descriptions.
    Normal,
    /// Progress with whole commands, one per line (`-v`).
    Verbose,
}

pub struct NinjaConfig {
    /// The program's name, for messages.
    pub program: &'static str,
    pub verbosity: Verbosity,
    pub format: ProgressFormat,
    /// Explain why commands run (`-d explain`).
    pub explain: bool,
    /// Report each reason for throttling once.
    pub holds: bool,
    /// Mark commands that ran in forks.
    pub notes: bool,
    /// The place of truncated output; `None` shows all output, as ninja does.
    pub rest: Option<FullOutputHint>,
    /// Print failures to standard error.
    pub failures_to_err: bool,
    /// Returns the limit of parallel commands, when a build begins; the current rate is an average over as many.
    pub parallelism: Box<dyn Fn() -> usize>,
}

pub struct NinjaView {
    config: NinjaConfig,
    /// Reasons for throttling that were reported.
    held_by: Vec<ThrottleReason>,
    progress: Progress,
    line: StatusLine,
    /// While commands run, text waits for the next `flush`.
    building: bool,
}

impl NinjaView {
    /// Creates a view. `out` should be unbuffered: commands with the console write to the same terminal.
    pub fn new(mut config: NinjaConfig, terminal: Terminal, out: Box<dyn Write>, err: Box<dyn Write>) -> NinjaView {
        // Only a short line can be overwritten.
        let smart = terminal.smart && config.verbosity == Verbosity::Normal;
        config.holds &= config.verbosity != Verbosity::Quiet;
        config.notes &= config.verbosity == Verbosity::Verbose;
        let line = StatusLine::new(Terminal { smart, ..terminal }, out, err);
        NinjaView { config, held_by: Vec::new(), progress: Progress::new(), line, building: false }
    }

    fn started(&mut self, info: &JobInfo, at_ms: i64) {
        self.progress.started(at_ms);
        if info.console || self.line.terminal().smart {
            self.status(info, b"");
        }
        if info.console {
            self.line.lock();
        }
    }

    fn finished(&mut self, job: JobId, info: &JobInfo, times_ms: (i64, i64), exit: Exit, output: &[u8], note: &[u8]) {
        self.progress.finished(job, times_ms.0, times_ms.1);
        if info.console {
            self.line.unlock();
        } else {
            self.status(info, note);
        }
        self.progress.ended();
        if !exit.success() {
            let text = messages::failure(info, exit, self.line.terminal().color);
            if self.config.failures_to_err {
                return self.failure(&text, output);
            }
            self.line.write_on_new_line(&text);
        }
        if !output.is_empty() {
            match &self.config.rest {
                Some(rest) => self.output(&truncate(output, info, rest)),
                None => self.output(output),
            }
        }
    }

    fn status(&mut self, info: &JobInfo, note: &[u8]) {
        let reasons = if self.config.explain { info.why.as_slice() } else { &[] };
        if !reasons.is_empty() {
            self.line.write_on_new_line(b"");
        }
        for why in reasons {
            self.line.error(&messages::message(self.config.program, Level::Explain, why));
        }
        if self.config.verbosity == Verbosity::Quiet {
            return;
        }
        let is_brief = self.config.verbosity == Verbosity::Normal && !info.description.is_empty();
        let text = if is_brief { &info.description } else { &info.command };
        let mut line = self.config.format.line(&mut self.progress, text);
        line.extend_from_slice(note);
        self.line.status(&line);
    }

    fn output(&mut self, output: &[u8]) {
        if self.line.terminal().color {
            self.line.write_on_new_line(output);
        } else {
            self.line.write_on_new_line(b"");
            ansi::strip_to(output, |piece| self.line.write(piece));
        }
    }

    fn failure(&mut self, text: &[u8], output: &[u8]) {
        self.line.write_on_new_line(b"");
        self.line.error(text);
        if self.line.terminal().color {
            self.line.error(output);
        } else {
            ansi::strip_to(output, |piece| self.line.error(piece));
        }
        if output.last().is_some_and(|&last| last != b'\n') {
            self.line.error(b"\n");
        }
    }

    fn held(&mut self, why: ThrottleReason) {
        if self.config.holds && !self.held_by.iter().any(|&shown| shown.same_kind(why)) {
            self.held_by.push(why);
            let text = messages::message(self.config.program, Level::Info, format!("waiting: {why}").as_bytes());
            self.line.write_on_new_line(&text);
        }
    }

    fn notice(&mut self, level: Level, text: &[u8]) {
        let text = messages::message(self.config.program, level, text);
        match level {
            Level::Info => self.line.raw(&text),
            Level::Warning | Level::Error => self.line.error(&text),
            Level::Explain => {
                self.line.write_on_new_line(b"");
                self.line.error(&text);
            }
        }
    }
}

impl View for NinjaView {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Planned { job, expected_ms } => self.progress.planned(job, expected_ms),
            Event::Unplanned { job, .. } => self.progress.unplanned(job),
            Event::BuildStarted { .. } => {
                self.building = true;
                self.progress.build_started((self.config.parallelism)());
            }
            Event::Started { info, at_ms, .. } => self.started(info, at_ms),
            Event::Finished { job, info, start_ms, end_ms, exit, output, executed_by, .. } => {
                let note: &[u8] = match executed_by {
                    ExecutedBy::Fork if self.config.notes => b" (in-process)",
                    ExecutedBy::Checkpoint if self.config.notes => b" (from a checkpoint)",
                    ExecutedBy::Cache if self.config.notes => b" (from cache)",
                    _ => b"",
                };
                self.finished(job, info, (start_ms, end_ms), exit, output, note);
            }
            Event::BuildFinished { .. } => {
                self.building = false;
                self.line.unlock();
                self.line.write_on_new_line(b"");
            }
            Event::Notice { level, text } => self.notice(level, text),
            Event::Terminated { info, termination, .. } => {
                let text = messages::termination(self.config.program, info, termination);
                self.line.write_on_new_line(&text);
            }
            Event::LeftBehind { info, processes, killed, .. } => {
                let text = messages::left_behind(self.config.program, info, processes, killed);
                self.line.write_on_new_line(&text);
            }
            Event::Throttled { reason: why, .. } => why.into_iter().for_each(|why| self.held(why)),
            Event::Sampled { .. }
            | Event::NothingToRun { .. }
            | Event::Skipped { .. }
            | Event::Stage { .. }
            | Event::StateCounts { .. }
            | Event::Printed { .. }
            | Event::Tick { .. } => {}
        }
        if !self.building {
            self.line.flush();
        }
    }

    fn flush(&mut self) {
        self.line.flush();
    }
}
