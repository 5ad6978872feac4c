//! Timings of a build: commands by lane, parallelism, slowest commands, and a comparison with an earlier build.

use std::collections::HashMap;

use tanto_exec::job::ExecutedBy;

use super::lanes::{Lanes, end_ms, lanes};
use super::problems::{self, Idle};
use super::{began, build_result, command_kind, exit_text, targets_text};
use crate::json::{Object, integer, list, string};
use crate::jsonl;
use crate::session::{Pause, Session, SessionJob};
use crate::text::ansi;
use tanto_exec::text::table::Table;
use tanto_exec::text::units::{duration, memory};

/// Limit of commands in each section of the text.
const SHOWN: usize = 20;

/// Bytes of a failed command's output in reports, from its end.
const SHOWN_OUTPUT: usize = 8 << 10;

/// Number of intervals for values over time.
const PARTS: usize = 600;

pub struct Timings<'s> {
    name: &'s str,
    session: &'s Session,
    lanes: Lanes,
    /// Indices of jobs, and the duration of their chain.
    critical: (Vec<usize>, i64),
    kinds: Vec<Kind>,
    /// Indices of commands, the longest first.
    slowest: Vec<usize>,
    earlier: Option<Earlier<'s>>,
    starts: Vec<ProgramStarts>,
}

/// Commands of the same kind.
struct Kind {
    name: Vec<u8>,
    count: usize,
    /// Commands that did not end. Their processor time is unknown.
    unfinished: usize,
    wall_ms: i64,
    cpu_ms: i64,
}

/// How often commands started a program, and the estimated cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramStarts {
    pub program: Vec<u8>,
    /// Commands that started it as a process.
    pub started: u64,
    /// Commands that ran in forks instead.
    pub avoided: u64,
    /// Processor time of one start in microseconds.
    pub each_us: u64,
}

/// An earlier build to compare with.
struct Earlier<'s> {
    name: &'s str,
    session: &'s Session,
    /// By index: the earlier duration of the same command, in milliseconds.
    wall_ms: HashMap<usize, i64>,
}

/// Averages over an interval.
#[derive(Clone, Copy, Default)]
struct Part {
    running: f64,
    cpu: f64,
}

