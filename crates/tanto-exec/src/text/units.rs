//! Durations and sizes as text.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
