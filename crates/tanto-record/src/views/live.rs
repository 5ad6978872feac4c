//! What `tanto build` shows on a terminal: a few rows at the bottom that are written over and over, and above them what
//! is to stay: failures, what commands print, messages. Does not know how commands run, or why.

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

use crate::estimates::time_left::{Outlook, Work};
use crate::text::ansi;
use crate::views::messages;
use crate::views::progress::Progress;
use crate::views::status_format::ProgressFormat;
use crate::views::truncated_output::{FullOutputHint, truncate};
use pace::Pace;
use page::{Job, Known, Sheet, Whole};
use region::Region;
use summary::Failures;

/// Frames are at least so far apart, in milliseconds; what goes above them waits for the next one, so that the terminal
/// is written to no more often. A build that is shorter shows none.
const FRAME_MS: i64 = 100;
/// What holds commands back is shown once it has for so long, in milliseconds: mostly it is over sooner.
const HOLD_MS: i64 = 1000;
/// With no more rows than this for commands, none says how many are in which state.
const MOST_WITHOUT: usize = 2;
/// A terminal that does not know its size is taken to have so many columns and rows.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The command whose output is shown while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Follow {
    /// The one that has run longest.
    Longest,
    /// The one that makes this file.
    Maker(Vec<u8>),
}

/// The size of the terminal in columns and rows at this moment, if it can be had; 0 for what it does not know.
pub type Size = Box<dyn Fn() -> Option<(usize, usize)>>;

/// What the user asked for, and what the terminal can do.
pub struct LiveConfig {
    /// What stands before each message: the name that the program goes by.
    pub program: &'static str,
    /// What stands before the description of a command that printed something, or failed.
    pub format: ProgressFormat,
    /// The format is the user's own: it stands beside the bar too, in place of our numbers.
    pub own_format: bool,
    /// Says how many commands run at a time at most, when a build begins.
    pub parallelism: Box<dyn Fn() -> usize>,
    /// Where the rest of output is that is too long for a terminal.
    pub rest: FullOutputHint,
    /// Colours are wanted.
    pub color: bool,
    /// The terminal shows Unicode.
    pub unicode: bool,
    /// How large the terminal is.
    pub size: Size,
    /// Somebody else has the terminal's foreground at this moment: only what stays is written.
    pub in_background: Box<dyn Fn() -> bool>,
}

/// The live view of a terminal.
pub struct LiveView {
    config: LiveConfig,
    /// Whose output is shown while it runs, if any.
    follow: Option<Follow>,
    /// The numbers of `config.format`.
    progress: Progress,
    /// So many commands run at a time.
    parallelism: usize,
    region: Region,
    err: Box<dyn Write>,
    is_building: bool,
    build: Build,
    now_ms: i64,
    next_frame_ms: i64,
    size: (usize, usize),
}

/// One build of those that a run may have: that of the manifest itself comes before the other.
struct Build {
    begun_ms: i64,
    total: usize,
    finished: usize,
    work: Work,
    pace: Pace,
    known: Known,
    /// In the order of their start.
    running: Vec<Running>,
    console: Console,
    failures: Failures,
    /// The bar never goes back while the plan is the same.
    done: f64,
    slow: Slow,
    /// Why nothing more is started, and since when.
    hold: Option<(ThrottleReason, i64)>,
    /// How many jobs are in each state, where there are such.
    standing: Vec<(&'static str, usize)>,
}

struct Running {
    job: JobId,
    start_ms: i64,
    /// What its processes had when somebody last looked.
    memory_kib: Option<u64>,
    name: String,
    /// The name, and behind it the stage that it has come to, if it has some.
    text: String,
    /// It is the command to follow, whatever else runs.
    is_followed: bool,
    /// The last lines that it has printed, if it is followed.
    printed: Vec<String>,
}

/// Who has the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Console {
    Ours,
    /// This job is about to get it: the next `flush` hands it over.
    Promised(JobId),
    Given(JobId),
}

/// Numbers that change once in a second, so that they can be read.
#[derive(Default)]
struct Slow {
    second: Option<i64>,
    rate: f64,
    left_ms: Option<i64>,
}

impl Build {
    fn new(unicode: bool) -> Build {
        Build {
            begun_ms: 0,
            total: 0,
            finished: 0,
            work: Work::default(),
            pace: Pace::default(),
            known: Known::default(),
            running: Vec::new(),
            console: Console::Ours,
            failures: Failures::new(unicode),
            done: 0.0,
            slow: Slow::default(),
            hold: None,
            standing: Vec::new(),
        }
    }

    fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        if self.work.has_ended(job) {
            self.finished -= 1;
            self.failures.forget(job);
        } else {
            self.total += 1;
        }
        self.done = 0.0;
        self.known.longest_ms = self.known.longest_ms.max(expected_ms);
        self.work.planned(job, expected_ms);
    }

    fn unplanned(&mut self, job: JobId) {
        self.total -= 1;
        self.work.unplanned(job);
    }

    fn finished(&mut self, job: JobId, start_ms: i64, end_ms: i64) {
        self.finished += 1;
        self.work.finished(job, end_ms - start_ms);
        self.pace.ended(end_ms - self.begun_ms);
        self.running.retain(|it| it.job != job);
    }

    fn stage(&mut self, job: JobId, stage: &str) {
        if let Some(running) = self.running.iter_mut().find(|it| it.job == job) {
            running.text = format!("{}: {stage}", running.name);
        }
    }

    fn looked(&mut self, job: JobId, memory_kib: u64) {
        self.known.memory = true;
        if let Some(running) = self.running.iter_mut().find(|it| it.job == job) {
            running.memory_kib = Some(memory_kib);
        }
    }

    fn outlook(&mut self, now_ms: i64, parallelism: usize) -> Outlook {
        let passed_ms = now_ms - self.begun_ms;
        let running = self.running.iter().map(|it| (it.job, now_ms - it.start_ms));
        let outlook = self.work.outlook(passed_ms, running, parallelism);
        self.done = self.done.max(outlook.done);
        let second = Some(passed_ms / 1000);
        if self.slow.second != second {
            self.slow = Slow { second, rate: self.pace.rate(passed_ms), left_ms: outlook.left_ms };
        }
        Outlook { done: self.done, left_ms: self.slow.left_ms }
    }
}

