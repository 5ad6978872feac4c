//! The file that shows the phase of a bulk build before its packages, for `tanto bulk status`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_exec::event::{Event, View};
use tanto_exec::text::units::ExactDuration;
use tanto_sys::fs::file;
use tanto_sys::process::pid_identity::{self, ProcessId};
use tanto_sys::process::procs;

use super::now_ms;
use crate::config::Config;

/// Its name in the state directory.
const FILE: &str = "phase";
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// A phase before packages are built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
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
            Phase::Check => "checking for up-to-date packages",
        }
    }
}

/// Directories of a scan.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct ScanCounts {
    planned: usize,
    ended: usize,
    failed: usize,
}

/// Records the start of a phase. A failure only makes `status` incomplete.
pub fn begin(config: &Config, phase: Phase) {
    write(&path(config), phase, now_ms(), ScanCounts::default());
}

/// Removes the file: from now on the control socket answers.
pub fn end(config: &Config) {
    let _ = fs::remove_file(path(config));
}

/// Describes the phase of a running build in a line; `None` if no build is in such a phase.
pub fn describe(config: &Config) -> Option<String> {
    parse(&fs::read_to_string(path(config)).ok()?, now_ms())
}

fn path(config: &Config) -> PathBuf {
    Path::new(&config.state).join(FILE)
}

fn write(path: &Path, phase: Phase, since_ms: i64, counts: ScanCounts) {
    let Ok(own) = ProcessId::current() else { return };
    let ScanCounts { planned, ended, failed } = counts;
    let text = format!("{own} {} {since_ms} {planned} {ended} {failed} {}\n", pid_identity::boot_id(), phase.name());
    let _ = file::write_atomically(path, |file| file.write_all(text.as_bytes()));
}

fn parse(text: &str, now_ms: i64) -> Option<String> {
    let mut words = text.trim_end().splitn(7, ' ');
    let owner = ProcessId::parse(words.next()?.as_bytes())?;
    let is_running = procs::stat(owner.pid()).is_some_and(|stat| stat.process == owner && !stat.is_gone());
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

/// A view that records the progress of a scan and forwards all events.
pub struct ScanProgress<'v> {
    view: &'v mut dyn View,
    path: PathBuf,
    since_ms: i64,
    counts: ScanCounts,
    /// The last batch of commands has ended.
    is_over: bool,
    written: Option<Instant>,
}

impl<'v> ScanProgress<'v> {
    pub fn new(config: &Config, view: &'v mut dyn View) -> ScanProgress<'v> {
        begin(config, Phase::Scan);
        let counts = ScanCounts::default();
        ScanProgress { view, path: path(config), since_ms: now_ms(), counts, is_over: false, written: None }
    }
}

impl View for ScanProgress<'_> {
    fn event(&mut self, event: Event<'_>) {
        match &event {
            Event::Planned { .. } => {
                if std::mem::take(&mut self.is_over) {
                    self.counts = ScanCounts::default();
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
        let is_progress = matches!(event, Event::BuildStarted { .. } | Event::Finished { .. });
        if is_progress && self.written.is_none_or(|written| written.elapsed() >= WRITE_INTERVAL) {
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
    fn phase_is_shown_while_its_process_runs() {
        let place = Scratch::new("bulk-phase");
        let described = || parse(&fs::read_to_string(place.at("phase")).unwrap(), 65_500);
        write(&place.at("phase"), Phase::Scan, 500, ScanCounts { planned: 1200, ended: 7, failed: 1 });
        assert_eq!(described().as_deref(), Some("scanning: 7 of 1200 directories, 1 failed, for 1m5s now\n"));
        write(&place.at("phase"), Phase::Check, 64_000, ScanCounts::default());
        assert_eq!(described().as_deref(), Some("checking for up-to-date packages, for 1s now\n"));
        let text = fs::read_to_string(place.at("phase")).unwrap();
        place.write("phase", text.replacen('.', ".9", 1));
        assert_eq!(described(), None, "another process with the same pid");
        for damaged in ["", "x", "1.2 boot 0 0", &text.replace("checking", "doing")] {
            assert_eq!(parse(damaged, 0), None, "{damaged}");
        }
    }
}