impl<'s> Timings<'s> {
    /// Measures a session, and compares it with an earlier one.
    pub fn new(name: &'s str, session: &'s Session, earlier: Option<(&'s str, &'s Session)>) -> Timings<'s> {
        let mut slowest: Vec<usize> = (0..session.jobs.len()).filter(|&at| !session.jobs[at].is_group).collect();
        slowest.sort_by_key(|&at| (std::cmp::Reverse(wall_ms(session, at)), at));
        Timings {
            name,
            session,
            lanes: lanes(session),
            critical: critical_path(session),
            kinds: kinds(session),
            slowest,
            earlier: earlier.map(|(name, other)| Earlier { name, session: other, wall_ms: same(session, other) }),
            starts: Vec::new(),
        }
    }

    /// Adds the programs that commands started.
    pub fn with_starts(self, mut starts: Vec<ProgramStarts>) -> Timings<'s> {
        starts.sort_by(|a, b| b.cost_us().cmp(&a.cost_us()).then_with(|| a.program.cmp(&b.program)));
        Timings { starts, ..self }
    }

    fn wall_ms(&self) -> i64 {
        self.session.end_ms() - self.session.started_ms
    }

    fn sum(&self, of: impl Fn(&SessionJob) -> i64) -> i64 {
        self.session.commands().map(of).fold(0, i64::saturating_add)
    }

    /// Formats the report for a terminal.
    pub fn text(&self) -> Vec<u8> {
        let (path, total) = &self.critical;
        let mut longest: Vec<usize> = path.clone();
        longest.sort_by_key(|&at| std::cmp::Reverse(wall_ms(self.session, at)));
        longest.truncate(SHOWN);
        longest.sort_unstable();
        let critical = format!("Critical path: {} in {} commands", duration(*total), path.len());
        [
            self.summary(),
            section("Slowest commands", &self.commands(self.slowest.iter().take(SHOWN))),
            section("By kind", &self.kinds_text()),
            section(&critical, &self.commands(longest.iter())),
            self.starts_text(),
            self.problems_text(),
            self.throttling_text(),
            self.earlier.as_ref().map(|earlier| self.changes_text(earlier)).unwrap_or_default(),
        ]
        .concat()
    }

    fn summary(&self) -> Vec<u8> {
        let (wall, busy, cpu) = (self.wall_ms(), self.sum(SessionJob::wall_ms), self.sum(SessionJob::cpu_ms));
        let mean = |sum: i64| format!("{:.2}", sum as f64 / wall.max(1) as f64);
        let limit = match self.session.head.parallelism {
            0 => "no limit".to_owned(),
            limit => limit.to_string(),
        };
        let mut table = Table::new(&[]);
        table.row([b"session", self.name.as_bytes()]);
        table.row([b"began", format!("{} (UTC)", began(self.session)).as_bytes()]);
        table.row([b"of", &targets_text(self.session)]);
        table.row([b"result", build_result(self.session).describe().as_bytes()]);
        table.row([b"commands", self.session.commands().count().to_string().as_bytes()]);
        let by =
            |executed_by: ExecutedBy| self.session.commands().filter(|job| job.executed_by() == executed_by).count();
        let (from_checkpoint, from_cache) = (by(ExecutedBy::Checkpoint), by(ExecutedBy::Cache));
        if by(ExecutedBy::Fork) + from_checkpoint + from_cache > 0 {
            let (processes, forks) = (by(ExecutedBy::Process), by(ExecutedBy::Fork));
            let mut text = format!("{processes} as processes, {forks} in forks, {from_checkpoint} from checkpoints");
            if from_cache > 0 {
                text += &format!(", {from_cache} from the cache");
            }
            table.row([b"executed", text.as_bytes()]);
        }
        table.row([b"time", duration(wall).as_bytes()]);
        table.row([b"at a time", format!("{} of {limit}, on average", mean(busy)).as_bytes()]);
        let processors = self.session.head.processors;
        table.row([b"processors", format!("{} of {processors}, on average", mean(cpu)).as_bytes()]);
        table.text()
    }

    fn commands<'t>(&self, places: impl Iterator<Item = &'t usize>) -> Vec<u8> {
        let mut table = Table::new(&[0, 1, 2, 3]);
        table.row([b"TIME", b"CPU", b"MEMORY", b"EXPECTED", b"COMMAND"]);
        for place in places {
            let job = &self.session.jobs[*place];
            let rss = job.end.as_ref().map_or(0, |end| end.usage.max_rss_kib);
            // Only the duration so far is known of a command that did not end.
            let (so_far, cpu) = if job.end.is_some() { ("", duration(job.cpu_ms())) } else { (" so far", "?".into()) };
            table.row([
                format!("{}{so_far}", duration(wall_ms(self.session, *place))).as_bytes(),
                cpu.as_bytes(),
                memory(rss).as_bytes(),
                job.expected_ms.map(duration).unwrap_or_default().as_bytes(),
                job.title(),
            ]);
        }
        table.text()
    }

    fn kinds_text(&self) -> Vec<u8> {
        let mut table = Table::new(&[0, 1, 2]);
        table.row([b"TIME", b"CPU", b"COUNT", b"KIND"]);
        for kind in self.kinds.iter().take(SHOWN) {
            let count = kind.count.to_string();
            let cpu = kind.known_cpu_ms().map_or("?".into(), duration);
            table.row([duration(kind.wall_ms).as_bytes(), cpu.as_bytes(), count.as_bytes(), &kind.name]);
        }
        table.text()
    }

    /// Returns the estimated processor time of starting programs, and the part that forks saved, in
    /// microseconds.
    fn starting_us(&self) -> (u64, u64) {
        let sum = |of: fn(&ProgramStarts) -> u64| self.starts.iter().map(of).fold(0, u64::saturating_add);
        (sum(ProgramStarts::cost_us), sum(ProgramStarts::saved_us))
    }

    /// Empty if no program was measured.
    fn starts_text(&self) -> Vec<u8> {
        if self.starts.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(&[0, 1, 2]);
        table.row([b"CPU", b"EACH", b"STARTS", b"PROGRAM"]);
        for it in self.starts.iter().take(SHOWN) {
            let (cost, each) = (small_time(it.cost_us()), small_time(it.each_us));
            table.row([cost.as_bytes(), each.as_bytes(), it.started.to_string().as_bytes(), &it.program]);
        }
        let ((cost, saved), cpu_ms) = (self.starting_us(), self.sum(SessionJob::cpu_ms));
        let share = cost as f64 / 10.0 / cpu_ms.max(1) as f64;
        let saved = match saved {
            0 => String::new(),
            saved => format!(" Forks saved {}.", small_time(saved)),
        };
        let head = format!(
            "\nStarting programs: an estimated {} of processor time, {share:.1} % of all.{saved}\n\
             (Loading and relocating each program, as measured now. Processes that programs start themselves are not counted.)\n\n",
            small_time(cost)
        );
        [head.as_bytes(), &table.text()].concat()
    }

    /// Formats problems of commands, if any.
    fn problems_text(&self) -> Vec<u8> {
        let mut table = Table::new(&[0]);
        for (at, job) in self.session.jobs.iter().enumerate() {
            for problem in problems::of_job(job) {
                table.row([duration(wall_ms(self.session, at)).as_bytes(), job.title(), &problem]);
            }
        }
        section("Ended, or left behind", &table.text())
    }

    /// Formats throttling, if any.
    fn throttling_text(&self) -> Vec<u8> {
        let held = problems::held(self.session);
        if held.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(&[0, 1, 2]);
        table.row([b"TIME", b"IDLE SLOTS", b"TIMES", b"WHY"]);
        for it in held {
            let idle = it.idle_ms.map(duration).unwrap_or_default();
            let times = it.times.to_string();
            table.row([duration(it.wall_ms).as_bytes(), idle.as_bytes(), times.as_bytes(), it.why.as_bytes()]);
        }
        section("Nothing more was started", &table.text())
    }

    fn changes_text(&self, earlier: &Earlier<'_>) -> Vec<u8> {
        let then = earlier.session.end_ms() - earlier.session.started_ms;
        let (name, common) = (earlier.name, earlier.wall_ms.len());
        let head = format!("\nAgainst {name}, which took {}: {common} commands in both\n\n", duration(then));
        let mut table = Table::new(&[0, 1, 2]);
        table.row([b"NOW", b"THEN", b"CHANGE", b"COMMAND"]);
        for (place, now, then) in self.changes(earlier).into_iter().take(SHOWN) {
            let change = format!("{:+.1} s", (now - then) as f64 / 1000.0);
            let title = self.session.jobs[place].title();
            table.row([duration(now).as_bytes(), duration(then).as_bytes(), change.as_bytes(), title]);
        }
        [head.as_bytes(), &table.text()].concat()
    }

    /// Index, current and earlier duration; the largest changes first.
    fn changes(&self, earlier: &Earlier<'_>) -> Vec<(usize, i64, i64)> {
        let now = |&place: &usize| wall_ms(self.session, place);
        let mut changes: Vec<_> = earlier.wall_ms.iter().map(|(place, then)| (*place, now(place), *then)).collect();
        changes.sort_by_key(|&(place, now, then)| (std::cmp::Reverse((now - then).abs()), place));
        changes
    }

    /// Formats the report as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        let session = self.session;
        object.text("session", self.name.as_bytes());
        object.number("began_unix_ms", session.head.began_unix_ms.saturating_add(session.started_ms));
        object.text("dir", &session.head.dir);
        object.texts("targets", &session.head.targets);
        object.text("result", build_result(session).describe().as_bytes());
        object.number("parallelism", session.head.parallelism);
        object.number("processors", session.head.processors);
        object.number("wall_ms", self.wall_ms());
        object.number("busy_ms", self.sum(SessionJob::wall_ms));
        object.number("cpu_ms", self.sum(SessionJob::cpu_ms));
        object.number("lanes", self.lanes.count);
        object.number("critical_path_ms", self.critical.1);
        object.numbers("critical_path", self.critical.0.iter().map(|&place| session.jobs[place].id.0));
        self.load_json(&mut object);
        let idle = Idle::new(session);
        list(object.field("throttled"), &session.pauses, |out, pause| self.pause_json(out, pause, &idle));
        list(object.field("kinds"), &self.kinds, |out, kind| kind.json(out));
        let (cost, saved) = self.starting_us();
        object.number("starting_us", cost);
        object.number("starting_saved_us", saved);
        list(object.field("starts"), &self.starts, |out, starts| starts.json(out));
        list(object.field("jobs"), self.slowest.iter(), |out, place| self.job_json(out, *place));
        if let Some(earlier) = &self.earlier {
            let mut other = Object::new(object.field("earlier"));
            other.text("session", earlier.name.as_bytes());
            other.text("began", began(earlier.session).as_bytes());
            other.number("wall_ms", earlier.session.end_ms() - earlier.session.started_ms);
            other.number("common", earlier.wall_ms.len() as u64);
            other.end();
        }
        object.end_line();
        out
    }

    fn job_json(&self, out: &mut Vec<u8>, place: usize) {
        let job = &self.session.jobs[place];
        let mut object = Object::new(out);
        object.number("job", job.id.0);
        object.text("title", job.title());
        object.text("kind", &command_kind(job));
        object.texts("outputs", &job.info.outputs);
        object.number("start_ms", job.start_ms - self.session.started_ms);
        object.number("wall_ms", wall_ms(self.session, place));
        object.number("cpu_ms", job.cpu_ms());
        object.number("max_rss_kib", job.end.as_ref().map_or(0, |end| end.usage.max_rss_kib));
        object.mark("in_process", matches!(job.executed_by(), ExecutedBy::Fork | ExecutedBy::Checkpoint));
        object.mark("checkpoint", job.executed_by() == ExecutedBy::Checkpoint);
        object.mark("from_cache", job.executed_by() == ExecutedBy::Cache);
        object.number("lane", self.lanes.of[place].unwrap_or(0));
        object.text("result", exit_text(job).as_bytes());
        object.mark("unfinished", job.end.is_none());
        if let Some(end) = job.end.as_ref().filter(|_| job.has_failed()) {
            object.mark("failed", true);
            let from = end.output.len().saturating_sub(SHOWN_OUTPUT);
            object.text("output", &ansi::strip(&end.output[from..]));
            object.number("left_out", end.left_out.saturating_add(from as u64));
        }
        if let Some(stopped) = &job.stopped {
            let mut stop = Object::new(object.field("terminated"));
            jsonl::termination_fields(&mut stop, stopped);
            stop.end();
        }
        if let Some(left) = &job.left {
            let mut behind = Object::new(object.field("left_behind"));
            behind.mark("killed", left.killed);
            list(behind.field("commands"), &left.processes, |out, seen| string(out, &seen.command));
            behind.end();
        }
        let problems = problems::of_job(job);
        if !problems.is_empty() {
            object.texts("trouble", &problems);
        }
        object.optional("expected_ms", job.expected_ms);
        let earlier_ms = self.earlier.as_ref().and_then(|earlier| earlier.wall_ms.get(&place));
        object.optional("earlier_ms", earlier_ms.copied());
        object.end();
    }

    fn pause_json(&self, out: &mut Vec<u8>, pause: &Pause, idle: &Idle<'_>) {
        let mut object = Object::new(out);
        object.number("start_ms", pause.start_ms - self.session.started_ms);
        object.number("wall_ms", problems::until(self.session, pause) - pause.start_ms);
        object.optional("idle_ms", idle.within(pause));
        jsonl::throttle_fields(&mut object, pause.why);
        object.text("words", pause.why.summary().as_bytes());
        object.end();
    }

    /// Parallel commands and busy processors per interval, in hundredths.
    fn load_json(&self, object: &mut Object<'_>) {
        let parts = self.parts();
        let hundredths = |out: &mut Vec<u8>, number: f64| integer(out, (number * 100.0).round() as i128);
        list(object.field("running_percent"), &parts, |out, part| hundredths(out, part.running));
        list(object.field("cpu_percent"), &parts, |out, part| hundredths(out, part.cpu));
    }

    fn parts(&self) -> Vec<Part> {
        let length = self.wall_ms().max(1) as f64 / PARTS as f64;
        let mut parts = vec![Part::default(); PARTS];
        for &place in &self.slowest {
            let job = &self.session.jobs[place];
            let start = (job.start_ms - self.session.started_ms).max(0) as f64;
            let wall = wall_ms(self.session, place) as f64;
            let (mut at, end) = (start, start + wall);
            let cpu = if wall > 0.0 { job.cpu_ms() as f64 / wall } else { 0.0 };
            for (number, part) in parts.iter_mut().enumerate().skip((start / length) as usize) {
                let until = end.min((number + 1) as f64 * length);
                let share = (until - at).max(0.0) / length;
                (part.running, part.cpu) = (part.running + share, part.cpu + share * cpu);
                at = until;
                if until >= end {
                    break;
                }
            }
        }
        parts
    }
}

