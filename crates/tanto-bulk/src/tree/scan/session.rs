//! One scan: reuses valid results, runs the other directories and stores them.

use std::fs;
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use sha2::{Digest, Sha256};
use tanto_exec::clock::Clock;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::job::{Capture, Completion, Exit, JobId};
use tanto_exec::run::{Build, BuildOutcome};
use tanto_exec::runner::Runner;
use tanto_exec::schedule::ResourceSample;
use tanto_record::database::journal::Journal;
use tanto_record::database::{Change, Database, ScanRow};

use super::base::Base;
use super::cache_key::CacheKeys;
use super::commands::{self, ScanCommand, ScanCommands, ScanOutput};
use super::files::Files;
use super::path_view::PathView;
use super::remote::RemoteJobs;
use super::rows::{StoredScans, TOP};
use super::{Scan, ScanError, ScanReport, environment, list, output};
use crate::config::Config;
use crate::package::options;
use crate::shell::quoted;

/// The limit of a stored log, in bytes.
const MOST_LOG: usize = 64 << 10;
pub(super) struct Session<'a> {
    scan: Scan<'a>,
    inputs: CacheKeys,
    rows: StoredScans,
    report: ScanReport,
    place: ScanDirs,
    /// Platform variables, once known.
    facts: Option<String>,
    base: Base,
    /// The common inputs changed, as the user was told, or are unknown.
    all_again: bool,
    environment: String,
}

/// The file of the common inputs of the last scan.
const PARTS: &str = "scan-inputs";
/// The limit of changed inputs in a message.
const MOST_NAMED: usize = 5;

/// The number of directories that justifies asking for platform variables.
const MANY: usize = 16;

/// A private directory of the scan's commands.
pub(super) struct ScanDirs {
    /// Options of packages; valid for one scan.
    cache: PathBuf,
    logs: PathBuf,
}

pub(super) fn written(config: &Config) -> [PathBuf; 2] {
    let state = Path::new(&config.state).join("scan");
    ["options", "logs"].map(|name| state.join(name))
}

/// The kinds of questions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanKind {
    Subdirs,
    Packages,
}

