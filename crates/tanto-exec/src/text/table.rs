//! Aligned columns of text.

/// Rows of cells. Control characters are replaced by spaces.
pub struct Table {
    rows: Vec<Vec<Vec<u8>>>,
    alignment: Alignment,
}

enum Alignment {
    /// These columns, counted from 0, are right-aligned.
    Numbers(&'static [usize]),
    AllRight,
}

/// Aligns all columns at the right.
pub fn right_aligned(rows: &[Vec<String>]) -> String {
    let rows = rows.iter().map(|cells| cells.iter().map(|cell| printable(cell.as_bytes())).collect()).collect();
    String::from_utf8_lossy(&Table { rows, alignment: Alignment::AllRight }.text()).into_owned()
}

impl Table {
    /// Creates an empty table; `numbers` are the right-aligned columns, counted from 0.
    pub fn new(numbers: &'static [usize]) -> Table {
        Table { rows: Vec::new(), alignment: Alignment::Numbers(numbers) }
    }

    pub fn row<const N: usize>(&mut self, cells: [&[u8]; N]) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// Returns the text, with two spaces between columns.
    pub fn text(&self) -> Vec<u8> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell)).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = Vec::new();
        for row in &self.rows {
            let start = text.len();
            for (at, cell) in row.iter().enumerate() {
                let room = vec![b' '; widths[at] - letters(cell)];
                let is_right = match self.alignment {
                    Alignment::Numbers(columns) => columns.contains(&at),
                    Alignment::AllRight => true,
                };
                let (before, after) = if is_right { (&room[..], &b""[..]) } else { (&b""[..], &room[..]) };
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

/// The approximate width: the number of characters.
fn letters(cell: &[u8]) -> usize {
    String::from_utf8_lossy(cell).chars().count()
}

/// Replaces control characters, so that the text cannot affect the terminal.
pub fn printable(text: &[u8]) -> Vec<u8> {
    let control = |byte: u8| byte < 0x20 || byte == 0x7f;
    if !text.iter().any(|&byte| control(byte)) {
        return text.to_vec();
    }
    text.iter().map(|&byte| if control(byte) { b' ' } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_aligned() {
        let rows = [vec!["a".to_owned(), "b".into()], vec!["100".into()]];
        assert_eq!(right_aligned(&rows), "  a  b\n100\n");
    }

    #[test]
    fn text_is_left_aligned() {
        let mut table = Table::new(&[]);
        table.row([b"a", b"1", b"x"]);
        table.row([b"long", b"22", b""]);
        assert_eq!(table.text(), b"a     1   x\nlong  22\n");
    }
}
