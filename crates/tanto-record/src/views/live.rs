//! The live view of `tanto build` on a terminal: a region of rows at the bottom that is redrawn, and above it failures,
//! output of commands and messages.

mod follow;
mod pace;
mod page;
mod region;
mod row;
mod summary;
#[cfg(test)]
mod tests;
mod text;

use std::io::Write;
use std::time::Duration;

use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::{Exit, JobId, JobInfo};
use tanto_exec::schedule::ThrottleReason;
use tanto_exec::text::units::short_duration;

use crate::estimates::{TimeLeft, TimeLeftEstimator};
use crate::text::ansi;
use crate::views::messages;
use crate::views::progress::Progress;
use crate::views::status_format::ProgressFormat;
use crate::views::truncated_output::{FullOutputHint, truncate};
use pace::Pace;
use page::{Columns, JobRow, Layout, Totals};
use region::Region;
use summary::Failures;

/// Minimum interval between frames, in milliseconds. Text above the region waits for the next frame. Shorter builds
/// show none.
const FRAME_MS: i64 = 100;
/// Throttling is shown after this time, in milliseconds: most ends sooner.
const THROTTLE_DELAY_MS: i64 = 1000;
/// The row of state counts is shown if there are more rows than this.
const MIN_ROWS_FOR_COUNTS: usize = 2;
/// Columns and rows of a terminal that reports no size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// The command whose output is shown while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Follow {
    /// The longest running one.
    Longest,
    /// The one that makes this file.
    Maker(Vec<u8>),
}

/// Returns columns and rows of the terminal, each 0 if unknown.
pub type Size = Box<dyn Fn() -> Option<(usize, usize)>>;

/// The user's options and the terminal's features.
pub struct LiveConfig {
    /// The program's name, for messages.
    pub program: &'static str,
    /// The format of status lines.
    pub format: ProgressFormat,
    /// The user has set the format: it replaces the numbers beside the bar.
    pub own_format: bool,
    /// Returns the limit of parallel commands, when a build begins.
    pub parallelism: Box<dyn Fn() -> usize>,
    /// The place of truncated output.
    pub rest: FullOutputHint,
    pub color: bool,
    pub unicode: bool,
    pub size: Size,
    /// Returns whether another process group is in the foreground: then only permanent text is written.
    pub in_background: Box<dyn Fn() -> bool>,
}

pub struct LiveView {
    config: LiveConfig,
    follow: Option<Follow>,
    /// Values for `config.format`.
    progress: Progress,
    /// The limit of parallel commands.
    parallelism: usize,
    region: Region,
    err: Box<dyn Write>,
    is_building: bool,
    build: Build,
    now_ms: i64,
    next_frame_ms: i64,
    size: (usize, usize),
}

/// The state of one build. A run can have two: the manifest's build comes first.
#[derive(Default)]
struct Build {
    begun_ms: i64,
    total: usize,
    finished: usize,
    estimator: TimeLeftEstimator,
    pace: Pace,
    columns: Columns,
    /// In order of their start.
    running: Vec<Running>,
    console: Console,
    failures: Failures,
    /// The bar never goes back unless the plan changes.
    done: f64,
    slow: SlowNumbers,
    /// The current reason for throttling, and its start.
    throttle: Option<(ThrottleReason, i64)>,
    /// The number of jobs in each state, for bulk builds.
    state_counts: Vec<(&'static str, usize)>,
}

struct Running {
    job: JobId,
    start_ms: i64,
    /// The last sample of its memory.
    memory_kib: Option<u64>,
    name: String,
    /// The name with its current stage.
    text: String,
    /// The command to follow.
    is_followed: bool,
    /// The last lines of its output, if it is followed.
    printed: Vec<String>,
}

/// The owner of the terminal.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Console {
    #[default]
    Ours,
    /// The next `flush` passes the terminal to this job.
    Promised(JobId),
    Given(JobId),
}

/// Numbers that are updated once per second, to be readable.
#[derive(Default)]
struct SlowNumbers {
    second: Option<i64>,
    rate: f64,
    left_ms: Option<i64>,
}

impl Build {
    fn new(unicode: bool) -> Build {
        Build { failures: Failures::new(unicode), ..Build::default() }
    }

    fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        if self.estimator.has_ended(job) {
            self.finished -= 1;
            self.failures.forget(job);
        } else {
            self.total += 1;
        }
        self.done = 0.0;
        self.columns.longest_ms = self.columns.longest_ms.max(expected_ms);
        self.estimator.planned(job, expected_ms);
    }

    fn unplanned(&mut self, job: JobId) {
        self.total -= 1;
        self.estimator.unplanned(job);
    }

    fn finished(&mut self, job: JobId, start_ms: i64, end_ms: i64) {
        self.finished += 1;
        self.estimator.finished(job, end_ms - start_ms);
        self.pace.ended(end_ms - self.begun_ms);
        self.running.retain(|it| it.job != job);
    }

    fn stage(&mut self, job: JobId, stage: &str) {
        if let Some(running) = self.running.iter_mut().find(|it| it.job == job) {
            running.text = format!("{}: {stage}", running.name);
        }
    }

    fn sampled(&mut self, job: JobId, memory_kib: u64) {
        self.columns.memory = true;
        if let Some(running) = self.running.iter_mut().find(|it| it.job == job) {
            running.memory_kib = Some(memory_kib);
        }
    }

    fn outlook(&mut self, now_ms: i64, parallelism: usize) -> TimeLeft {
        let passed_ms = now_ms - self.begun_ms;
        let running = self.running.iter().map(|it| (it.job, now_ms - it.start_ms));
        let time_left = self.estimator.estimate(passed_ms, running, parallelism);
        self.done = self.done.max(time_left.done);
        let second = Some(passed_ms / 1000);
        if self.slow.second != second {
            self.slow = SlowNumbers { second, rate: self.pace.rate(passed_ms), left_ms: time_left.left_ms };
        }
        TimeLeft { done: self.done, left_ms: self.slow.left_ms, ..time_left }
    }
}

impl LiveView {
    /// Creates a view. `out` should be unbuffered, so that a frame is one write.
    pub fn new(config: LiveConfig, out: Box<dyn Write>, err: Box<dyn Write>) -> LiveView {
        LiveView {
            follow: None,
            progress: Progress::new(),
            parallelism: 1,
            region: Region::new(out),
            err,
            is_building: false,
            build: Build::new(config.unicode),
            now_ms: 0,
            next_frame_ms: 0,
            size: DEFAULT_SIZE,
            config,
        }
    }

    /// Shows the output of this command from now on.
    pub fn follow(&mut self, follow: Follow) {
        self.follow = Some(follow);
    }

    /// Erases the rows before the program is stopped; the next frame redraws them.
    pub fn hide(&mut self) {
        self.clear();
        self.region.others_wrote();
    }

    fn started(&mut self, job: JobId, info: &JobInfo, at_ms: i64) {
        self.now_ms = at_ms;
        self.progress.started(at_ms);
        let shown = if info.description.is_empty() { &info.command } else { &info.description };
        let text = text::clean(shown, self.config.unicode);
        self.build.estimator.started(job);
        self.build.running.push(Running {
            job,
            start_ms: at_ms,
            memory_kib: None,
            name: text.clone(),
            text,
            is_followed: matches!(&self.follow, Some(Follow::Maker(path)) if info.outputs.contains(path)),
            printed: Vec::new(),
        });
        if info.console {
            self.status(info);
            self.build.console = Console::Promised(job);
        }
    }

    fn finished(&mut self, job: JobId, info: &JobInfo, times_ms: (i64, i64), exit: Exit, output: &[u8]) {
        let (start_ms, end_ms) = times_ms;
        self.now_ms = end_ms;
        self.progress.finished(job, start_ms, end_ms);
        self.build.finished(job, start_ms, end_ms);
        let has_text = !exit.success() || !output.is_empty();
        match self.build.console {
            Console::Promised(owner) | Console::Given(owner) if owner == job => self.take_console_back(),
            _ if has_text => self.status(info),
            _ => {}
        }
        self.progress.ended();
        if !exit.success() {
            self.build.failures.failed(job, info, exit);
            self.region.push_above(&messages::failure(info, exit, self.config.color));
        }
        if !output.is_empty() {
            self.output(&truncate(output, info, &self.config.rest));
        }
    }

    fn take_console_back(&mut self) {
        self.build.console = Console::Ours;
        self.region.others_wrote();
    }

