//! Package versions in the order of pkg_install's `dewey.c`.

use std::cmp::Ordering;

/// `1.2rc1nb3` is 1, 0, 2, -1, 1 and revision 3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Weights of numbers, separators and words.
    parts: Vec<i64>,
    /// The number after the last `nb`: pkgsrc's revision. Compared last.
    revision: i64,
}

/// Words with a weight; the first match wins, without case.
const WORDS: [(&[u8], i64); 7] =
    [(b"alpha", -3), (b"beta", -2), (b"pre", -1), (b"rc", -1), (b"pl", 0), (b"_", 0), (b".", 0)];

impl Version {
    /// Parses any text; unknown characters are skipped.
    pub fn parse(mut text: &[u8]) -> Version {
        let mut version = Version { parts: Vec::new(), revision: 0 };
        while let [first, rest @ ..] = text {
            text = if first.is_ascii_digit() {
                let (number, rest) = number(text);
                version.parts.push(number);
                rest
            } else if let Some((word, weight)) = WORDS.iter().find(|(word, _)| starts(text, word)) {
                version.parts.push(*weight);
                &text[word.len()..]
            } else if starts(text, b"nb") {
                let (number, rest) = number(&text[2..]);
                version.revision = number;
                rest
            } else {
                if first.is_ascii_alphabetic() {
                    version.parts.extend([0, i64::from(first.to_ascii_lowercase() - b'a' + 1)]);
                }
                rest
            };
        }
        version
    }
}

impl Ord for Version {
    /// The shorter one is padded with zeros.
    fn cmp(&self, other: &Version) -> Ordering {
        let most = self.parts.len().max(other.parts.len());
        let part = |version: &Version, at: usize| version.parts.get(at).copied().unwrap_or(0);
        (0..most)
            .map(|at| part(self, at).cmp(&part(other, at)))
            .find(|ordering| ordering.is_ne())
            .unwrap_or_else(|| self.revision.cmp(&other.revision))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Parses leading digits, saturating, and returns the rest.
fn number(text: &[u8]) -> (i64, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let add = |sum: i64, digit: &u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    (text[..digits].iter().fold(0, add), &text[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(left: &str, right: &str) -> Ordering {
        Version::parse(left.as_bytes()).cmp(&Version::parse(right.as_bytes()))
    }

    #[test]
    fn versions_are_ordered() {
        let rising = [
            "1.0alpha1",
            "1.0alpha2",
            "1.0beta1",
            "1.0rc1",
            "1.0",
            "1.0nb1",
            "1.0nb12",
            "1.0a",
            "1.0b",
            "1.1",
            "1.9",
            "1.10",
            "2",
            "20240101",
            "20240101123456",
        ];
        for (at, left) in rising.iter().enumerate() {
            for right in &rising[at + 1..] {
                assert_eq!(
                    (order(left, right), order(right, left)),
                    (Ordering::Less, Ordering::Greater),
                    "{left} {right}"
                );
            }
        }
    }

    #[test]
    fn equal_versions_of_different_texts() {
        for (left, right) in [
            ("1.0", "1"),
            ("1_0", "1.0"),
            ("1pl2", "1.2"),
            ("1.0RC1", "1.0pre1"),
            ("1.0NB3", "1.0nb3"),
            ("1nb2.5", "1.5nb2"),
            ("1-+2", "12"),
            ("", "0"),
            ("1.0nb", "1.0"),
            ("a", "A"),
        ] {
            let expected = if left == "1-+2" { Ordering::Less } else { Ordering::Equal };
            assert_eq!(order(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn letter_is_a_dot_and_a_number() {
        assert_eq!(order("1a", "1.1"), Ordering::Equal);
        assert_eq!(order("1z", "1.26"), Ordering::Equal);
        assert_eq!(order("1nz", "1.14.26"), Ordering::Equal);
    }

    #[test]
    fn large_numbers_saturate() {
        assert_eq!(order("99999999999999999999", "1"), Ordering::Greater);
    }
}
