//! Measured numbers as people read them. Does not know what was measured.

use std::time::Duration;

/// `0.0123 s`, `1.234 s`, `12.34 s`, `123.4 s`: four digits, and seconds whatever it is, so that columns compare.
pub fn seconds(seconds: f64) -> String {
    let digits = match seconds.abs() {
        ..0.1 => 4,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{seconds:.digits$} s")
}

/// As `seconds`.
pub fn time(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// A share of 1 as `12 %`; `-` for one that is not known.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// In MiB; `-` for what is not known.
pub fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| format!("{} MiB", bytes.div_ceil(1 << 20)))
}

/// How long something will take, roughly: `40 s`, `12 min`, `3 h 5 min`.
pub fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let table = [(0.01234, "0.0123 s"), (1.2344, "1.234 s"), (12.344, "12.34 s"), (123.44, "123.4 s")];
        for (number, text) in table {
            assert_eq!(seconds(number), text);
        }
        assert_eq!((percent(Some(0.126)), percent(None)), ("13 %".to_owned(), "-".to_owned()));
        assert_eq!((memory(Some(1)), memory(None)), ("1 MiB".to_owned(), "-".to_owned()));
        let rough = [(40, "40 s"), (125, "3 min"), (11_100, "3 h 5 min")];
        assert!(rough.iter().all(|&(secs, text)| super::rough(Duration::from_secs(secs)) == text));
    }
}
