//! How far a bulk build has come before its packages: written down for `tanto bulk status` in another terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_bulk::config::Config;
use tanto_exec::event::{Event, View};
use tanto_exec::text::units::ExactDuration;
use tanto_sys::fs::file;
use tanto_sys::process::pid_identity::{self, ProcessId};
use tanto_sys::process::procs;

use super::build::now_ms;

/// Below the state.
const FILE: &str = "phase";
/// How often a phase that goes on is written down.
const WRITE_EVERY: Duration = Duration::from_millis(500);

/// A phase before packages are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Prepare,
    Scan,
    Resolve,
    Check,
}

impl Phase {
    const ALL: [Phase; 4] = [Phase::Prepare, Phase::Scan, Phase::Resolve, Phase::Check];

    fn name(self) -> &'static str {
        match self {
            Phase::Prepare => "preparing",
            Phase::Scan => "scanning",
            Phase::Resolve => "resolving",
            Phase::Check => "checking what is up to date",
        }
    }
}

/// Directories that are scanned.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    planned: usize,
    ended: usize,
    failed: usize,
}

/// This phase begins. What cannot be written down is only missing where somebody asks for it.
pub(super) fn begin(config: &Config, phase: Phase) {
    write(&path(config), phase, now_ms(), Counts::default());
}

/// Packages are built now, and say themselves how far they are.
pub(super) fn end(config: &Config) {
    let _ = fs::remove_file(path(config));
}

/// The phase of a build that has not come to its packages, in a line; none if there is no such build.
pub(super) fn told(config: &Config) -> Option<String> {
    told_of(&fs::read_to_string(path(config)).ok()?, now_ms())
}

fn path(config: &Config) -> PathBuf {
    Path::new(&config.state).join(FILE)
}

fn write(path: &Path, phase: Phase, since_ms: i64, counts: Counts) {
    let Ok(own) = ProcessId::current() else { return };
    let Counts { planned, ended, failed } = counts;
    let text = format!("{own} {} {since_ms} {planned} {ended} {failed} {}\n", pid_identity::boot_id(), phase.name());
    let _ = file::write_atomically(path, |file| std::io::Write::write_all(file, text.as_bytes()));
}

fn told_of(text: &str, now_ms: i64) -> Option<String> {
    let mut words = text.trim_end().splitn(7, ' ');
    let owner = ProcessId::parse(words.next()?.as_bytes())?;
    let is_running = procs::stat(owner.pid()).is_some_and(|look| look.process == owner && !look.is_gone());
    if words.next()? != pid_identity::boot_id() || !is_running {
        return None;
    }
    let mut number = || words.next()?.parse::<i64>().ok();
    let (since_ms, planned, ended, failed) = (number()?, number()?, number()?, number()?);
    let name = words.next()?;
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name)?;
    let length = ExactDuration((now_ms - since_ms).max(0) / 1000 * 1000);
    let mut line = phase.name().to_owned();
    if planned > 0 {
        line += &format!(": {ended} of {planned} directories");
    }
    if failed > 0 {
        line += &format!(", {failed} failed");
    }
    Some(format!("{line}, for {length} now\n"))
}

/// Writes down how far a scan is, and hands on what it sees.
pub(super) struct Progress<'v> {
    view: &'v mut dyn View,
    path: PathBuf,
    since_ms: i64,
    counts: Counts,
    /// All commands that were planned together have ended.
    is_over: bool,
    written: Option<Instant>,
}

impl<'v> Progress<'v> {
    /// The scan begins.
    pub(super) fn of(config: &Config, view: &'v mut dyn View) -> Progress<'v> {
        begin(config, Phase::Scan);
        let (path, since_ms) = (path(config), now_ms());
        Progress { view, path, since_ms, counts: Counts::default(), is_over: false, written: None }
    }
}

impl View for Progress<'_> {
    fn event(&mut self, event: Event<'_>) {
        match &event {
            Event::Planned { .. } => {
                if std::mem::take(&mut self.is_over) {
                    self.counts = Counts::default();
                }
                self.counts.planned += 1;
            }
            Event::BuildStarted { .. } => self.written = None,
            Event::BuildFinished { .. } => self.is_over = true,
            Event::Finished { exit, .. } => {
                self.counts.ended += 1;
                self.counts.failed += usize::from(!exit.success());
            }
            _ => {}
        }
        let is_news = matches!(event, Event::BuildStarted { .. } | Event::Finished { .. });
        if is_news && self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            write(&self.path, Phase::Scan, self.since_ms, self.counts);
            self.written = Some(Instant::now());
        }
        self.view.event(event);
    }

    fn flush(&mut self) {
        self.view.flush();
    }

    fn tick_interval(&self) -> Option<Duration> {
        self.view.tick_interval()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn a_phase_is_told_while_its_process_runs() {
        let place = Scratch::new("bulk-phase");
        let told = || told_of(&fs::read_to_string(place.at("phase")).unwrap(), 65_500);
        write(&place.at("phase"), Phase::Scan, 500, Counts { planned: 1200, ended: 7, failed: 1 });
        assert_eq!(told().as_deref(), Some("scanning: 7 of 1200 directories, 1 failed, for 1m5s now\n"));
        write(&place.at("phase"), Phase::Check, 64_000, Counts::default());
        assert_eq!(told().as_deref(), Some("checking what is up to date, for 1s now\n"));
        let text = fs::read_to_string(place.at("phase")).unwrap();
        place.write("phase", text.replacen('.', ".9", 1));
        assert_eq!(told(), None, "another process has its number");
        for damaged in ["", "x", "1.2 boot 0 0", &text.replace("checking", "doing")] {
            assert_eq!(told_of(damaged, 0), None, "{damaged}");
        }
    }
}
