//! Runs `ninja` and `tanto build`: loads the manifest, rebuilds it if it is dirty, and builds the targets, in ninja's
//! order.

mod cache;
mod contents;
mod execute;
mod job_slots;
mod logs;
mod recording;
mod snapshot;
mod tool;
mod trace;
pub(crate) mod view;
mod watch;

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use tanto_cas::RecentDigests;
use tanto_exec::clock::RealClock;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::writer::Writer;
use tanto_ninja::build_dir_lock::BuildDirLock;
use tanto_ninja::build_logs::BuildLogs;
use tanto_ninja::builddir;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::error::Error;
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::frontend;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::input_trace::InputTrace;
use tanto_ninja::scan::Scan;
use tanto_ninja::snapshot::checks::SnapshotChecks;
use tanto_ninja::stats::Stats;
use tanto_record::history::History;
use tanto_record::views::display::Views;
use tanto_record::views::ninja::Verbosity;
use tanto_record::views::status_format::FormatError;
use tanto_sys::fs::state_dir::{StateDirs, StateLocation};

pub use self::cache::CACHE_DIR;

use crate::invocation::Invocation;
use crate::settings::Options;
use crate::settings::values::CacheMode;

/// The limit on rebuilds of the manifest.
const MAX_ROUNDS: usize = 100;

/// Ends the run with this exit code, after any message was printed.
struct ExitCode(i32);

type RunResult<T> = Result<T, ExitCode>;

/// The state of a run, across all rounds.
pub struct BuildRun<'o> {
    options: &'o Options,
    view: Views,
    /// Writes records in the background.
    writer: Rc<Writer>,
    clock: RealClock,
    stats: Stats,
    /// Tanto's own state. Invalid before the build directory was entered.
    state: StateDirs,
    /// Acquired by the first round that writes.
    build_dir_lock: Option<BuildDirLock>,
    checks: SnapshotChecks,
    reported_record_error: bool,
    reported_content_error: bool,
    /// Commands that are up to date by content, until they were reported.
    renewed_commands: usize,
    reported_older_ninja: bool,
    was_interrupted: bool,
    /// The files the build depends on, for `--watch`.
    sources: Vec<Vec<u8>>,
    /// For `--trace`.
    input_trace: Option<InputTrace>,
    /// Digests of files that the action cache has read or restored.
    recent_digests: RecentDigests,
}

/// The result of a round.
enum Round {
    Reload,
    /// Another build held the lock. Does not count as a rebuild.
    ReloadAfterWait,
    Done,
}

/// Returns the exit code.
pub fn run(options: &Options) -> i32 {
    let mut build_run = match BuildRun::new(options) {
        Ok(build_run) => build_run,
        Err(code) => return code,
    };
    match build_run.enter_directory() {
        Ok(()) if options.watch => watch::run(options, build_run),
        Ok(()) => {
            let result = build_run.run_rounds();
            build_run.finish_trace(result).map_or_else(|ExitCode(code)| code, |()| 0)
        }
        Err(ExitCode(code)) => code,
    }
}

