//! A run of `tanto build` or `ninja`: load, bring the manifest itself up to date, build, in ninja's order of things.
//! Does not know flags, nor how any of its steps is done.

mod build_dir_lock;
pub(crate) mod clang_worker;
mod deferred_output;
mod execute;
mod job_slots;
mod logs;
pub(crate) mod other_ninja;
mod recording;
mod snapshot;
mod stats;
mod tool;
pub(crate) mod view;
mod watch;

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use tanto_exec::clock::RealClock;
use tanto_exec::event::{Event, Level, View};
use tanto_exec::writer::Writer;
use tanto_ninja::builddir;
use tanto_ninja::disk::RealDisk;
use tanto_ninja::error::Error;
use tanto_ninja::explain::{ExplainLevel, Explanations};
use tanto_ninja::frontend;
use tanto_ninja::frontend::NinjaFrontend;
use tanto_ninja::graph::{Arena, Graph};
use tanto_ninja::scan::Scan;
use tanto_record::history::History;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::fs::state_dir::{StateDirs, StateLocation};

use crate::flags::Options;
use crate::flags::door::Door;
use crate::ninja::build_dir_lock::Turn;
use crate::ninja::logs::Logs;
use crate::ninja::recording::Views;
use crate::ninja::snapshot::Doubts;
use crate::ninja::stats::Stats;

/// A manifest that is still dirty after so many rebuilds will always be.
const MOST_ROUNDS: usize = 100;

/// Why a run ends early, with its exit code; what there was to say has been said.
struct End(i32);

type Step<T> = Result<T, End>;

/// What lasts from the first round to the last.
pub struct Invocation<'o> {
    options: &'o Options,
    view: Views,
    /// Of what a build leaves behind, while commands run.
    writer: Rc<Writer>,
    clock: RealClock,
    stats: Stats,
    /// Tanto's own state of the directory in which the build runs; of no use before that is entered.
    state: StateDirs,
    /// Held from the first round that writes.
    turn: Option<Turn>,
    /// About the snapshot that the graph was loaded from.
    doubts: Doubts,
    /// It was said that no record of the build can be kept.
    said_unkept: bool,
    /// It was said that an older ninja has added to the log.
    said_older: bool,
    /// The user asked for an end while commands ran.
    was_interrupted: bool,
    /// The files that the build depends on, where changes of them are waited for.
    sources: Vec<Vec<u8>>,
}

/// Whether the manifest has to be loaded again.
enum Round {
    Again,
    /// Somebody else was building; that does not count as a round.
    AgainAfterWait,
    End,
}

/// Runs what the options ask for; the program's exit code.
pub fn run(options: &Options) -> i32 {
    let mut invocation = match Invocation::new(options) {
        Ok(invocation) => invocation,
        Err(code) => return code,
    };
    match invocation.enter_directory() {
        Ok(()) if options.watch => watch::run(options, invocation),
        Ok(()) => invocation.whole().map_or_else(|End(code)| code, |()| 0),
        Err(End(code)) => code,
    }
}

impl<'o> Invocation<'o> {
    /// A run that has not begun. An error is an exit code; what there was to say has been said.
    fn new(options: &'o Options) -> Result<Invocation<'o>, i32> {
        let writer = Rc::default();
        let view = match view::of(options) {
            Ok(shown) => Views::new(shown, options, &writer),
            Err(text) => {
                view::fatal(options.door, &text);
                return Err(1);
            }
        };
        Ok(Invocation {
            options,
            view,
            writer,
            clock: RealClock::start(),
            stats: Stats::new(options.debug.stats),
            state: StateDirs::in_tree(Path::new(".")),
            turn: None,
            doubts: Doubts::default(),
            said_unkept: false,
            said_older: false,
            was_interrupted: false,
            sources: Vec::new(),
        })
    }
}

impl Invocation<'_> {
    fn whole(&mut self) -> Step<()> {
        self.state = self.state_of(b"");
        let mut rounds = 0;
        while rounds < MOST_ROUNDS {
            match self.round() {
                _ if self.gives_up_snapshot() => {}
                Ok(Round::Again) => rounds += 1,
                Ok(Round::AgainAfterWait) => {}
                Ok(Round::End) => return Ok(()),
                Err(end) => return Err(end),
            }
        }
        let tail = format!("' still dirty after {MOST_ROUNDS} tries, perhaps system time is not set");
        Err(self.error(&[b"manifest '", &self.options.manifest[..], tail.as_bytes()].concat()))
    }

    /// Tanto's own state of this directory (empty: the current one). Under the name `ninja` none is left in the tree.
    fn state_of(&self, dir: &[u8]) -> StateDirs {
        let written = match self.options.door {
            Door::Ninja => StateLocation::Cache,
            Door::Tanto => StateLocation::Tree,
        };
        StateDirs::of(Path::new(OsStr::from_bytes(dir)), self.options.cache.as_deref(), written)
    }

    fn enter_directory(&mut self) -> Step<()> {
        let Some(dir) = &self.options.dir else { return Ok(()) };
        if self.options.tool.is_none() && self.options.verbosity != Verbosity::Quiet {
            // Emacs finds the place of later messages by these very words.
            self.info(&[b"Entering directory `", &dir[..], b"'"].concat());
        }
        std::env::set_current_dir(OsStr::from_bytes(dir)).map_err(|error| {
            let why = tanto_sys::error::text(&error);
            self.fatal(&[b"chdir to '", &dir[..], b"' - ", &why].concat())
        })
    }

