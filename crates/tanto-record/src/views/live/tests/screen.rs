//! A simulated terminal with scrollback. It accepts only sequences that the live view sends.

use unicode_width::UnicodeWidthChar;

/// Behaviour for long lines when the window becomes narrower.
#[derive(Clone, Copy, PartialEq)]
pub enum Habit {
    /// Cuts them, like xterm.
    Cuts,
    /// Reflows them, like most others.
    Reflows,
}

#[derive(Clone, Default)]
struct Line {
    /// A wide character is followed by a NUL.
    cells: Vec<char>,
    /// The next line continues it.
    goes_on: bool,
}

pub struct Screen {
    columns: usize,
    rows: usize,
    habit: Habit,
    /// Scrollback, followed by the screen.
    lines: Vec<Line>,
    /// The first line on the screen.
    top: usize,
    /// The cursor's line, counted from the first of all, and column.
    line: usize,
    column: usize,
    wraps: bool,
    /// The cursor is visible.
    pub cursor: bool,
    /// Within a synchronized update.
    updates: bool,
    /// Number of writes.
    pub writes: usize,
    /// The start of an incomplete escape sequence or character.
    torn: Vec<u8>,
}

impl Screen {
    pub fn new(columns: usize, rows: usize, habit: Habit) -> Screen {
        Screen {
            columns,
            rows,
            habit,
            lines: vec![Line::default()],
            top: 0,
            line: 0,
            column: 0,
            wraps: true,
            cursor: true,
            updates: false,
            writes: 0,
            torn: Vec::new(),
        }
    }

    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// Returns the screen, without trailing spaces and empty lines.
    pub fn shown(&self) -> String {
        text(&self.lines[self.top..])
    }

    /// Returns the scrollback and the screen, with wrapped lines joined.
    pub fn all(&self) -> String {
        text(&self.logical())
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.writes += 1;
        let bytes = [std::mem::take(&mut self.torn), bytes.to_vec()].concat();
        let text = String::from_utf8(bytes).expect("whole characters");
        let mut rest = text.as_str();
        while let Some(char) = rest.chars().next() {
            rest = &rest[char.len_utf8()..];
            match char {
                '\r' => self.column = 0,
                '\n' => self.feed(),
                '\x1b' => rest = self.sequence(rest),
                char => self.put(char),
            }
        }
        assert!(self.wraps && !self.updates, "a frame ends with lines that wrap, and shown");
    }

    fn sequence<'t>(&mut self, rest: &'t str) -> &'t str {
        let end = rest.find(|char: char| char.is_ascii_alphabetic()).expect("a whole sequence");
        let (sequence, rest) = rest.split_at(end + 1);
        match sequence {
            "[J" => {
                self.lines.truncate(self.line + 1);
                self.erase_line();
            }
            "[K" => self.erase_line(),
            "[?7l" => self.wraps = false,
            "[?7h" => self.wraps = true,
            "[?25l" => self.cursor = false,
            "[?25h" => self.cursor = true,
            "[?2026h" => self.updates = true,
            "[?2026l" => self.updates = false,
            up if up.ends_with('A') => {
                let by: usize = up[1..up.len() - 1].parse().expect("a number");
                assert!(by <= self.line - self.top, "the cursor would leave the screen");
                self.line -= by;
            }
            color if color.ends_with('m') => {}
            other => panic!("unexpected sequence {other:?}"),
        }
        rest
    }

    fn erase_line(&mut self) {
        let column = self.column;
        let line = &mut self.lines[self.line];
        line.cells.truncate(column);
        line.goes_on = false;
        // A line that is erased from its start continues no other.
        if column == 0 && self.line > 0 {
            self.lines[self.line - 1].goes_on = false;
        }
    }

    fn feed(&mut self) {
        self.column = 0;
        self.line += 1;
        if self.line == self.lines.len() {
            self.lines.push(Line::default());
        }
        self.top = self.top.max((self.line + 1).saturating_sub(self.rows));
    }

    fn put(&mut self, char: char) {
        assert!(!char.is_control(), "control character {char:?}");
        let width = char.width().unwrap_or(0);
        if width == 0 {
            return;
        }
        if self.column + width > self.columns {
            if !self.wraps {
                return;
            }
            self.lines[self.line].goes_on = true;
            self.feed();
        }
        let line = &mut self.lines[self.line];
        line.cells.resize(line.cells.len().max(self.column + width), ' ');
        line.cells[self.column] = char;
        if width == 2 {
            line.cells[self.column + 1] = '\0';
        }
        self.column += width;
    }

    /// Resizes the window.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        let below = self.lines.len() - self.line - 1;
        let height = self.lines.len() - self.top;
        // Lines below the cursor go first, then those at the top.
        self.lines.truncate(self.lines.len() - below.min(height.saturating_sub(rows)));
        (self.columns, self.rows) = (columns, rows);
        match self.habit {
            Habit::Cuts => self.lines[self.top..].iter_mut().for_each(|line| line.cells.truncate(columns)),
            Habit::Reflows => self.reflow(),
        }
        self.column = self.column.min(columns - 1);
        self.top = self.lines.len().saturating_sub(rows).min(self.line);
        self.lines.truncate(self.top + rows);
    }

    fn reflow(&mut self) {
        let before = self.lines[..self.line].iter().filter(|line| !line.goes_on).count();
        let logical = self.logical();
        self.lines.clear();
        for (at, line) in logical.into_iter().enumerate() {
            if at == before {
                self.line = self.lines.len();
            }
            let mut cells = line.cells.as_slice();
            while cells.len() > self.columns {
                let cut = if cells[self.columns] == '\0' { self.columns - 1 } else { self.columns };
                self.lines.push(Line { cells: cells[..cut].to_vec(), goes_on: true });
                cells = &cells[cut..];
            }
            self.lines.push(Line { cells: cells.to_vec(), goes_on: false });
        }
    }

    fn logical(&self) -> Vec<Line> {
        let mut logical: Vec<Line> = Vec::new();
        let mut goes_on = false;
        for line in &self.lines {
            match logical.last_mut().filter(|_| goes_on) {
                Some(last) => last.cells.extend_from_slice(&line.cells),
                None => logical.push(Line { cells: line.cells.clone(), goes_on: false }),
            }
            goes_on = line.goes_on;
        }
        logical
    }
}

fn text(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let text: String = line.cells.iter().filter(|&&cell| cell != '\0').collect();
        text.trim_end().to_owned() + "\n"
    };
    let text: String = lines.iter().map(line).collect();
    let end = text.trim_end_matches('\n').len();
    text[..end].to_owned()
}