    /// Prints the status line of a command, as ninja does.
    fn status(&mut self, info: &JobInfo) {
        let text = if info.description.is_empty() { &info.command } else { &info.description };
        let line = text::clean(&self.config.format.line(&mut self.progress, text), self.config.unicode);
        let dots = if self.config.unicode { "…" } else { "..." };
        self.region.push_above(text::fit(&line, self.size.0.saturating_sub(1), dots).as_bytes());
    }

    fn output(&mut self, output: &[u8]) {
        if !self.config.color {
            return self.region.push_above(&ansi::strip(output));
        }
        self.region.push_above(output);
        if output.contains(&0x1b) {
            self.region.reset_colors();
        }
    }

    fn notice(&mut self, level: Level, text: &[u8]) {
        let text = messages::message(self.config.program, level, text);
        if level == Level::Info {
            return self.region.push_above(&text);
        }
        if self.build.console == Console::Ours {
            self.clear();
        }
        let _ = self.err.write_all(&text);
    }

    fn build_finished(&mut self, at_ms: i64) {
        self.now_ms = at_ms;
        if self.build.console != Console::Ours {
            self.take_console_back();
        }
        self.is_building = false;
        let build = std::mem::replace(&mut self.build, Build::new(self.config.unicode));
        if build.failures.count() > 0 {
            let unbuilt = build.total - build.finished + build.estimator.not_run;
            self.region.push_above(
                build.failures.text(build.total + build.estimator.not_run, unbuilt, self.config.color).as_bytes(),
            );
        } else if build.finished == build.total && build.finished > 0 {
            let commands = if build.total == 1 { "command" } else { "commands" };
            let took = short_duration(at_ms - build.begun_ms);
            let text = format!("done: {} {commands} in {took}.", build.total);
            self.notice(Level::Info, text.as_bytes());
        }
    }

    fn terminal_size(&self) -> (usize, usize) {
        let (columns, rows) = (self.config.size)().unwrap_or_default();
        (if columns == 0 { DEFAULT_SIZE.0 } else { columns }, if rows == 0 { DEFAULT_SIZE.1 } else { rows })
    }

    fn clear(&mut self) {
        let width = self.terminal_size().0;
        self.region.clear(width);
    }

    fn frame(&mut self) {
        let size = self.terminal_size();
        let anew = std::mem::replace(&mut self.size, size) != size;
        let LiveConfig { color, unicode, .. } = self.config;
        let layout = Layout { columns: size.0, rows: size.1, color, unicode };
        if (self.config.in_background)() {
            self.region.clear(size.0);
        } else {
            let rows = self.rows(layout);
            self.region.draw(rows, size.0, anew);
        }
        self.next_frame_ms = self.now_ms + FRAME_MS;
    }

    fn rows(&mut self, layout: Layout) -> Vec<String> {
        let time_left = self.build.outlook(self.now_ms, self.parallelism);
        let status = self.config.own_format.then(|| {
            self.progress.time_is(self.now_ms);
            text::clean(&self.config.format.line(&mut self.progress, b""), layout.unicode)
        });
        let build = &self.build;
        let totals = Totals {
            finished: build.finished,
            total: build.total,
            failed: build.failures.count(),
            rate: build.slow.rate,
            passed_ms: self.now_ms - build.begun_ms,
            time_left,
            status: status.as_deref().map(str::trim),
        };
        let throttle =
            build.throttle.filter(|&(_, since_ms)| layout.room() > 0 && self.now_ms - since_ms >= THROTTLE_DELAY_MS);
        let state_counts =
            (layout.room() > MIN_ROWS_FOR_COUNTS && !build.state_counts.is_empty()).then_some(&build.state_counts);
        let room = layout.room() - usize::from(throttle.is_some()) - usize::from(state_counts.is_some());
        let followed = self.followed();
        let lines = followed.map_or(0, |at| build.running[at].printed.len().min(room.saturating_sub(1) / 2));
        let room = room - lines;
        let shown = if build.running.len() > room { room.saturating_sub(1) } else { build.running.len() };
        let hidden = if room > 0 { build.running.len() - shown } else { 0 };
        let jobs = follow::shown(build.running.len(), shown, followed).map(|at| {
            let lines = if followed == Some(at) { lines } else { 0 };
            self.job(&build.running[at], lines)
        });
        let jobs: Vec<JobRow<'_>> = jobs.collect();
        let mut rows = vec![page::head(layout, &totals)];
        rows.extend(state_counts.map(|counts| page::state_counts(layout, counts)));
        rows.extend(page::jobs(layout, &jobs, hidden, build.columns));
        rows.extend(throttle.map(|(why, _)| page::throttle(layout, &format!("waiting: {why}"))));
        rows
    }

