//! Formats measured values and CSV cells.

/// Formats a fraction: 0.126 is `13 %`; `-` if unknown.
pub fn percent(fraction: Option<f64>) -> String {
    fraction.map_or("-".into(), |fraction| format!("{:.0} %", fraction * 100.0))
}

/// Formats bytes in MiB, rounded up; `-` if unknown.
pub fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| format!("{} MiB", bytes.div_ceil(1 << 20)))
}

/// Quotes a CSV cell where necessary.
pub fn csv_cell(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded() {
        assert_eq!((percent(Some(0.126)), percent(None)), ("13 %".to_owned(), "-".to_owned()));
        assert_eq!((mebibytes(Some(1)), mebibytes(None)), ("1 MiB".to_owned(), "-".to_owned()));
    }

    #[test]
    fn csv_cells_are_quoted_where_necessary() {
        assert_eq!([csv_cell("a b"), csv_cell("a,b"), csv_cell("\"a\"")], ["a b", "\"a,b\"", "\"\"\"a\"\"\""]);
    }
}