impl<'a> Session<'a> {
    /// Loads earlier results.
    pub fn begin(scan: Scan<'a>, store: &Database) -> Result<Session<'a>, ScanError> {
        let place = ScanDirs::new(scan.config);
        place.make().map_err(|error| ScanError::Stopped(format!("{}: {error}", scan.config.state)))?;
        let mut files = Files::knowing(store.digests()?);
        let path_view = PathView::of(scan.config);
        let base = Base::of(scan.config, &path_view, &mut files);
        let inputs = CacheKeys::new(files, &scan.config.pkgsrc, path_view, base.print());
        let rows = StoredScans::of(store)?;
        let parts = Path::new(&scan.config.state).join(PARTS);
        let changed = base.changed(&parts);
        if scan.config.reuse_scan_results && !changed.is_empty() && rows.all().next().is_some() {
            notice(&mut *scan.view, "everything", &changed);
        }
        // Without a saved file, the changes are unknown.
        let all_again = !changed.is_empty() || !parts.exists();
        let environment = environment::words(scan.config);
        Ok(Session {
            scan,
            inputs,
            rows,
            report: ScanReport::default(),
            place,
            facts: None,
            base,
            all_again,
            environment,
        })
    }

    pub fn tree(&mut self, store: Database) -> Result<(Vec<String>, Database), ScanError> {
        let store = self.ask(ScanKind::Subdirs, &[TOP.to_owned()], store)?;
        if let Some(log) = self.rows.failure(TOP).cloned() {
            return Err(ScanError::Tree { pkgsrc: self.scan.config.pkgsrc.clone(), output: log });
        }
        let categories = self.rows.subdirs(TOP);
        let store = self.ask(ScanKind::Subdirs, &categories, store)?;
        categories.iter().for_each(|category| self.note_failure(category));
        Ok((self.rows.tree(), store))
    }

    /// Scans directories whose results are not valid.
    pub fn directories(&mut self, locations: &[String], store: Database) -> Result<Database, ScanError> {
        let store = self.ask(ScanKind::Packages, locations, store)?;
        locations.iter().for_each(|location| self.note_failure(location));
        Ok(store)
    }

    pub fn rows(&self) -> &StoredScans {
        &self.rows
    }

    /// Makes the report. Wanted locations come first.
    pub fn end(mut self, locations: &[String], wanted: &[String]) -> ScanReport {
        let joined = output::joined(self.rows.answers(locations), self.rows.answers(wanted).count());
        (self.report.records, self.report.wanted, self.report.duplicates) = joined;
        // The next scan works without it.
        let _ = self.base.write(&Path::new(&self.scan.config.state).join(PARTS));
        let _ = fs::remove_dir_all(&self.place.cache);
        let _ = fs::remove_dir_all(&self.place.logs);
        self.report
    }

    /// Directories of dependencies, without duplicates.
    pub fn needed(&self, locations: &[String]) -> Vec<String> {
        let records = self.rows.records(locations);
        let mut all: Vec<String> = needed(&records).map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn note_failure(&mut self, location: &str) {
        if let Some(log) = self.rows.failure(location).cloned() {
            self.report.failed.push((location.to_owned(), log));
        }
    }

    fn ask(&mut self, what: ScanKind, locations: &[String], store: Database) -> Result<Database, ScanError> {
        let mut verified: HashSet<String, RandomState> = HashSet::default();
        let mut asked = Vec::new();
        for location in locations {
            let holds = self.holds(location);
            if what == ScanKind::Packages {
                *if holds { &mut self.report.reused } else { &mut self.report.scanned } += 1;
            }
            if holds && !(what == ScanKind::Packages && self.is_sampled(location)) {
                continue;
            }
            if holds {
                verified.insert(location.clone());
            }
            asked.push(location);
        }
        let known = |location: &&&String| self.rows.get(location).is_some_and(|row| row.failed.is_none());
        let again = asked.iter().filter(known).count() - verified.len();
        self.tell_changed(what, again);
        if what == ScanKind::Packages && asked.len() >= MANY {
            self.learn_facts();
        }
        let mut asks: Vec<ScanCommand> = asked.into_iter().map(|location| self.question(what, location)).collect();
        if what == ScanKind::Packages && asks.len() > 1 {
            self.urgent_first(&mut asks);
        }
        self.report.started += asks.len();
        self.report.verified += verified.len();
        let Session { scan, inputs, rows, report, place, .. } = self;
        let mut take = |answer: ScanOutput<'_>| {
            let location = answer.ask.location.clone();
            let row = row(what, answer, inputs, place);
            if verified.contains(&location) && rows.get(&location).is_some_and(|old| old.records != row.records) {
                report.differing.push(location.clone());
            }
            rows.insert(row.clone());
            vec![Change::Scanned(row)]
        };
        let remote = what == ScanKind::Packages;
        let mut store = if asks.is_empty() { store } else { run(scan, &asks, store, remote, &mut take)? };
        let fresh: Vec<Change> = inputs.files.take_fresh().into_iter().map(Change::Digested).collect();
        store.apply(0, &fresh)?;
        Ok(store)
    }

    /// Explains why directories are scanned again.
    fn tell_changed(&mut self, what: ScanKind, again: usize) {
        if again == 0 || self.all_again || what != ScanKind::Packages || !self.scan.config.reuse_scan_results {
            return;
        }
        let tree = format!("{}/", self.scan.config.pkgsrc);
        let name = |path: &Vec<u8>| {
            let path = String::from_utf8_lossy(path).into_owned();
            let path = path.strip_prefix(&tree).unwrap_or(&path);
            path.strip_suffix('/').map_or(path.to_owned(), |dir| format!("the names of the makefiles in {dir}"))
        };
        let changed: Vec<String> = self.inputs.files.changed().iter().map(name).collect();
        let subject = if again == 1 { "1 directory".to_owned() } else { format!("{again} directories") };
        notice(&mut *self.scan.view, &subject, &changed);
    }

    /// Whether the last result is valid.
    fn holds(&mut self, location: &str) -> bool {
        let Some(row) = self.rows.get(location).filter(|row| row.failed.is_none()) else { return false };
        let config = self.scan.config;
        let lacks_options = config.rebuild_on_options && location.contains('/') && !options::are_told(&row.records);
        config.reuse_scan_results && !lacks_options && self.inputs.key(location, &row.records)[..] == row.key[..]
    }

    fn is_sampled(&self, location: &str) -> bool {
        let hash = Sha256::new().chain_update(self.scan.seed.to_le_bytes()).chain_update(location).finalize();
        let drawn = u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]);
        f64::from(drawn) < self.scan.verify / 100.0 * (f64::from(u32::MAX) + 1.0)
    }

    fn learn_facts(&mut self) {
        let words = || (self.scan.facts)().iter().map(|word| format!(" {}", quoted(word))).collect();
        self.facts.get_or_insert_with(words);
    }

    fn question(&self, what: ScanKind, location: &str) -> ScanCommand {
        let wall_ms = self.rows.get(location).map_or(0, |row| row.wall_ms);
        let facts = self.facts.as_deref().unwrap_or_default();
        ScanCommand {
            location: location.to_owned(),
            line: self.place.line(what, location, self.scan.config, (&self.environment, facts)),
            wall_ms,
        }
    }

    /// Slow and often used directories first: others then find the options of their packages.
    fn urgent_first(&self, asks: &mut [ScanCommand]) {
        let mut users: HashMap<&[u8], u64, RandomState> = HashMap::default();
        for row in self.rows.all() {
            needed(&row.records).for_each(|location| *users.entry(location).or_default() += 1);
        }
        let weight = |ask: &ScanCommand| {
            let users = users.get(ask.location.as_bytes()).copied().unwrap_or(0);
            ask.wall_ms.max(1).saturating_mul(1 + users)
        };
        asks.sort_by_cached_key(|ask| std::cmp::Reverse(weight(ask)));
    }
}

