//! Version numbers of ninja and of the formats it reads.

use crate::error::{Error, Result};
use crate::graph::manifest_data::Notice;

/// The version of ninja that Tanto implements, in ninja's format. `ninja_required_version` is compared with it, and
/// generators query it. The suffix announces the jobserver client to scikit-build and others.
pub const NINJA_VERSION: &str = "1.13.2.git.kitware.jobserver-pipe-1";

/// Returns the major and minor number of a version, parsed like C's `atoi`.
pub(crate) fn parse(version: &[u8]) -> (i32, i32) {
    let mut parts = version.split(|&b| b == b'.');
    let mut number = || parts.next().map_or(0, leading_number);
    (number(), number())
}

/// Parses like C's `atoi`: blanks, a sign, digits; 0 if there are none.
pub(crate) fn leading_number(text: &[u8]) -> i32 {
    let blank = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|b| blank(b)).count()..];
    let (negative, digits) = match text {
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    let step = |number: i64, digit: &u8| {
        let digit = i64::from(digit - b'0');
        number.saturating_mul(10).saturating_add(if negative { -digit } else { digit })
    };
    let number = digits.iter().take_while(|b| b.is_ascii_digit()).fold(0i64, step);
    // `atoi` truncates a `long` to an `int`.
    number as i32
}

/// Compares a manifest's `ninja_required_version` with `NINJA_VERSION`. A newer one is an error, an older major
/// version a warning.
pub(crate) fn check(required: &[u8], warn: &mut dyn FnMut(&[u8])) -> Result<()> {
    let ours = parse(NINJA_VERSION.as_bytes());
    let theirs = parse(required);
    let us = NINJA_VERSION.as_bytes();
    if ours.0 > theirs.0 {
        let words: [&[u8]; 5] = [
            b"ninja executable version (",
            us,
            b") greater than build file ninja_required_version (",
            required,
            b"); versions may be incompatible.",
        ];
        warn(&words.concat());
        return Ok(());
    }
    if ours < theirs {
        let middle = b") incompatible with build file ninja_required_version version (";
        return Err(Error::fatal(&[b"ninja version (", us, middle, required, b")."]));
    }
    Ok(())
}

impl Notice {
    /// Emits a warning; fails if a newer version is required.
    pub(crate) fn report(&self, warn: &mut dyn FnMut(&[u8])) -> Result<()> {
        match self {
            Notice::Warning(text) => warn(text),
            Notice::Requires(version) => check(version, warn)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_like_atoi() {
        let cases: [(&str, i32); 10] = [
            ("", 0),
            ("12", 12),
            (" \t-3x", -3),
            ("+4", 4),
            ("x", 0),
            ("--1", 0),
            ("4294967297", 1),
            ("99999999999999999999", -1),
            ("-99999999999999999999", 0),
            ("1 2", 1),
        ];
        for (text, want) in cases {
            assert_eq!(leading_number(text.as_bytes()), want, "of {text:?}");
        }
    }

    #[test]
    fn versions_have_two_numbers() {
        assert_eq!(parse(b"1.13.2.git"), (1, 13));
        assert_eq!(parse(b"2"), (2, 0));
        assert_eq!(parse(b""), (0, 0));
    }

    #[test]
    fn newer_version_is_refused_and_older_major_version_warns() {
        let mut warnings = Vec::new();
        let mut warn = |text: &[u8]| warnings.push(text.to_vec());
        assert!(check(b"1.13", &mut warn).is_ok());
        assert!(check(b"1.5.1", &mut warn).is_ok());
        let error = check(b"1.14", &mut warn).unwrap_err();
        assert!(error.is_fatal());
        let end = ") incompatible with build file ninja_required_version version (1.14).";
        assert_eq!(error.to_string(), format!("ninja version ({NINJA_VERSION}{end}"));
        assert!(check(b"2.0", &mut warn).is_err());
        assert!(check(b"0.9", &mut warn).is_ok());
        let end = ") greater than build file ninja_required_version (0.9); versions may be incompatible.";
        assert_eq!(warnings, [format!("ninja executable version ({NINJA_VERSION}{end}").into_bytes()]);
    }
}