impl LiveView {
    /// A view on a terminal, and on standard error. `out` should hold nothing back, or a frame is written in pieces.
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
            size: USUAL_SIZE,
            config,
        }
    }

    /// From now on shows the output of this command.
    pub fn follow(&mut self, follow: Follow) {
        self.follow = Some(follow);
    }

    /// Takes the rows away, because the program is about to be halted; they come back with the next frame.
    pub fn hide(&mut self) {
        self.clear();
        self.region.others_wrote();
    }

    fn started(&mut self, job: JobId, info: &JobInfo, at_ms: i64) {
        self.now_ms = at_ms;
        self.progress.started(at_ms);
        let shown = if info.description.is_empty() { &info.command } else { &info.description };
        let text = text::clean(shown, self.config.unicode);
        self.build.work.started(job);
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
            self.region.above(&messages::failure(info, exit, self.config.color));
        }
        if !output.is_empty() {
            self.output(&truncate(output, info, &self.config.rest));
        }
    }

    fn take_console_back(&mut self) {
        self.build.console = Console::Ours;
        self.region.others_wrote();
    }

    /// The line of a command that has something to say, as ninja shows it.
    fn status(&mut self, info: &JobInfo) {
        let text = if info.description.is_empty() { &info.command } else { &info.description };
        let line = text::clean(&self.config.format.line(&mut self.progress, text), self.config.unicode);
        let dots = if self.config.unicode { "…" } else { "..." };
        self.region.above(text::fit(&line, self.size.0.saturating_sub(1), dots).as_bytes());
    }

    fn output(&mut self, output: &[u8]) {
        if !self.config.color {
            return self.region.above(&ansi::strip(output));
        }
        self.region.above(output);
        if output.contains(&0x1b) {
            self.region.plain();
        }
    }

    fn notice(&mut self, level: Level, text: &[u8]) {
        let text = messages::message(self.config.program, level, text);
        if level == Level::Info {
            return self.region.above(&text);
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
            let unbuilt = build.total - build.finished + build.work.missed;
            self.region
                .above(build.failures.text(build.total + build.work.missed, unbuilt, self.config.color).as_bytes());
        } else if build.finished == build.total && build.finished > 0 {
            let commands = if build.total == 1 { "command" } else { "commands" };
            let took = short_duration(at_ms - build.begun_ms);
            let text = format!("done: {} {commands} in {took}.", build.total);
            self.notice(Level::Info, text.as_bytes());
        }
    }

    fn terminal_size(&self) -> (usize, usize) {
        let (columns, rows) = (self.config.size)().unwrap_or_default();
        (if columns == 0 { USUAL_SIZE.0 } else { columns }, if rows == 0 { USUAL_SIZE.1 } else { rows })
    }

    fn clear(&mut self) {
        let width = self.terminal_size().0;
        self.region.clear(width);
    }

    fn frame(&mut self) {
        let size = self.terminal_size();
        let anew = std::mem::replace(&mut self.size, size) != size;
        let LiveConfig { color, unicode, .. } = self.config;
        let sheet = Sheet { columns: size.0, rows: size.1, color, unicode };
        if (self.config.in_background)() {
            self.region.clear(size.0);
        } else {
            let rows = self.rows(sheet);
            self.region.draw(rows, size.0, anew);
        }
        self.next_frame_ms = self.now_ms + FRAME_MS;
    }

    fn rows(&mut self, sheet: Sheet) -> Vec<String> {
        let outlook = self.build.outlook(self.now_ms, self.parallelism);
        let status = self.config.own_format.then(|| {
            self.progress.time_is(self.now_ms);
            text::clean(&self.config.format.line(&mut self.progress, b""), sheet.unicode)
        });
        let build = &self.build;
        let whole = Whole {
            finished: build.finished,
            total: build.total,
            failed: build.failures.count(),
            rate: build.slow.rate,
            passed_ms: self.now_ms - build.begun_ms,
            outlook,
            status: status.as_deref().map(str::trim),
        };
        let hold = build.hold.filter(|&(_, since_ms)| sheet.room() > 0 && self.now_ms - since_ms >= HOLD_MS);
        let standing = (sheet.room() > MOST_WITHOUT && !build.standing.is_empty()).then_some(&build.standing);
        let room = sheet.room() - usize::from(hold.is_some()) - usize::from(standing.is_some());
        let followed = self.followed();
        let lines = followed.map_or(0, |at| build.running[at].printed.len().min(room.saturating_sub(1) / 2));
        let room = room - lines;
        let shown = if build.running.len() > room { room.saturating_sub(1) } else { build.running.len() };
        let hidden = if room > 0 { build.running.len() - shown } else { 0 };
        let jobs = follow::shown(build.running.len(), shown, followed).map(|at| {
            let lines = if followed == Some(at) { lines } else { 0 };
            self.job(&build.running[at], lines)
        });
        let jobs: Vec<Job<'_>> = jobs.collect();
        let mut rows = vec![page::head(sheet, &whole)];
        rows.extend(standing.map(|counts| page::standing(sheet, counts)));
        rows.extend(page::jobs(sheet, &jobs, hidden, build.known));
        rows.extend(hold.map(|(why, _)| page::hold(sheet, &format!("waiting: {why}"))));
        rows
    }

    /// `lines` is how many of the lines that it has printed are shown.
    fn job<'a>(&'a self, it: &'a Running, lines: usize) -> Job<'a> {
        Job {
            for_ms: self.now_ms - it.start_ms,
            expected_ms: self.build.work.expected(it.job),
            memory_kib: it.memory_kib,
            text: &it.text,
            printed: &it.printed[it.printed.len() - lines..],
        }
    }

    /// The place in `running` of the command whose output is shown.
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
                self.build.work.began(downstream_ms);
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
                self.build.work.skipped(job);
                self.build.failures.skipped(outputs, because);
            }
            Event::Stage { job, stage, at_ms } => {
                self.now_ms = at_ms;
                self.build.stage(job, stage);
            }
            Event::StateCounts { counts, at_ms } => {
                self.now_ms = at_ms;
                self.build.standing = counts.to_vec();
            }
            Event::BuildFinished { at_ms } => self.build_finished(at_ms),
            Event::Notice { level, text } => self.notice(level, text),
            Event::Tick { at_ms } => {
                self.now_ms = at_ms;
                self.flush();
            }
            Event::Terminated { info, termination, .. } => {
                self.region.above(&messages::termination(self.config.program, info, termination));
            }
            Event::LeftBehind { info, processes, killed, .. } => {
                self.region.above(&messages::left_behind(self.config.program, info, processes, killed));
            }
            Event::Sampled { job, at_ms, sample } => {
                self.now_ms = at_ms;
                self.build.looked(job, sample.memory_kib);
            }
            Event::Throttled { reason: why, at_ms } => {
                self.now_ms = at_ms;
                self.build.hold = why.map(|why| (why, at_ms));
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