impl Kind {
    /// Processor time of the commands that ended; `None` if none did.
    fn known_cpu_ms(&self) -> Option<i64> {
        (self.unfinished < self.count).then_some(self.cpu_ms)
    }

    fn json(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        object.text("name", &self.name);
        object.number("count", self.count as u64);
        object.number("unfinished", self.unfinished as u64);
        object.number("wall_ms", self.wall_ms);
        object.optional("cpu_ms", self.known_cpu_ms());
        object.end();
    }
}

impl ProgramStarts {
    fn cost_us(&self) -> u64 {
        self.started.saturating_mul(self.each_us)
    }

    fn saved_us(&self) -> u64 {
        self.avoided.saturating_mul(self.each_us)
    }

    fn json(&self, out: &mut Vec<u8>) {
        let mut object = Object::new(out);
        object.text("program", &self.program);
        object.number("started", self.started);
        object.number("avoided", self.avoided);
        object.number("each_us", self.each_us);
        object.end();
    }
}

/// Returns a part of the text with its title; empty without lines.
fn section(title: &str, lines: &[u8]) -> Vec<u8> {
    if lines.is_empty() { Vec::new() } else { [format!("\n{title}\n\n").as_bytes(), lines].concat() }
}

/// Like `duration`, with a fraction for less than a second.
fn small_time(us: u64) -> String {
    match us {
        0..1_000_000 => format!("{:.1} ms", us as f64 / 1000.0),
        _ => duration(i64::try_from(us / 1000).unwrap_or(i64::MAX)),
    }
}

