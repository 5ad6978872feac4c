//! Selects the view on standard output: ninja's status lines, the live view, or JSON lines.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;
use tanto_record::jsonl::{Head, Stream};
use tanto_record::views::live::{self, Follow, LiveView};
use tanto_record::views::ninja::{self, NinjaView, Verbosity};
use tanto_record::views::status_format::{FormatError, ProgressFormat};
use tanto_record::views::terminal::Terminal;
use tanto_record::views::truncated_output::FullOutputHint;
use tanto_sys::machine::cpu;
use tanto_sys::terminal;
use tanto_sys::terminal::cursor::CursorGuard;
use tanto_sys::terminal::stop_flag::StopFlag;

use crate::invocation::Invocation;
use crate::settings::Options;
use crate::settings::values::{self, StatusFormat};

/// The view of a run.
pub struct Display {
    kind: Kind,
    format: Result<(), FormatError>,
}

enum Kind {
    Plain(Box<NinjaView>),
    Live(Box<Live>),
    Lines(Box<Stream>),
}

impl Display {
    /// Reports an invalid status format. Call before the first command: like ninja, a no-op build does not check it.
    pub fn check_format(&self) -> Result<(), FormatError> {
        self.format.clone()
    }

    /// Called before commands run.
    pub fn begin(&mut self, head: &Head) {
        if let Kind::Lines(stream) = &mut self.kind {
            stream.begin(head);
        }
    }

    /// Shows the output of this command while it runs. Returns false if the view does not support it.
    pub fn follow(&mut self, follow: Follow) -> bool {
        match &mut self.kind {
            Kind::Live(live) => live.view.follow(follow),
            Kind::Plain(_) | Kind::Lines(_) => return false,
        }
        true
    }

    pub fn shows_summary(&self) -> bool {
        matches!(self.kind, Kind::Live(_))
    }

    /// Nothing else may be printed on standard output.
    pub fn is_jsonl(&self) -> bool {
        matches!(self.kind, Kind::Lines(_))
    }

    fn view(&mut self) -> &mut dyn View {
        match &mut self.kind {
            Kind::Plain(view) => &mut **view,
            Kind::Live(view) => &mut **view,
            Kind::Lines(view) => &mut **view,
        }
    }
}

impl View for Display {
    fn event(&mut self, event: Event<'_>) {
        self.view().event(event);
    }

    fn flush(&mut self) {
        self.view().flush();
    }

    fn followed_job(&self) -> Option<JobId> {
        match &self.kind {
            Kind::Live(view) => view.followed_job(),
            Kind::Plain(_) | Kind::Lines(_) => None,
        }
    }

    fn tick_interval(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Live(view) => view.tick_interval(),
            Kind::Plain(_) | Kind::Lines(_) => None,
        }
    }
}

/// The live view, which is cleared when the terminal stops the process (Ctrl-Z).
struct Live {
    view: LiveView,
    /// Listens while the live region is shown: a console command stops together with this process.
    stop_flag: Option<Option<StopFlag>>,
    /// Restores the cursor if a signal ends the process.
    cursor_guard: Option<CursorGuard>,
}

impl View for Live {
    fn event(&mut self, event: Event<'_>) {
        self.view.event(event);
        self.stop_if_requested();
    }

    fn flush(&mut self) {
        self.view.flush();
        self.stop_if_requested();
    }

    fn followed_job(&self) -> Option<JobId> {
        self.view.followed_job()
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.view.tick_interval()
    }
}

impl Live {
    fn stop_if_requested(&mut self) {
        if self.view.tick_interval().is_none() {
            (self.stop_flag, self.cursor_guard) = (None, None);
            return;
        }
        if self.cursor_guard.is_none() {
            self.cursor_guard = standard_output().map(CursorGuard::begin);
        }
        let stop_flag = self.stop_flag.get_or_insert_with(StopFlag::listen);
        if let Some(stop_flag) = stop_flag.as_ref().filter(|stop_flag| stop_flag.is_set()) {
            self.view.hide();
            stop_flag.stop();
        }
    }
}

