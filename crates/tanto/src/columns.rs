//! Tables as text. Does not know what stands in them.

/// Lines of cells, with the columns to the right.
pub fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_end_together() {
        let table = [vec!["a".to_owned(), "b".into()], vec!["100".into()]];
        assert_eq!(aligned(&table), "  a  b\n100\n");
    }
}