/// Returns the duration of a job in milliseconds, until the end of the build if it did not end.
fn wall_ms(session: &Session, place: usize) -> i64 {
    end_ms(session, place) - session.jobs[place].start_ms
}

/// The most expensive kind first.
fn kinds(session: &Session) -> Vec<Kind> {
    let mut kinds: HashMap<Vec<u8>, Kind> = HashMap::new();
    for (place, job) in session.jobs.iter().enumerate().filter(|(_, job)| !job.is_group) {
        let name = command_kind(job);
        let it = kinds.entry(name.clone()).or_insert(Kind { name, count: 0, unfinished: 0, wall_ms: 0, cpu_ms: 0 });
        it.count += 1;
        it.unfinished += usize::from(job.end.is_none());
        it.wall_ms = it.wall_ms.saturating_add(wall_ms(session, place));
        it.cpu_ms = it.cpu_ms.saturating_add(job.cpu_ms());
    }
    let mut kinds: Vec<Kind> = kinds.into_values().collect();
    kinds.sort_by(|a, b| b.wall_ms.cmp(&a.wall_ms).then_with(|| a.name.cmp(&b.name)));
    kinds
}

/// Returns durations of the same commands in another session, matched by their first output. Only commands that
/// succeeded in both count.
fn same(session: &Session, other: &Session) -> HashMap<usize, i64> {
    let is_sound = |job: &SessionJob| job.end.is_some() && !job.has_failed();
    let first = |job: &'_ SessionJob| job.info.outputs.first().cloned();
    let then: HashMap<Vec<u8>, i64> =
        other.commands().filter(|job| is_sound(job)).filter_map(|job| Some((first(job)?, job.wall_ms()))).collect();
    let jobs = session.jobs.iter().enumerate().filter(|(_, job)| !job.is_group && is_sound(job));
    jobs.filter_map(|(place, job)| Some((place, *then.get(job.info.outputs.first()?)?))).collect()
}

