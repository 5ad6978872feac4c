//! A row of the screen with its width.

use super::text;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Plain,
    /// Less important.
    Faint,
    /// Progress.
    Done,
    /// Late or throttled.
    Late,
    /// Failed.
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Faint => "\x1b[2m",
            Style::Done => "\x1b[32m",
            Style::Late => "\x1b[33m",
            Style::Bad => "\x1b[1;31m",
        }
    }
}

pub(super) struct Row {
    bytes: String,
    columns: usize,
    color: bool,
}

impl Row {
    pub(super) fn new(color: bool) -> Row {
        Row { bytes: String::new(), columns: 0, color }
    }

    /// Appends text without control characters.
    pub(super) fn push(&mut self, style: Style, piece: &str) {
        self.columns += text::columns(piece);
        if self.color && style != Style::Plain && !piece.is_empty() {
            self.bytes.push_str(style.code());
            self.bytes.push_str(piece);
            self.bytes.push_str("\x1b[0m");
        } else {
            self.bytes.push_str(piece);
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn into_bytes(self) -> String {
        self.bytes
    }
}