fn notice(view: &mut dyn View, subject: &str, changed: &[String]) {
    let named = changed.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let why = match changed.len() {
        0 => "an input changed during the last scan".to_owned(),
        count if count > MOST_NAMED => format!("changed since the last scan: {named} and {} more", count - MOST_NAMED),
        _ => format!("changed since the last scan: {named}"),
    };
    let text = format!("scanning {subject} again; {why}");
    view.event(Event::Notice { level: Level::Info, text: text.as_bytes() });
}

fn needed(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = records.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"ALL_DEPENDS="));
    let words = lines.flat_map(|line| line.split(|byte| b" \t".contains(byte)));
    words.filter_map(|word| memchr::memmem::find(word, b":../../").map(|at| &word[at + b":../../".len()..]))
}

pub(super) fn script(scan: &mut Scan<'_>, store: Database) -> Result<Database, ScanError> {
    let script = &scan.config.script_phase_scan;
    if script.is_empty() {
        return Ok(store);
    }
    let asks = [ScanCommand { location: "script_phase_scan".into(), line: script.clone(), wall_ms: 0 }];
    let mut failed = None;
    let mut take = |answer: ScanOutput<'_>| {
        let said = || String::from_utf8_lossy(&answer.completion.output).into_owned();
        failed = (!answer.completion.exit.success()).then(said);
        Vec::new()
    };
    let store = run(scan, &asks, store, false, &mut take)?;
    failed.map_or(Ok(store), |output| Err(ScanError::Script(output)))
}

