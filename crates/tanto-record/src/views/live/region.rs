//! A region of rows at the bottom of the terminal that can be erased and redrawn.
//!
//! Between frames, the cursor is at the start of the region. It stays there when the window is resized, whether the
//! terminal reflows rows or cuts them, so "erase to the end of the screen" always erases the whole region.

use std::io::Write;

/// From the cursor's line to the end of the screen.
const ERASE: &[u8] = b"\r\x1b[J";
/// Rows that are wider than expected are cut, not wrapped.
const NO_WRAP: &[u8] = b"\x1b[?7l";
const WRAP: &[u8] = b"\x1b[?7h";
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
/// Synchronized updates: the terminal shows everything between the two at once. Others ignore both.
const BEGIN_UPDATE: &[u8] = b"\x1b[?2026h";
const END_UPDATE: &[u8] = b"\x1b[?2026l";

/// The region and the text above it. Ignores errors: a closed terminal must not end a build.
pub(super) struct Region {
    out: Box<dyn Write>,
    /// Whole lines to be written above the region by the next frame.
    above: Vec<u8>,
    /// The rows on the screen; empty without a region.
    rows: Vec<String>,
    /// Other programs have written: the cursor may be anywhere in a line, which must stay.
    is_strange: bool,
    /// The cursor is hidden while the region exists.
    hides_cursor: bool,
}

impl Region {
    /// `out` should be unbuffered.
    pub(super) fn new(out: Box<dyn Write>) -> Region {
        Region { out, above: Vec::new(), rows: Vec::new(), is_strange: false, hides_cursor: false }
    }

    /// Adds permanent text above the region. Completes the last line.
    pub(super) fn push_above(&mut self, text: &[u8]) {
        self.above.extend_from_slice(text);
        if text.last().is_some_and(|&byte| byte != b'\n') {
            self.above.push(b'\n');
        }
    }

    /// Resets colours after the last text.
    pub(super) fn reset_colors(&mut self) {
        let end = self.above.len().saturating_sub(1);
        self.above.splice(end..end, *b"\x1b[0m");
    }

    fn is_pending(&self) -> bool {
        !self.above.is_empty()
    }

    fn is_up(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Draws rows that fit the terminal. Writes nothing without a change, unless `anew` is set.
    pub(super) fn draw(&mut self, rows: Vec<String>, width: usize, anew: bool) {
        if !anew && !self.is_pending() && rows == self.rows {
            return;
        }
        let above = self.begin(width, anew);
        let mut frame = BEGIN_UPDATE.to_vec();
        if !std::mem::replace(&mut self.hides_cursor, true) {
            frame.extend_from_slice(HIDE_CURSOR);
        }
        frame.extend(above);
        frame.extend_from_slice(NO_WRAP);
        frame.push(b'\r');
        for (at, row) in rows.iter().enumerate() {
            frame.extend_from_slice(if at == 0 { b"" } else { b"\r\n" });
            frame.extend_from_slice(row.as_bytes());
            frame.extend_from_slice(b"\x1b[K");
        }
        frame.extend_from_slice(b"\x1b[J\r");
        if rows.len() > 1 {
            frame.extend_from_slice(format!("\x1b[{}A", rows.len() - 1).as_bytes());
        }
        frame.extend_from_slice(WRAP);
        frame.extend_from_slice(END_UPDATE);
        self.write(&frame);
        self.rows = rows;
    }

    /// Erases the region and writes the text above it.
    pub(super) fn clear(&mut self, width: usize) {
        if self.is_pending() || self.is_up() || self.is_strange {
            let mut frame = self.begin(width, true);
            self.rows.clear();
            if std::mem::take(&mut self.hides_cursor) {
                frame = [BEGIN_UPDATE, &frame, SHOW_CURSOR, END_UPDATE].concat();
            }
            self.write(&frame);
        }
    }

    /// Other programs have written to the terminal since `clear`.
    pub(super) fn others_wrote(&mut self) {
        self.is_strange = true;
    }

    /// Returns the text above the region. `erase` erases the old region even without such text.
    fn begin(&mut self, width: usize, erase: bool) -> Vec<u8> {
        let mut frame = Vec::new();
        if std::mem::take(&mut self.is_strange) {
            // At the start of a line, this fills the line and returns to its start; elsewhere it ends on the next line.
            frame.resize(width, b' ');
            frame.extend_from_slice(ERASE);
        } else if self.is_up() && (erase || self.is_pending()) {
            frame.extend_from_slice(ERASE);
        }
        frame.append(&mut self.above);
        frame
    }

    fn write(&mut self, frame: &[u8]) {
        let _ = self.out.write_all(frame);
        let _ = self.out.flush();
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if std::mem::take(&mut self.hides_cursor) {
            self.write(SHOW_CURSOR);
        }
    }
}