    /// One load of the manifest and, unless it turns out that it must be loaded again, everything after it.
    fn round(&mut self) -> Step<Round> {
        if let Some(round) = self.tool_after_flags()? {
            return Ok(round);
        }
        // The log counts from here, as ninja's does.
        self.clock = RealClock::start();
        let arena = Arena::new();
        let mut graph = self.load(&arena).inspect_err(|_| self.note_manifests())?;
        if let Some(round) = self.tool_after_load(&mut graph)? {
            return Ok(round);
        }
        let builddir = builddir::path(&graph);
        self.check()?;
        if !self.only_reads() {
            self.make_builddir(builddir)?;
            // A tool takes its turn when it is about to write.
            if self.options.tool.is_none() && self.take_turn(builddir) {
                return Ok(Round::AgainAfterWait);
            }
        }
        let mut logs = self.load_wanted_logs(&mut graph, builddir)?;
        if let Some(round) = self.tool_after_logs(&mut graph, &logs)? {
            return Ok(round);
        }
        if !self.options.dry_run {
            self.open_logs(&mut logs, &mut graph)?;
        }
        // Of what its snapshot lacks, a run comes to know more.
        let is_mapped = graph.blocks().is_some();
        let mut saving = if is_mapped { None } else { self.saving(&graph, &logs) };
        let mut disk = RealDisk;
        let explanations = Explanations::new(self.reasons());
        let mut scan = Scan::new(&mut graph, &mut disk, &mut logs.build, &mut logs.deps, explanations);
        scan.prefetch.threads = self.options.threads;
        let (history, state) = (OnceCell::new(), self.state.clone());
        // Opened for the first question: a build with nothing to run asks none.
        let past = |output: &[u8]| history.get_or_init(|| History::open(&state)).cost(output);
        let mut frontend = NinjaFrontend::new(scan, self.front_options());
        frontend.cost_history = if self.options.record { Some(&past) } else { None };
        let rebuilt = self.rebuild_manifest(&mut frontend);
        if rebuilt.inspect_err(|_| self.note_sources(&mut frontend))? {
            return self.after_rebuild(&mut logs, &mut graph);
        }
        let built = self.build_targets(&mut frontend, builddir, &mut saving);
        self.note_sources(&mut frontend);
        // Nobody may be there to read it.
        let _ = match self.view.shown.is_lines() {
            true => io::stderr().write_all(self.stats.table().as_bytes()),
            false => io::stdout().write_all(self.stats.table().as_bytes()),
        };
        built?;
        if is_mapped {
            saving = self.saving(&graph, &logs);
        }
        let saving = saving.map(|saving| saving.with_logs(&graph, &logs.build, &logs.deps));
        saving.iter().for_each(|saving| self.save(saving));
        Ok(Round::End)
    }

    /// Everything is to be loaded again: logs that are new are there from now on, if only with their headers.
    fn after_rebuild(&mut self, logs: &mut Logs, graph: &mut Graph<'_>) -> Step<Round> {
        if self.options.dry_run {
            // The manifest is as it was, and would be for ever.
            return Ok(Round::End);
        }
        let closed = logs.build.close(graph).and_then(|()| logs.deps.close(graph));
        closed.map(|()| Round::Again).map_err(|error| self.failed(&error))
    }

    /// How much is to be told of why commands run.
    fn reasons(&self) -> ExplainLevel {
        match (self.options.debug.explain, self.tells_more()) {
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
            detail: self.tells_more(),
        }
    }

    /// Nothing may be written: a dry run, or a tool that only answers.
    fn only_reads(&self) -> bool {
        self.options.dry_run || self.options.tool.as_ref().is_some_and(|call| call.tool.is_read_only())
    }

    fn make_builddir(&mut self, builddir: &[u8]) -> Step<()> {
        builddir::create(&mut RealDisk, builddir).map_err(|[first, second]| {
            self.error(&first.text());
            self.error(&second.text())
        })
    }

    /// Waits until no other build is under way in the directory; true if it had to.
    fn take_turn(&mut self, builddir: &[u8]) -> bool {
        if self.turn.is_some() {
            return false;
        }
        let view = &mut self.view;
        let (turn, waited) = Turn::take(builddir, |pid| {
            let who = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
            let text = format!("waiting for another build in this directory{who}");
            view.event(Event::Notice { level: Level::Warning, text: text.as_bytes() });
        });
        self.turn = Some(turn);
        waited
    }

    fn info(&mut self, text: &[u8]) {
        self.say(Level::Info, text);
    }

    /// Says `ninja: error: TEXT`.
    fn error(&mut self, text: &[u8]) -> End {
        self.say(Level::Error, text);
        End(1)
    }

    /// Says `ninja: fatal: TEXT`.
    fn fatal(&mut self, text: &[u8]) -> End {
        if !self.doubts.are_right() {
            view::fatal(self.options.door, text);
        }
        End(1)
    }

    fn failed(&mut self, error: &Error) -> End {
        if error.is_fatal() { self.fatal(&error.text()) } else { self.error(&error.text()) }
    }
}