/// Returns whether both sessions have mostly the same commands.
pub fn is_comparable(session: &Session, other: &Session) -> bool {
    let count = session.commands().count();
    count > 0 && same(session, other).len() * 2 >= count
}

/// Returns the critical path: the longest chain of commands that waited for each other, which bounds the duration for any
/// number of cores. The result is the indices of its jobs, without groups, and its duration in milliseconds.
pub(super) fn critical_path(session: &Session) -> (Vec<usize>, i64) {
    let count = session.jobs.len();
    let mut heaviest: Vec<(i64, Option<usize>)> = Vec::with_capacity(count);
    for (at, job) in session.jobs.iter().enumerate() {
        // Only earlier jobs count, whatever the file says, so there is no cycle.
        let before = job.info.after.iter().filter_map(|&id| session.index_of(id)).filter(|&place| place < at);
        let longest = before.max_by_key(|&place| (heaviest[place].0, std::cmp::Reverse(place)));
        let behind = longest.map_or(0, |place| heaviest[place].0);
        heaviest.push((behind.saturating_add(job.wall_ms()), longest));
    }
    let end = (0..count).max_by_key(|&at| (heaviest[at].0, std::cmp::Reverse(at)));
    let total = end.map_or(0, |end| heaviest[end].0);
    let mut path: Vec<usize> = std::iter::successors(end, |&at| heaviest[at].1).collect();
    path.reverse();
    path.retain(|&at| !session.jobs[at].is_group);
    (path, total)
}