    /// `lines` is the number of output lines shown.
    fn job<'a>(&'a self, it: &'a Running, lines: usize) -> JobRow<'a> {
        JobRow {
            for_ms: self.now_ms - it.start_ms,
            expected_ms: self.build.estimator.expected(it.job),
            memory_kib: it.memory_kib,
            text: &it.text,
            printed: &it.printed[it.printed.len() - lines..],
        }
    }

    /// Returns the index of the followed command in `running`.
    fn followed(&self) -> Option<usize> {
        match self.follow.as_ref()? {
            Follow::Longest => (!self.build.running.is_empty()).then_some(0),
            Follow::Maker(_) => self.build.running.iter().position(|it| it.is_followed),
        }
    }
}

impl View for LiveView {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Planned { job, expected_ms } => {
                self.progress.planned(job, expected_ms);
                self.build.planned(job, expected_ms);
            }
            Event::Unplanned { job, .. } => {
                self.progress.unplanned(job);
                self.build.unplanned(job);
            }
            Event::BuildStarted { at_ms, downstream_ms } => {
                self.build.estimator.build_started(downstream_ms);
                self.is_building = true;
                self.parallelism = (self.config.parallelism)();
                self.progress.build_started(self.parallelism);
                self.build.begun_ms = at_ms;
                (self.now_ms, self.next_frame_ms) = (at_ms, at_ms + FRAME_MS);
                self.size = self.terminal_size();
            }
            Event::Started { job, info, at_ms } => self.started(job, info, at_ms),
            Event::Finished { job, info, start_ms, end_ms, exit, output, .. } => {
                self.finished(job, info, (start_ms, end_ms), exit, output);
            }
            Event::Skipped { job, outputs, because } => {
                self.build.estimator.skipped(job);
                self.build.failures.skipped(outputs, because);
            }
            Event::Stage { job, stage, at_ms } => {
                self.now_ms = at_ms;
                self.build.stage(job, stage);
            }
            Event::StateCounts { counts, at_ms } => {
                self.now_ms = at_ms;
                self.build.state_counts = counts.to_vec();
            }
            Event::BuildFinished { at_ms } => self.build_finished(at_ms),
            Event::Notice { level, text } => self.notice(level, text),
            Event::Tick { at_ms } => {
                self.now_ms = at_ms;
                self.flush();
            }
            Event::Terminated { info, termination, .. } => {
                self.region.push_above(&messages::termination(self.config.program, info, termination));
            }
            Event::LeftBehind { info, processes, killed, .. } => {
                self.region.push_above(&messages::left_behind(self.config.program, info, processes, killed));
            }
            Event::Sampled { job, at_ms, sample } => {
                self.now_ms = at_ms;
                self.build.sampled(job, sample.memory_kib);
            }
            Event::Throttled { reason: why, at_ms } => {
                self.now_ms = at_ms;
                self.build.throttle = why.map(|why| (why, at_ms));
            }
            Event::Printed { job, at_ms, output } => {
                self.now_ms = at_ms;
                if let Some(running) = self.build.running.iter_mut().find(|it| it.job == job) {
                    running.printed = follow::last_lines(output, self.config.unicode);
                }
            }
            Event::NothingToRun { .. } => {}
        }
        if !self.is_building {
            self.flush();
        }
    }

    fn flush(&mut self) {
        match self.build.console {
            Console::Given(_) => {}
            Console::Promised(job) => {
                self.build.console = Console::Given(job);
                self.clear();
            }
            Console::Ours if !self.is_building => self.clear(),
            Console::Ours if self.now_ms >= self.next_frame_ms => self.frame(),
            Console::Ours => {}
        }
    }

    fn followed_job(&self) -> Option<JobId> {
        self.followed().filter(|_| self.build.console == Console::Ours).map(|at| self.build.running[at].job)
    }

    fn tick_interval(&self) -> Option<Duration> {
        let has_console = self.build.console == Console::Ours;
        (self.is_building && has_console).then(|| Duration::from_millis(FRAME_MS as u64))
    }
}
