//! One line at the bottom of the screen that is written over, and what scrolls above it. Does not know what it says.

use std::io::{LineWriter, Write};

use tanto_sys::fs::spool::Spool;

use crate::text::elide;
use crate::views::terminal::Terminal;

/// How much of an unfinished line is held back, as in C's standard output.
const BUFFER: usize = 8192;

/// Text of so many bytes is written at once and not copied before.
const LONG: usize = 64 << 10;

/// Writes status lines and output to standard output, in ninja's bytes. While the console is locked it keeps them,
/// because another process owns the screen.
///
/// Standard output goes out line by line, and an unfinished line waits for its end; standard error at once. What
/// cannot be written is lost: a closed terminal must not end a build.
pub(crate) struct StatusLine {
    terminal: Terminal,
    out: LineWriter<Box<dyn Write>>,
    err: Box<dyn Write>,
    /// What was written since the last `settle`, so that it takes few calls of the system.
    fresh: Vec<u8>,
    /// So much of it must not wait for the end of its line.
    pressing: usize,
    /// The cursor is at the start of a line that nothing is written on.
    is_blank: bool,
    is_locked: bool,
    /// The last status line that came while locked.
    held_line: Vec<u8>,
    held_output: Spool,
}

impl StatusLine {
    pub(crate) fn new(terminal: Terminal, out: Box<dyn Write>, err: Box<dyn Write>) -> StatusLine {
        StatusLine {
            terminal,
            out: LineWriter::with_capacity(BUFFER, out),
            err,
            fresh: Vec::new(),
            pressing: 0,
            is_blank: true,
            is_locked: false,
            held_line: Vec::new(),
            held_output: Spool::default(),
        }
    }

    pub(crate) fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Shows a status line: over the one before where the terminal can, else on a line of its own. The next one
    /// takes its place while the console is locked, unless there is output in between.
    pub(crate) fn status(&mut self, line: &[u8]) {
        if self.is_locked {
            self.held_line.clear();
            self.held_line.extend_from_slice(line);
            return;
        }
        if self.terminal.smart {
            self.fresh.push(b'\r');
            match (self.terminal.columns)() {
                Some(width) => self.fresh.extend_from_slice(&elide::middle(line, width)),
                None => self.fresh.extend_from_slice(line),
            }
            self.fresh.extend_from_slice(b"\x1b[K");
            self.is_blank = false;
        } else {
            self.fresh.extend_from_slice(line);
            self.fresh.push(b'\n');
        }
        self.pressing = self.fresh.len();
    }

    /// Writes `text` from the start of a line on.
    pub(crate) fn on_new_line(&mut self, text: &[u8]) {
        if self.is_locked && !self.held_line.is_empty() {
            self.held_line.push(b'\n');
            self.held_output.push(&self.held_line);
            self.held_line.clear();
        }
        if !self.is_blank {
            self.more(b"\n");
        }
        self.is_blank = true;
        self.more(text);
    }

    /// Writes `text` behind what `on_new_line` wrote.
    pub(crate) fn more(&mut self, text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.is_blank = *last == b'\n';
        if self.is_locked {
            self.held_output.push(text);
        } else if text.len() < LONG {
            self.fresh.extend_from_slice(text);
        } else {
            self.settle();
            let _ = self.out.write_all(text);
        }
    }

    /// From now on another process owns the screen.
    pub(crate) fn lock(&mut self) {
        if !self.is_locked {
            self.on_new_line(b"");
            self.is_locked = true;
        }
    }

    /// The screen is ours again: writes what was held back.
    pub(crate) fn unlock(&mut self) {
        if !self.is_locked {
            return;
        }
        self.is_locked = false;
        let output = std::mem::take(&mut self.held_output);
        self.on_new_line(b"");
        output.drain(|piece| self.more(piece));
        let line = std::mem::take(&mut self.held_line);
        if !line.is_empty() {
            self.status(&line);
        }
    }

    /// Writes to standard output as it is, whatever is on the screen and whoever owns it.
    pub(crate) fn raw(&mut self, text: &[u8]) {
        self.fresh.extend_from_slice(text);
    }

    /// Writes to standard error as it is.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.settle();
        let _ = self.err.write_all(text);
    }

    /// Hands over what was written since the last call.
    pub(crate) fn settle(&mut self) {
        let (pressing, rest) = self.fresh.split_at(std::mem::take(&mut self.pressing));
        if !pressing.is_empty() {
            let _ = self.out.write_all(pressing);
            let _ = self.out.flush();
        }
        let _ = self.out.write_all(rest);
        self.fresh.clear();
    }
}
