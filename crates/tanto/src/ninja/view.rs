//! Which view a run has on standard output: ninja's status lines, or a live region. Does not know what is shown.

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

use crate::flags::Options;
use crate::flags::door::Door;
use crate::settings::layer::{self, StatusFormat};

/// What the user sees of a run.
pub struct Shown {
    kind: Kind,
    format: Result<(), FormatError>,
}

enum Kind {
    Plain(Box<NinjaView>),
    Live(Box<Live>),
    Lines(Box<Stream>),
}

impl Shown {
    /// Complains of a status format that cannot be shown, if it is to be shown at all. To be called when there is
    /// something to run, before the first command: ninja does not look at the format earlier.
    pub fn check_format(&self) -> Result<(), FormatError> {
        self.format.clone()
    }

    /// Commands are about to run.
    pub fn begin(&mut self, head: &Head) {
        if let Kind::Lines(stream) = &mut self.kind {
            stream.begin(head);
        }
    }

    /// From now on shows the output of this command while it runs. False if the view has no place for it.
    pub fn follow(&mut self, follow: Follow) -> bool {
        match &mut self.kind {
            Kind::Live(live) => live.view.follow(follow),
            Kind::Plain(_) | Kind::Lines(_) => return false,
        }
        true
    }

    /// It sums up a build that failed.
    pub fn sums_up(&self) -> bool {
        matches!(self.kind, Kind::Live(_))
    }

    /// It tells of all that happens, in lines that nothing may stand between.
    pub fn is_lines(&self) -> bool {
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

impl View for Shown {
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

/// The live view, which is taken off the screen when the terminal asks for a halt.
struct Live {
    view: LiveView,
    /// Listened to while the screen is ours (where that can be): a command that has it halts with us.
    halts: Option<Option<StopFlag>>,
    /// Shows the cursor if a signal ends us in that time.
    rescue: Option<CursorGuard>,
}

impl View for Live {
    fn event(&mut self, event: Event<'_>) {
        self.view.event(event);
        self.halt_if_asked();
    }

    fn flush(&mut self) {
        self.view.flush();
        self.halt_if_asked();
    }

    fn followed_job(&self) -> Option<JobId> {
        self.view.followed_job()
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.view.tick_interval()
    }
}

impl Live {
    fn halt_if_asked(&mut self) {
        if self.view.tick_interval().is_none() {
            (self.halts, self.rescue) = (None, None);
            return;
        }
        if self.rescue.is_none() {
            self.rescue = standard_output().map(CursorGuard::begin);
        }
        let halts = self.halts.get_or_insert_with(StopFlag::listen);
        if let Some(halts) = halts.as_ref().filter(|halts| halts.is_set()) {
            self.view.hide();
            halts.stop();
        }
    }
}

/// The view that the options ask for. An error is a format that makes no sense.
pub fn of(options: &Options) -> Result<Shown, Vec<u8>> {
    let format = match &options.status {
        StatusFormat::Percent(text) => ProgressFormat::parse_ninja_status(text),
        StatusFormat::Variables(text) => ProgressFormat::parse_status(text).map_err(|bad| bad.0)?,
    };
    let is_shown = options.format != layer::Shown::Jsonl && options.verbosity != Verbosity::Quiet;
    let checked = if is_shown { format.check() } else { Ok(()) };
    Ok(Shown { kind: kind(options, format), format: checked })
}

fn kind(options: &Options, format: ProgressFormat) -> Kind {
    if options.format == layer::Shown::Jsonl {
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

/// Where lines that are written over would show less than was asked for, ninja's are printed.
fn wants_live(options: &Options) -> bool {
    let wanted = match options.format {
        layer::Shown::Auto => options.door == Door::Tanto,
        layer::Shown::Live => true,
        layer::Shown::Plain | layer::Shown::Jsonl => false,
    };
    wanted && options.verbosity == Verbosity::Normal && !options.dry_run && !options.debug.explain
}

/// Standard output as a file of our own: Rust's own would write a frame in two pieces.
fn standard_output() -> Option<File> {
    io::stdout().as_fd().try_clone_to_owned().ok().map(File::from)
}

fn plain(options: &Options, format: ProgressFormat, terminal: Terminal) -> NinjaView {
    let config = ninja::NinjaConfig {
        program: options.door.name(),
        verbosity: options.verbosity,
        format,
        explain: options.debug.explain,
        holds: options.door == Door::Tanto,
        notes: options.door == Door::Tanto,
        rest: io::stdout().is_terminal().then(|| rest(options)),
        // Under the name ninja, what goes where is ninja's.
        failures_to_err: options.format == layer::Shown::Plain && options.door == Door::Tanto,
        parallelism: parallelism(options),
    };
    NinjaView::new(config, terminal, Box::new(io::stdout()), Box::new(io::stderr()))
}

fn live(options: &Options, format: ProgressFormat, terminal: &Terminal, out: File) -> Live {
    let config = live::LiveConfig {
        program: options.door.name(),
        format,
        own_format: options.own_status,
        parallelism: parallelism(options),
        rest: rest(options),
        color: terminal.color,
        unicode: terminal.unicode,
        size: Box::new(|| terminal::size(io::stdout())),
        in_background: Box::new(|| terminal::is_in_background(io::stdout())),
    };
    Live { view: LiveView::new(config, Box::new(out), Box::new(io::stderr())), halts: None, rescue: None }
}

/// Where the user finds the middle of output that is too long for a terminal.
fn rest(options: &Options) -> FullOutputHint {
    if options.record { FullOutputHint::Recorded(options.dir.clone()) } else { FullOutputHint::Lost }
}

/// How many commands run at a time. The processors are counted when there is something to run: that takes reading five
/// files, and most runs have nothing to do.
fn parallelism(options: &Options) -> Box<dyn Fn() -> usize> {
    let jobs = options.jobs;
    Box::new(move || jobs.limit(cpu::count))
}

/// Says `ninja: fatal: TEXT`; that nobody hears it is no error.
pub fn fatal(door: Door, text: &[u8]) {
    let _ = io::stderr().write_all(&[door.name().as_bytes(), b": fatal: ", text, b"\n"].concat());
}
