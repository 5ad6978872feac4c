//! Measures the size of a directory with `du` in the background.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Minimum interval between two measurements.
const PAUSE: Duration = Duration::from_secs(1);
/// At most one part in this many of the time goes into measuring.
const SPARSE: u32 = 20;

/// Repeated measurement of one directory.
pub(super) struct Measure {
    dir: PathBuf,
    /// Earliest start of the next measurement.
    next: Instant,
    asking: Option<Asking>,
    kib: u64,
}

struct Asking {
    begun: Instant,
    du: Child,
    answer: Option<ChildStdout>,
}

pub(super) enum News {
    /// `du` was started; it belongs to no job.
    Asks(u32),
    /// `du` has ended and was reaped.
    Answered(u32),
}

impl Measure {
    pub(super) fn new(dir: &Path) -> Measure {
        Measure { dir: dir.to_owned(), next: Instant::now() + PAUSE, asking: None, kib: 0 }
    }

    /// Returns the last result in KiB.
    pub(super) fn kib(&self) -> u64 {
        self.kib
    }

    /// Starts a measurement if one is due, or takes the result of a finished one.
    pub(super) fn go_on(&mut self) -> Option<News> {
        match &mut self.asking {
            Some(asking) => {
                // An error means that the process is gone.
                if matches!(asking.du.try_wait(), Ok(None)) {
                    return None;
                }
                let pid = asking.du.id();
                self.kib = asking.answer().unwrap_or(self.kib);
                self.next = Instant::now() + PAUSE.max(asking.begun.elapsed() * SPARSE);
                self.asking = None;
                Some(News::Answered(pid))
            }
            None if Instant::now() >= self.next => {
                let asking = Asking::begin(&self.dir);
                // Out of processes; try again later.
                self.next = Instant::now() + PAUSE;
                self.asking = asking.ok();
                self.asking.as_ref().map(|asking| News::Asks(asking.du.id()))
            }
            None => None,
        }
    }

    /// Kills a running `du`, and returns its process ID.
    pub(super) fn end(&mut self) -> Option<u32> {
        let mut asking = self.asking.take()?;
        // An error means that it is gone.
        let _ = asking.du.kill();
        let _ = asking.du.wait();
        Some(asking.du.id())
    }
}

impl Asking {
    fn begin(dir: &Path) -> io::Result<Asking> {
        let mut command = Command::new("du");
        command.arg("-skx").arg(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut du = command.spawn()?;
        let answer = du.stdout.take();
        Ok(Asking { begun: Instant::now(), du, answer })
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

impl Drop for Measure {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn what_lies_there_is_known_in_time() {
        let place = Scratch::new("measure");
        std::fs::write(place.at("file"), vec![b'x'; 3 << 20]).unwrap();
        let mut measure = Measure::new(place.path());
        assert!(measure.go_on().is_none(), "not at once");
        measure.next = Instant::now();
        let Some(News::Asks(asks)) = measure.go_on() else { panic!("nobody asks") };
        let answered = loop {
            if let Some(news) = measure.go_on() {
                break news;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(answered, News::Answered(pid) if pid == asks));
        assert!(measure.kib() >= 3 << 10, "{}", measure.kib());
        assert!(measure.next > Instant::now() && measure.go_on().is_none());
        assert_eq!(measure.end(), None);
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        let place = Scratch::new("measure-nothing");
        let mut measure = Measure::new(&place.at("none"));
        measure.next = Instant::now();
        assert!(measure.go_on().is_some());
        assert!(measure.end().is_some());
        assert_eq!(measure.kib(), 0);
    }
}