/// Creates the view. The error is about an invalid status format.
pub fn create(options: &Options) -> Result<Display, Vec<u8>> {
    let format = match &options.settings.status.value {
        StatusFormat::Percent(text) => ProgressFormat::parse_ninja_status(text),
        StatusFormat::Variables(text) => ProgressFormat::parse_status(text).map_err(|bad| bad.0)?,
    };
    let is_shown = options.settings.format.value != values::OutputFormat::Jsonl
        && options.settings.verbosity.value != Verbosity::Quiet;
    let checked = if is_shown { format.check() } else { Ok(()) };
    Ok(Display { kind: kind(options, format), format: checked })
}

fn kind(options: &Options, format: ProgressFormat) -> Kind {
    if options.settings.format.value == values::OutputFormat::Jsonl {
        return Kind::Lines(Box::new(Stream::new(Box::new(io::stdout()))));
    }
    let columns = Box::new(|| terminal::columns(io::stdout()));
    let terminal = Terminal::detect(io::stdout().is_terminal(), |name| std::env::var_os(name), columns);
    let own_file = if terminal.smart && wants_live(options) { standard_output() } else { None };
    match own_file {
        Some(out) => Kind::Live(Box::new(live(options, format, &terminal, out))),
        None => Kind::Plain(Box::new(plain(options, format, terminal))),
    }
}

/// The live view is not used with options that need every line.
fn wants_live(options: &Options) -> bool {
    let wanted = match options.settings.format.value {
        values::OutputFormat::Auto => options.invocation == Invocation::Tanto,
        values::OutputFormat::Live => true,
        values::OutputFormat::Plain | values::OutputFormat::Jsonl => false,
    };
    wanted && options.settings.verbosity.value == Verbosity::Normal && !options.dry_run && !options.debug.explain
}

/// A separate file: Rust's buffered standard output would split a frame into two writes.
fn standard_output() -> Option<File> {
    io::stdout().as_fd().try_clone_to_owned().ok().map(File::from)
}

fn plain(options: &Options, format: ProgressFormat, terminal: Terminal) -> NinjaView {
    let config = ninja::NinjaConfig {
        program: options.invocation.name(),
        verbosity: options.settings.verbosity.value,
        format,
        explain: options.debug.explain,
        holds: options.invocation == Invocation::Tanto,
        notes: options.invocation == Invocation::Tanto,
        rest: io::stdout().is_terminal().then(|| rest(options)),
        // Under the name `ninja`, failures go to the same stream as in ninja.
        failures_to_err: options.settings.format.value == values::OutputFormat::Plain
            && options.invocation == Invocation::Tanto,
        parallelism: parallelism(options),
    };
    NinjaView::new(config, terminal, Box::new(io::stdout()), Box::new(io::stderr()))
}

fn live(options: &Options, format: ProgressFormat, terminal: &Terminal, out: File) -> Live {
    let config = live::LiveConfig {
        program: options.invocation.name(),
        format,
        own_format: options.settings.status.is_set(),
        parallelism: parallelism(options),
        rest: rest(options),
        color: terminal.color,
        unicode: terminal.unicode,
        size: Box::new(|| terminal::size(io::stdout())),
        in_background: Box::new(|| terminal::is_in_background(io::stdout())),
    };
    Live { view: LiveView::new(config, Box::new(out), Box::new(io::stderr())), stop_flag: None, cursor_guard: None }
}

/// Where the user finds output that was truncated on the terminal.
fn rest(options: &Options) -> FullOutputHint {
    if options.settings.record.value { FullOutputHint::Recorded(options.dir.clone()) } else { FullOutputHint::Lost }
}

/// The number of parallel commands, computed on demand: counting CPUs reads five files, and no-op builds do not need
/// it.
fn parallelism(options: &Options) -> Box<dyn Fn() -> usize> {
    let jobs = options.settings.jobs.value;
    Box::new(move || jobs.limit(cpu::count))
}

/// Prints `ninja: fatal: TEXT`; ignores errors.
pub fn fatal(invocation: Invocation, text: &[u8]) {
    let _ = io::stderr().write_all(&[invocation.name().as_bytes(), b": fatal: ", text, b"\n"].concat());
}
