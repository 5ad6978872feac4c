//! The view on standard output: ninja's status lines, the live view, or JSON lines; and the recorder beside it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tanto_exec::event::{Event, View};
use tanto_exec::job::JobId;
use tanto_sys::terminal::cursor::CursorGuard;
use tanto_sys::terminal::stop_flag::StopFlag;

use crate::jsonl::{Head, Stream};
use crate::session::recorder::Recorder;
use crate::views::live::{Follow, LiveConfig, LiveView};
use crate::views::ninja::{NinjaConfig, NinjaView};
use crate::views::status_format::FormatError;
use crate::views::terminal::Terminal;

/// The view on standard output.
pub struct Display {
    kind: Kind,
    format: Result<(), FormatError>,
}

enum Kind {
    Plain(Box<NinjaView>),
    Live(Box<TerminalView>),
    Lines(Box<Stream>),
}

impl Display {
    /// Events as lines of JSON.
    pub fn lines() -> Display {
        Display { kind: Kind::Lines(Box::new(Stream::new(Box::new(io::stdout())))), format: Ok(()) }
    }

    /// The lines of ninja. `format`: an error in the status format.
    pub fn plain(config: NinjaConfig, terminal: Terminal, format: Result<(), FormatError>) -> Display {
        let view = NinjaView::new(config, terminal, Box::new(io::stdout()), Box::new(io::stderr()));
        Display { kind: Kind::Plain(Box::new(view)), format }
    }

    /// The live region, on `out`.
    pub fn live(config: LiveConfig, out: File, format: Result<(), FormatError>) -> Display {
        let view = LiveView::new(config, Box::new(out), Box::new(io::stderr()));
        let view = TerminalView { view, stop_flag: None, cursor_guard: None };
        Display { kind: Kind::Live(Box::new(view)), format }
    }

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
struct TerminalView {
    view: LiveView,
    /// Listens while the live region is shown: a console command stops together with this process.
    stop_flag: Option<Option<StopFlag>>,
    /// Restores the cursor if a signal ends the process.
    cursor_guard: Option<CursorGuard>,
}

impl View for TerminalView {
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

impl TerminalView {
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

/// The view and the recorder of a build.
pub struct Views {
    pub display: Display,
    pub recorder: Recorder,
}

impl View for Views {
    fn event(&mut self, event: Event<'_>) {
        self.recorder.event(event);
        self.display.event(event);
    }

    fn flush(&mut self) {
        self.display.flush();
        self.recorder.flush();
    }

    fn followed_job(&self) -> Option<JobId> {
        self.display.followed_job()
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.display.tick_interval()
    }
}

/// A separate file: Rust's buffered standard output would split a frame into two writes.
pub fn standard_output() -> Option<File> {
    io::stdout().as_fd().try_clone_to_owned().ok().map(File::from)
}
