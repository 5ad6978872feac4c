//! Columns of text. Does not know what is in them.

/// Rows of cells, the last of which takes as much room as it needs. What no terminal should see is taken out.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<Vec<u8>>>,
    /// Columns whose cells stand at the right.
    numbers: &'static [usize],
}

impl Table {
    /// An empty one; these columns, counted from 0, hold numbers.
    pub fn new(numbers: &'static [usize]) -> Table {
        Table { rows: Vec::new(), numbers }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&[u8]; N]) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// As text, two blanks between columns.
    pub fn text(&self) -> Vec<u8> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell)).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = Vec::new();
        for row in &self.rows {
            let start = text.len();
            for (at, cell) in row.iter().enumerate() {
                let room = vec![b' '; widths[at] - letters(cell)];
                let (before, after) =
                    if self.numbers.contains(&at) { (&room[..], &b""[..]) } else { (&b""[..], &room[..]) };
                let gap: &[u8] = if at > 0 { b"  " } else { b"" };
                [gap, before, cell, after].into_iter().for_each(|part| text.extend_from_slice(part));
            }
            let end = text.trim_ascii_end().len().max(start);
            text.truncate(end);
            text.push(b'\n');
        }
        text
    }
}

/// How many columns it takes, more or less: its letters.
fn letters(cell: &[u8]) -> usize {
    String::from_utf8_lossy(cell).chars().count()
}

/// Text on one line, that does nothing to a terminal.
pub fn printable(text: &[u8]) -> Vec<u8> {
    let control = |byte: u8| byte < 0x20 || byte == 0x7f;
    if !text.iter().any(|&byte| control(byte)) {
        return text.to_vec();
    }
    text.iter().map(|&byte| if control(byte) { b' ' } else { byte }).collect()
}