impl<'o> BuildRun<'o> {
    /// The error is an exit code, after a message was printed.
    fn new(options: &'o Options) -> Result<BuildRun<'o>, i32> {
        let writer = Rc::default();
        let view = match view::create(options) {
            Ok(display) => recording::views(display, options, &writer),
            Err(FormatError(text)) => {
                view::fatal(options.invocation, &text);
                return Err(1);
            }
        };
        Ok(BuildRun {
            options,
            view,
            writer,
            clock: RealClock::start(),
            stats: Stats::new(options.debug.stats),
            state: StateDirs::in_tree(Path::new(".")),
            build_dir_lock: None,
            checks: SnapshotChecks::default(),
            reported_record_error: false,
            reported_content_error: false,
            renewed_commands: 0,
            reported_older_ninja: false,
            was_interrupted: false,
            sources: Vec::new(),
            input_trace: trace::create(options)?,
            recent_digests: RecentDigests::default(),
        })
    }
}

impl BuildRun<'_> {
    fn run_rounds(&mut self) -> RunResult<()> {
        self.state = self.state_of(b"");
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            match self.round() {
                _ if self.discard_damaged_snapshot() => {}
                Ok(Round::Reload) => rounds += 1,
                Ok(Round::ReloadAfterWait) => {}
                Ok(Round::Done) => return Ok(()),
                Err(end) => return Err(end),
            }
        }
        let tail = format!("' still dirty after {MAX_ROUNDS} tries, perhaps system time is not set");
        Err(self.error(&[b"manifest '", &self.options.manifest[..], tail.as_bytes()].concat()))
    }

    /// Tanto's own state for this build directory (empty: the current directory). Under the name `ninja`, it is outside
    /// the tree.
    fn state_of(&self, dir: &[u8]) -> StateDirs {
        let written = match self.options.invocation {
            Invocation::Ninja => StateLocation::Cache,
            Invocation::Tanto => StateLocation::Tree,
        };
        StateDirs::of(Path::new(OsStr::from_bytes(dir)), self.options.cache.as_deref(), written)
    }

    fn enter_directory(&mut self) -> RunResult<()> {
        let Some(dir) = &self.options.dir else { return Ok(()) };
        if self.options.tool.is_none() && self.options.settings.verbosity.value != Verbosity::Quiet {
            // Emacs parses this message.
            self.info(&[b"Entering directory `", &dir[..], b"'"].concat());
        }
        std::env::set_current_dir(OsStr::from_bytes(dir)).map_err(|error| {
            let why = tanto_sys::error::text(&error);
            self.fatal(&[b"chdir to '", &dir[..], b"' - ", &why].concat())
        })
    }

    /// Loads the manifest and does everything after it, unless the manifest must be loaded again.
    fn round(&mut self) -> RunResult<Round> {
        if let Some(round) = self.tool_after_flags()? {
            return Ok(round);
        }
        // Like ninja, times in the log count from here.
        self.clock = RealClock::start();
        let arena = Arena::new();
        let mut graph = self.load(&arena).inspect_err(|_| self.note_manifests())?;
        if let Some(round) = self.tool_after_load(&mut graph)? {
            return Ok(round);
        }
        let builddir = builddir::path(&graph);
        self.check()?;
        if !self.is_read_only() {
            self.make_builddir(builddir)?;
            // A tool acquires the lock before it writes.
            if self.options.tool.is_none() && self.lock_build_dir(builddir) {
                return Ok(Round::ReloadAfterWait);
            }
        }
        let mut logs = self.load_wanted_logs(&mut graph, builddir)?;
        if let Some(round) = self.tool_after_logs(&mut graph, &logs)? {
            return Ok(round);
        }
        if !self.options.dry_run {
            self.open_logs(&mut logs, &mut graph)?;
        }
        // If the graph came from a snapshot, a new snapshot is made after the build, which adds to the graph.
        let is_mapped = graph.blocks().is_some();
        let mut pending = if is_mapped { None } else { self.pending_snapshot(&graph, &logs) };
        let mut disk = RealDisk;
        let explanations = Explanations::new(self.explain_level());
        let mut scan = Scan::new(&mut graph, &mut disk, &mut logs.build, &mut logs.deps, explanations);
        scan.prefetch.threads = self.options.settings.threads.value;
        scan.contents = self.contents();
        let (history, state) = (OnceCell::new(), self.state.clone());
        // Opened lazily: a no-op build does not need it.
        let past = |output: &[u8]| history.get_or_init(|| History::open(&state)).cost(output);
        let mut frontend = NinjaFrontend::new(scan, self.front_options());
        frontend.cost_history = if self.options.settings.record.value { Some(&past) } else { None };
        frontend.input_trace = self.input_trace.take();
        frontend.recent_digests = self.recent_digests.clone();
        let rebuilt = self.rebuild_manifest(&mut frontend);
        if !matches!(rebuilt, Ok(false)) {
            self.input_trace = frontend.input_trace.take();
        }
        if rebuilt.inspect_err(|_| self.note_sources(&mut frontend))? {
            return self.after_rebuild(&mut logs, &mut graph);
        }
        let built = self.build_targets(&mut frontend, builddir, &mut pending);
        self.input_trace = frontend.input_trace.take();
        self.note_sources(&mut frontend);
        // A closed stream is not an error.
        let _ = match self.view.display.is_jsonl() {
            true => io::stderr().write_all(self.stats.table().as_bytes()),
            false => io::stdout().write_all(self.stats.table().as_bytes()),
        };
        built?;
        if is_mapped {
            pending = self.pending_snapshot(&graph, &logs);
        }
        let pending = pending.map(|pending| pending.with_logs(&graph, &logs.build, &logs.deps));
        pending.iter().for_each(|pending| self.save(pending));
        Ok(Round::Done)
    }

    /// Creates new logs, at least with a header, because all files are loaded again.
    fn after_rebuild(&mut self, logs: &mut BuildLogs, graph: &mut Graph<'_>) -> RunResult<Round> {
        if self.options.dry_run {
            // The manifest is unchanged, and would be rebuilt forever.
            return Ok(Round::Done);
        }
        logs.close(graph).map(|()| Round::Reload).map_err(|error| self.failed(&error))
    }

    fn explain_level(&self) -> ExplainLevel {
        match (self.options.debug.explain, self.needs_details()) {
            (true, _) => ExplainLevel::All,
            (false, true) => ExplainLevel::Brief,
            (false, false) => ExplainLevel::Off,
        }
    }

    fn front_options(&self) -> frontend::FrontendOptions {
        frontend::FrontendOptions {
            dry_run: self.options.dry_run,
            keep_depfile: self.options.debug.keep_depfile,
            keep_rspfile: self.options.debug.keep_rsp,
            detail: self.needs_details(),
            declare_files: self.options.settings.cache.value != CacheMode::Off,
            traced_rules: self.options.settings.cache_rules.value.clone(),
        }
    }

    /// Returns whether this is a dry run or a read-only tool.
    fn is_read_only(&self) -> bool {
        self.options.dry_run || self.options.tool.as_ref().is_some_and(|call| call.tool.is_read_only())
    }

    fn make_builddir(&mut self, builddir: &[u8]) -> RunResult<()> {
        builddir::create(&mut RealDisk, builddir).map_err(|[first, second]| {
            self.error(&first.text());
            self.error(&second.text())
        })
    }

    /// Waits for the lock of the build directory. Returns whether another build held it.
    fn lock_build_dir(&mut self, builddir: &[u8]) -> bool {
        if self.build_dir_lock.is_some() {
            return false;
        }
        let view = &mut self.view;
        let (build_dir_lock, waited) = BuildDirLock::acquire(builddir, |pid| {
            let holder = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
            let text = format!("waiting for another build in this directory{holder}");
            view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
        });
        self.build_dir_lock = Some(build_dir_lock);
        waited
    }

    fn info(&mut self, text: &[u8]) {
        self.say(Level::Info, text);
    }

    /// Prints `ninja: error: TEXT`.
    fn error(&mut self, text: &[u8]) -> ExitCode {
        self.say(Level::Error, text);
        ExitCode(1)
    }

    /// Prints `ninja: fatal: TEXT`.
    fn fatal(&mut self, text: &[u8]) -> ExitCode {
        if !self.checks.found_damage() {
            view::fatal(self.options.invocation, text);
        }
        ExitCode(1)
    }

    fn failed(&mut self, error: &Error) -> ExitCode {
        if error.is_fatal() { self.fatal(&error.text()) } else { self.error(&error.text()) }
    }
}
