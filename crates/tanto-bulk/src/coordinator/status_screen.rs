//! Shows the status of a running build, once or until it ends.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use tanto_sys::terminal;

use super::queries::{self, LastRun};
use crate::config::Config;
use crate::error::BulkError;

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Describes the running build, or else the last one. `watch` shows a running build until it ends.
pub fn show(config: &Config, watch: bool) -> Result<String, BulkError> {
    let mut screen = Screen::default();
    loop {
        match queries::running(config)? {
            Some(text) if watch => screen.show(&text),
            Some(text) => return Ok(text),
            None => {
                screen.clear();
                let last = LastRun::read(config)?;
                return queries::summary(&last.store, last.run);
            }
        }
        thread::sleep(WATCH_INTERVAL);
    }
}

/// Text that is updated in place if standard output is a terminal.
#[derive(Default)]
struct Screen {
    /// Lines that the last text has on the screen.
    lines: usize,
}

impl Screen {
    fn show(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        let Some((columns, rows)) = terminal::size(io::stdout()).filter(|_| io::stdout().is_terminal()) else {
            // A closed output is no error.
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
            return;
        };
        let most = if rows > 1 { rows - 1 } else { usize::MAX };
        let shown: Vec<String> =
            text.lines().take(most).map(|line| line.chars().take(columns.wrapping_sub(1)).collect()).collect();
        let _ = writeln!(out, "{}{}", self.back(), shown.join("\n")).and_then(|()| out.flush());
        self.lines = shown.len();
    }

    fn clear(&mut self) {
        let mut out = io::stdout().lock();
        let _ = write!(out, "{}", self.back()).and_then(|()| out.flush());
        self.lines = 0;
    }

    /// The control sequence that erases the last text.
    fn back(&self) -> String {
        if self.lines == 0 { String::new() } else { format!("\x1b[{}A\r\x1b[J", self.lines) }
    }
}