/// Runs commands, also on other machines if there are some and `remote`. Results are in the database afterwards, even after
/// an error.
fn run(
    scan: &mut Scan<'_>,
    asks: &[ScanCommand],
    store: Database,
    remote: bool,
    take: &mut dyn FnMut(ScanOutput<'_>) -> Vec<Change>,
) -> Result<Database, ScanError> {
    let Scan { runner, view, clock, remote: scanners, .. } = scan;
    let mut jobs = None;
    if let Some(scanners) = scanners.as_deref_mut().filter(|_| remote) {
        scanners.begin()?;
        jobs = Some(RemoteJobs::new(scanners, asks));
    }
    let mut journal = Journal::start(store, 0).map_err(|error| ScanError::Stopped(error.to_string()))?;
    let ran = run_commands((&mut **runner, &mut **view, *clock), asks, (Some(&mut journal), jobs), take);
    let store = journal.finish()?;
    ran.map(|()| store)
}

/// Runs commands, some of them perhaps on other machines.
pub(super) fn run_commands(
    (runner, view, clock): (&mut dyn Runner, &mut dyn View, &dyn Clock),
    asks: &[ScanCommand],
    (journal, remote): (Option<&mut Journal>, Option<RemoteJobs<'_>>),
    take: &mut dyn FnMut(ScanOutput<'_>) -> Vec<Change>,
) -> Result<(), ScanError> {
    let mut schedule = commands::schedule(asks);
    for (job, ask) in (0..).zip(asks) {
        let expected_ms = (ask.wall_ms > 0).then(|| i64::try_from(ask.wall_ms).unwrap_or(i64::MAX));
        view.event(Event::Planned { job: JobId(job), expected_ms });
    }
    let mut answers = 0;
    let mut take = |answer: ScanOutput<'_>| {
        answers += 1;
        take(answer)
    };
    let run = Build {
        frontend: &mut ScanCommands { asks, began_ns: vec![0; asks.len()], journal, remote, take: &mut take },
        schedule: &mut schedule,
        runner,
        view,
        clock,
        failures_allowed: usize::MAX,
        sampler: &mut ResourceSample::default,
    };
    let verdict = run.run();
    match verdict {
        BuildOutcome::Interrupted => Err(ScanError::Interrupted),
        BuildOutcome::InvalidInput(why) => Err(ScanError::Stopped(String::from_utf8_lossy(&why).into_owned())),
        // Failed commands do not stop the others.
        BuildOutcome::Failed { reason: why, .. } if answers < asks.len() => {
            Err(ScanError::Stopped(String::from_utf8_lossy(&why).into_owned()))
        }
        BuildOutcome::Failed { .. } | BuildOutcome::Succeeded => Ok(()),
    }
}

/// Makes the row of an answer; a malformed one counts as failed.
fn row(what: ScanKind, answer: ScanOutput<'_>, inputs: &mut CacheKeys, place: &ScanDirs) -> ScanRow {
    let ScanOutput { ask, completion, began_ns, wall_ms } = answer;
    let location = ask.location.clone();
    let stderr = place.take_log(&location);
    let said = match (completion.exit, &completion.capture) {
        (Exit::Code(0), Capture::Complete) => what.read(&location, &completion.output),
        (Exit::Code(0), Capture::Truncated | Capture::Spilled(_)) => Err("its output is too large".into()),
        (Exit::Code(code), _) => Err(format!("it exited with {code}")),
        (Exit::Signal(signal) | Exit::Dumped(signal), _) => Err(format!("it died of signal {signal}")),
    };
    match said {
        Ok(records) => {
            let key = inputs.key_since(&location, &records, began_ns).map(Vec::from).unwrap_or_default();
            ScanRow { location, key, records, failed: None, wall_ms }
        }
        Err(why) => {
            let log = log(&stderr, completion, &why);
            completion.output = log.clone().into_bytes();
            completion.exit = if completion.exit.success() { Exit::Code(1) } else { completion.exit };
            ScanRow { location, key: Vec::new(), records: Vec::new(), failed: Some(log), wall_ms }
        }
    }
}

fn log(stderr: &[u8], completion: &Completion, why: &str) -> String {
    let all = [&completion.output[..], stderr].concat();
    let tail = &all[all.len().saturating_sub(MOST_LOG)..];
    let tail = String::from_utf8_lossy(tail);
    let end = if tail.is_empty() || tail.ends_with('\n') { "" } else { "\n" };
    format!("{tail}{end}{why}\n")
}

impl ScanKind {
    fn read(self, location: &str, output: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            ScanKind::Packages => output::complete(location, output),
            ScanKind::Subdirs => {
                let (names, files) = list::listed(output)?;
                Ok([b"SUBDIR=", names.join(" ").as_bytes(), b"\nSCAN_DEPENDS=", &files, b"\n"].concat())
            }
        }
    }
}

impl ScanDirs {
    pub fn new(config: &Config) -> ScanDirs {
        let [cache, logs] = written(config);
        ScanDirs { cache, logs }
    }

    pub fn make(&self) -> std::io::Result<()> {
        for dir in [&self.cache, &self.logs] {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir_all(dir)?;
        }
        Ok(())
    }

    fn log(&self, location: &str) -> PathBuf {
        self.logs.join(format!("{},log", location.replace('/', ",")))
    }

    /// The standard error of a command.
    pub fn take_log(&self, location: &str) -> Vec<u8> {
        let path = self.log(location);
        let said = fs::read(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        said
    }

    pub fn line(&self, what: ScanKind, location: &str, config: &Config, (environment, facts): (&str, &str)) -> String {
        let make = quoted(&config.make);
        let dir = quoted(format!("{}/{location}", config.pkgsrc));
        let log = self.log(location);
        let log = quoted(log.to_string_lossy());
        let cache = quoted(self.cache.to_string_lossy());
        let begin = format!("cd {dir} && exec 2>{log} &&");
        match what {
            ScanKind::Packages => {
                let make = format!("{environment} PBULK_CACHE_DIRECTORY={cache} {make}");
                match config.rebuild_on_options {
                    true => format!("{begin} {}", options::asking(&make, facts)),
                    false => format!("{begin} exec {make} pbulk-index{facts}"),
                }
            }
            ScanKind::Subdirs => {
                let show = |variable| format!("{environment} {make} show-subdir-var VARNAME={variable}");
                format!("{begin} {} && exec {}", show("SUBDIR"), show(".MAKE.MAKEFILES"))
            }
        }
    }
}
