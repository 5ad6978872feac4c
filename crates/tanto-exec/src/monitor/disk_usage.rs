//! Measures the size of a directory with `du` in the background.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Minimum interval between two measurements.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// At most one part in this many of the time goes into measuring.
const MAX_SHARE: u32 = 20;

/// Repeated measurement of one directory.
pub(super) struct DiskUsage {
    dir: PathBuf,
    /// Earliest start of the next measurement.
    next: Instant,
    running: Option<RunningDu>,
    kib: u64,
}

struct RunningDu {
    begun: Instant,
    du: Child,
    answer: Option<ChildStdout>,
}

pub(super) enum DuEvent {
    /// `du` was started; it belongs to no job.
    Started(u32),
    /// `du` has ended and was reaped.
    Finished(u32),
}

impl DiskUsage {
    pub(super) fn new(dir: &Path) -> DiskUsage {
        DiskUsage { dir: dir.to_owned(), next: Instant::now() + MIN_INTERVAL, running: None, kib: 0 }
    }

    /// Returns the last result in KiB.
    pub(super) fn kib(&self) -> u64 {
        self.kib
    }

    /// Starts a measurement if one is due, or takes the result of a finished one.
    pub(super) fn poll(&mut self) -> Option<DuEvent> {
        match &mut self.running {
            Some(running) => {
                // An error means that the process is gone.
                if matches!(running.du.try_wait(), Ok(None)) {
                    return None;
                }
                let pid = running.du.id();
                self.kib = running.answer().unwrap_or(self.kib);
                self.next = Instant::now() + MIN_INTERVAL.max(running.begun.elapsed() * MAX_SHARE);
                self.running = None;
                Some(DuEvent::Finished(pid))
            }
            None if Instant::now() >= self.next => {
                let running = RunningDu::begin(&self.dir);
                // Out of processes; try again later.
                self.next = Instant::now() + MIN_INTERVAL;
                self.running = running.ok();
                self.running.as_ref().map(|running| DuEvent::Started(running.du.id()))
            }
            None => None,
        }
    }

    /// Kills a running `du`, and returns its process ID.
    pub(super) fn end(&mut self) -> Option<u32> {
        let mut running = self.running.take()?;
        // An error means that it is gone.
        let _ = running.du.kill();
        let _ = running.du.wait();
        Some(running.du.id())
    }
}

impl RunningDu {
    fn begin(dir: &Path) -> io::Result<RunningDu> {
        let mut command = Command::new("du");
        command.arg("-skx").arg(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut du = command.spawn()?;
        let answer = du.stdout.take();
        Ok(RunningDu { begun: Instant::now(), du, answer })
    }

    /// Parses the number at the start of the output. `du` fails if files vanish meanwhile, but its number is still
    /// good.
    fn answer(&mut self) -> Option<u64> {
        let mut text = String::new();
        self.answer.take()?.take(MOST).read_to_string(&mut text).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }
}

/// Maximum length of the output.
const MOST: u64 = 64 << 10;

impl Drop for DiskUsage {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn usage_is_measured_in_the_background() {
        let place = Scratch::new("measure");
        std::fs::write(place.at("file"), vec![b'x'; 3 << 20]).unwrap();
        let mut measure = DiskUsage::new(place.path());
        assert!(measure.poll().is_none(), "not at once");
        measure.next = Instant::now();
        let Some(DuEvent::Started(started)) = measure.poll() else { panic!("du was not started") };
        let finished = loop {
            if let Some(event) = measure.poll() {
                break event;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(finished, DuEvent::Finished(pid) if pid == started));
        assert!(measure.kib() >= 3 << 10, "{}", measure.kib());
        assert!(measure.next > Instant::now() && measure.poll().is_none());
        assert_eq!(measure.end(), None);
    }

    #[test]
    fn a_missing_directory_has_no_usage() {
        let place = Scratch::new("measure-nothing");
        let mut measure = DiskUsage::new(&place.at("none"));
        measure.next = Instant::now();
        assert!(measure.poll().is_some());
        assert!(measure.end().is_some());
        assert_eq!(measure.kib(), 0);
    }
}
