//! Numbers as C's `strtol` and `strtod` parse them, as ninja does for its options; sizes and times.

/// Parses a decimal number after optional white space and a sign; nothing may follow it. Empty text is 0; values out of
/// range are clamped.
pub fn integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (negative, digits) = sign(text.trim_ascii_start_c());
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses a size in KiB: digits and K, M, G or T (KiB to TiB), optionally with `B` or `iB`.
pub fn size_kib(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let (letter, rest) = unit.split_first()?;
    let power = b"KMGT".iter().position(|known| known == &letter.to_ascii_uppercase())?;
    let known_rest = rest.is_empty() || rest.eq_ignore_ascii_case(b"b") || rest.eq_ignore_ascii_case(b"ib");
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok().filter(|_| known_rest)?;
    number.checked_mul(1 << (10 * power))
}

/// Parses the number at the start of the text.
pub fn real_prefix(text: &[u8]) -> Option<f64> {
    let (negative, text) = sign(text.trim_ascii_start_c());
    let magnitude = word(text).or_else(|| decimal(text))?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses a duration in milliseconds: numbers followed by `d`, `h`, `m`, `s` or `ms`, or one number in seconds.
/// Fractions of a millisecond are dropped. `None` if it is longer than a century.
pub fn milliseconds(text: &[u8]) -> Option<i64> {
    const CENTURY: f64 = 100.0 * 366.0 * 86_400_000.0;
    let (mut sum, mut rest) = (0.0, text);
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let number: f64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let letters = rest[digits..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let factor = match &rest[digits..digits + letters] {
            b"d" => 86_400_000.0,
            b"h" => 3_600_000.0,
            b"m" => 60_000.0,
            b"s" => 1000.0,
            b"ms" => 1.0,
            b"" if digits == text.len() => 1000.0,
            _ => return None,
        };
        sum += number * factor;
        rest = &rest[digits + letters..];
    }
    // Not negative, and a century fits.
    (sum <= CENTURY).then_some(sum as i64)
}

trait TrimC {
    fn trim_ascii_start_c(&self) -> &[u8];
}

impl TrimC for [u8] {
    /// Trims white space of C's `isspace`, which includes the vertical tab.
    fn trim_ascii_start_c(&self) -> &[u8] {
        let at = self.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(self.len());
        &self[at..]
    }
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn word(text: &[u8]) -> Option<f64> {
    let begins = |word: &str| text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()));
    match () {
        () if begins("inf") => Some(f64::INFINITY),
        () if begins("nan") => Some(f64::NAN),
        () => None,
    }
}

/// Parses the longest prefix that is a number: `12`, `12.5`, `.5`, `1e3`.
fn decimal(text: &[u8]) -> Option<f64> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let fraction = if text.get(whole) == Some(&b'.') { digits(whole + 1) } else { 0 };
    if whole + fraction == 0 {
        return None;
    }
    let mut end = if fraction > 0 { whole + 1 + fraction } else { whole };
    if let Some(b'e' | b'E') = text.get(end) {
        let signed = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + signed);
        end += if exponent > 0 { 1 + signed + exponent } else { 0 };
    }
    // Digits, a point and an exponent: ASCII, and a number to Rust too.
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strtols() {
        assert_eq!(integer(b"4"), Some(4));
        assert_eq!(integer(b"+4"), Some(4));
        assert_eq!(integer(b" \x0b\t-4"), Some(-4));
        assert_eq!(integer(b""), Some(0));
        assert_eq!(integer(b"99999999999999999999"), Some(i64::MAX));
        for bad in [&b" "[..], b"4 ", b"x", b"-", b"+-4", b"0x4", b"4x"] {
            assert_eq!(integer(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn durations_have_units() {
        let known = [("5", 5000), ("0", 0), ("1.5", 1500), ("10m", 600_000), ("1h30m", 5_400_000), ("250ms", 250)];
        for (text, ms) in known.into_iter().chain([("2d", 172_800_000), (".5s", 500), ("1m30", -1)]) {
            assert_eq!(milliseconds(text.as_bytes()), Some(ms).filter(|&ms| ms >= 0), "{text}");
        }
        for bad in ["", "m", "-5", "5 m", "5x", "1..2", ".", "1e3", "99999999999999999999999d", "nan", "inf"] {
            assert_eq!(milliseconds(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn reals_are_strtods() {
        assert_eq!(real_prefix(b"3.5"), Some(3.5));
        assert_eq!(real_prefix(b"3x"), Some(3.0));
        assert_eq!(real_prefix(b"3."), Some(3.0));
        assert_eq!(real_prefix(b" -.5e1z"), Some(-5.0));
        assert_eq!(real_prefix(b"1e"), Some(1.0));
        assert_eq!(real_prefix(b"1e+"), Some(1.0));
        assert_eq!(real_prefix(b"INFinity"), Some(f64::INFINITY));
        assert!(real_prefix(b"nan").is_some_and(f64::is_nan));
        for bad in [&b""[..], b"x", b".", b"-", b"e5"] {
            assert_eq!(real_prefix(bad), None, "{bad:?}");
        }
    }
}
