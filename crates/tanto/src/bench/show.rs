//! Formats measured numbers.

/// A share of 1 as `12 %`; `-` for one that is not known.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// In MiB; `-` for what is not known.
pub fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| format!("{} MiB", bytes.div_ceil(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!((percent(Some(0.126)), percent(None)), ("13 %".to_owned(), "-".to_owned()));
        assert_eq!((memory(Some(1)), memory(None)), ("1 MiB".to_owned(), "-".to_owned()));
    }
}
