//! A status line that is overwritten, and the output above it.

use std::io::{LineWriter, Write};

use tanto_sys::fs::spool::Spool;

use crate::text::elide;
use crate::views::terminal::Terminal;

/// Buffer for an unfinished line, as in C's standard output.
const BUFFER: usize = 8192;

/// Text of this length is written directly, without a copy.
const LONG: usize = 64 << 10;

/// Writes status lines and output in ninja's bytes. While the console is locked, keeps them, because another process
/// owns the terminal.
///
/// Standard output is line-buffered, standard error unbuffered. Ignores errors: a closed terminal must not end a build.
pub(crate) struct StatusLine {
    terminal: Terminal,
    out: LineWriter<Box<dyn Write>>,
    err: Box<dyn Write>,
    /// Text since the last `settle`, to save system calls.
    fresh: Vec<u8>,
    /// Length of the part that must be flushed.
    pressing: usize,
    /// The cursor is at the start of an empty line.
    is_blank: bool,
    is_locked: bool,
    /// The last status line while locked.
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

    /// Shows a status line, overwriting the previous one if the terminal can. While the console is locked, the next one
    /// replaces it unless there is output in between.
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

    /// Writes `text` on a new line.
    pub(crate) fn write_on_new_line(&mut self, text: &[u8]) {
        if self.is_locked && !self.held_line.is_empty() {
            self.held_line.push(b'\n');
            self.held_output.push(&self.held_line);
            self.held_line.clear();
        }
        if !self.is_blank {
            self.write(b"\n");
        }
        self.is_blank = true;
        self.write(text);
    }

    /// Writes `text` after that of `on_new_line`.
    pub(crate) fn write(&mut self, text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.is_blank = *last == b'\n';
        if self.is_locked {
            self.held_output.push(text);
        } else if text.len() < LONG {
            self.fresh.extend_from_slice(text);
        } else {
            self.flush();
            let _ = self.out.write_all(text);
        }
    }

    /// Another process owns the terminal from now on.
    pub(crate) fn lock(&mut self) {
        if !self.is_locked {
            self.write_on_new_line(b"");
            self.is_locked = true;
        }
    }

    /// Takes the terminal back and writes everything that was kept.
    pub(crate) fn unlock(&mut self) {
        if !self.is_locked {
            return;
        }
        self.is_locked = false;
        let output = std::mem::take(&mut self.held_output);
        self.write_on_new_line(b"");
        output.drain(|piece| self.write(piece));
        let line = std::mem::take(&mut self.held_line);
        if !line.is_empty() {
            self.status(&line);
        }
    }

    /// Writes to standard output, regardless of the lock.
    pub(crate) fn raw(&mut self, text: &[u8]) {
        self.fresh.extend_from_slice(text);
    }

    /// Writes to standard error.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.flush();
        let _ = self.err.write_all(text);
    }

    /// Writes the text since the last call.
    pub(crate) fn flush(&mut self) {
        let (pressing, rest) = self.fresh.split_at(std::mem::take(&mut self.pressing));
        if !pressing.is_empty() {
            let _ = self.out.write_all(pressing);
            let _ = self.out.flush();
        }
        let _ = self.out.write_all(rest);
        self.fresh.clear();
    }
}
