//! The last rows of what has been written to a terminal, which can be taken back and written again. Does not know what
//! they say.
//!
//! Between two frames the cursor stands where the region begins. So it does after any change of the window's size,
//! whether the terminal wraps its rows anew or cuts them, and "erase from here to the end" always finds the whole region.

use std::io::Write;

/// From the cursor's line to the end of the screen.
const ERASE: &[u8] = b"\r\x1b[J";
/// Rows are cut, not wrapped, where the terminal finds them wider than we do.
const NO_WRAP: &[u8] = b"\x1b[?7l";
const WRAP: &[u8] = b"\x1b[?7h";
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
/// A terminal that knows synchronized updates shows what is between the two at once; others ignore both.
const BEGIN_UPDATE: &[u8] = b"\x1b[?2026h";
const END_UPDATE: &[u8] = b"\x1b[?2026l";

/// The region and what goes above it. What cannot be written is lost: a closed terminal must not end a build.
pub(super) struct Region {
    out: Box<dyn Write>,
    /// Goes above with the next frame; whole lines.
    above: Vec<u8>,
    /// The rows on the screen; none while the region is not there.
    rows: Vec<String>,
    /// Others wrote: the cursor may stand anywhere in a line, which is to stay.
    is_strange: bool,
    /// The cursor is hidden, as long as the region is there.
    hides_cursor: bool,
}

impl Region {
    /// `out` is the terminal; it should hold nothing back.
    pub(super) fn new(out: Box<dyn Write>) -> Region {
        Region { out, above: Vec::new(), rows: Vec::new(), is_strange: false, hides_cursor: false }
    }

    /// `text` will stand above the region, for good. A last line without an end gets one.
    pub(super) fn above(&mut self, text: &[u8]) {
        self.above.extend_from_slice(text);
        if text.last().is_some_and(|&byte| byte != b'\n') {
            self.above.push(b'\n');
        }
    }

    /// What was put above last may have left colours on.
    pub(super) fn plain(&mut self) {
        let end = self.above.len().saturating_sub(1);
        self.above.splice(end..end, *b"\x1b[0m");
    }

    /// Is there something that has not been written?
    fn is_pending(&self) -> bool {
        !self.above.is_empty()
    }

    fn is_up(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Shows these rows, each narrower than the terminal, and no more than it has. Writes nothing if nothing has
    /// changed, unless it is told to write `anew`.
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

    /// Takes the region off the screen, and leaves what goes above it.
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

    /// Others have written to the terminal since the region was cleared.
    pub(super) fn others_wrote(&mut self) {
        self.is_strange = true;
    }

    /// What goes above, where the region begins now. `erase` takes the old one away even if nothing goes above.
    fn begin(&mut self, width: usize, erase: bool) -> Vec<u8> {
        let mut frame = Vec::new();
        if std::mem::take(&mut self.is_strange) {
            // At a line's start this fills the line, and the cursor returns to its start. Elsewhere it ends on the next.
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
