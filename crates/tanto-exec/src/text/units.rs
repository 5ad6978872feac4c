//! Durations and sizes as text.

use std::fmt;
use std::time::Duration;

/// Formats milliseconds: `850 ms`, `12.3 s`, `4:05 min`, `1:02:03 h`.
pub fn duration(ms: i64) -> String {
    let seconds = ms / 1000;
    match ms {
        ..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60_000..3_600_000 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02} h", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// Formats KiB: `850 KiB`, `12 MiB`, `1.5 GiB`; nothing for 0.
pub fn memory(kib: u64) -> String {
    match kib {
        0 => "".into(),
        1..1024 => format!("{kib} KiB"),
        1024..1_048_576 => format!("{} MiB", kib / 1024),
        _ => format!("{}.{} GiB", kib >> 20, (kib >> 10) % 1024 * 10 / 1024),
    }
}

/// Formats milliseconds in at most six columns: `7s`, `2m05s`, `1h02m`.
pub fn short_duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..360_000 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Formats KiB in at most five columns: `87M`, `1.4G`.
pub fn short_memory(kib: u64) -> String {
    let mib = kib.div_ceil(1024);
    match mib {
        0..1000 => format!("{mib}M"),
        1000..102_400 => format!("{:.1}G", mib as f64 / 1024.0),
        _ => format!("{}G", mib / 1024),
    }
}

/// `0.0123 s`, `1.234 s`, `12.34 s`, `123.4 s`: four significant digits, always in seconds, so that columns compare.
pub fn seconds(seconds: f64) -> String {
    let digits = match seconds.abs() {
        ..0.1 => 4,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{seconds:.digits$} s")
}

/// Formats an estimate: `40 s`, `12 min`, `3 h 5 min`.
pub fn rough_duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Displays milliseconds without rounding: 90,000 is `1m30s`, 1,500 is `1.5s`.
pub struct ExactDuration(pub i64);

impl fmt::Display for ExactDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1000, self.0 % 1000);
        let (hours, minutes, within) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        match (within, rest) {
            (0, 0) if seconds > 0 => Ok(()),
            (_, 0) => write!(f, "{within}s"),
            _ => write!(f, "{}s", format!("{within}.{rest:03}").trim_end_matches('0')),
        }
    }
}

/// Displays bytes: 1,610,612,736 is `1.5 GiB`.
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 0;
        while unit + 1 < UNITS.len() && self.0 >> (10 * (unit + 1)) > 0 {
            unit += 1;
        }
        let tenths = (u128::from(self.0) * 10) >> (10 * unit);
        match tenths % 10 {
            0 => write!(f, "{} {}", tenths / 10, UNITS[unit]),
            tenth => write!(f, "{}.{tenth} {}", tenths / 10, UNITS[unit]),
        }
    }
}

/// Each is 1024 times the previous one.
const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/// Writes a number with commas: `1,204`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.chars().enumerate().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1_204, 1_234_567].map(grouped), ["0", "999", "1,204", "1,234,567"]);
    }

    #[test]
    fn short_sizes_are_short() {
        let cases = [(0, "0M"), (1, "1M"), (999 << 10, "999M"), (1000 << 10, "1.0G"), (1_500 << 10, "1.5G")];
        for (kib, expected) in [&cases[..], &[(99 << 20, "99.0G"), (100 << 20, "100G"), (1 << 32, "4096G")]].concat() {
            assert_eq!(short_memory(kib), expected);
        }
    }

    #[test]
    fn short_durations_are_short() {
        let cases = [
            (-1, "0s"),
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_000, "59m59s"),
            (3_600_000, "1h00m"),
            (359_999_000, "99h59m"),
            (360_000_000, "4d04h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(short_duration(ms), expected);
        }
    }

    #[test]
    fn durations_and_sizes_have_units() {
        let times = [(0, "0 ms"), (999, "999 ms"), (1234, "1.2 s"), (61_000, "1:01 min"), (3_723_000, "1:02:03 h")];
        times.into_iter().for_each(|(ms, expected)| assert_eq!(duration(ms), expected));
        let sizes = [(0, ""), (5, "5 KiB"), (2048, "2 MiB"), (1_572_864, "1.5 GiB")];
        sizes.into_iter().for_each(|(kib, expected)| assert_eq!(memory(kib), expected));
    }

    #[test]
    fn exact_durations_have_units() {
        let cases = [(0, "0s"), (1, "0.001s"), (1500, "1.5s"), (90_000, "1m30s"), (600_000, "10m"), (7_200_000, "2h")];
        for (ms, text) in cases {
            assert_eq!(ExactDuration(ms).to_string(), text);
        }
        assert_eq!(ExactDuration(3_600_000 + 1_250).to_string(), "1h1.25s");
    }

    #[test]
    fn byte_sizes_have_units() {
        let cases =
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (3 << 29, "1.5 GiB"), (5000 << 40, "5000 TiB")];
        for (bytes, text) in cases {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn measured_times_have_four_digits() {
        let table = [(0.01234, "0.0123 s"), (1.2344, "1.234 s"), (12.344, "12.34 s"), (123.44, "123.4 s")];
        for (number, text) in table {
            assert_eq!(seconds(number), text);
        }
    }

    #[test]
    fn estimates_are_rough() {
        let rough = [(40, "40 s"), (125, "3 min"), (11_100, "3 h 5 min")];
        assert!(rough.iter().all(|&(secs, text)| rough_duration(Duration::from_secs(secs)) == text));
    }
}
