//! Versions of packages, and their order, as pkg_install's `dewey.c` has it. Does not know what a package is.

use std::cmp::Ordering;

/// A version, taken apart: `1.2rc1nb3` is 1, 0, 2, -1, 1 and revision 3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Numbers, separators and words by their weight.
    parts: Vec<i64>,
    /// What follows the last `nb`: pkgsrc's own changes. Compared last, wherever it stands.
    revision: i64,
}

/// Words that mean a number; the first that fits wins. Case does not matter.
const WORDS: [(&[u8], i64); 7] =
    [(b"alpha", -3), (b"beta", -2), (b"pre", -1), (b"rc", -1), (b"pl", 0), (b"_", 0), (b".", 0)];

impl Version {
    /// What this text means. All texts mean a version: characters without a meaning are passed over.
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
    /// The shorter one goes on with zeros.
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

/// The digits at the start, as a number, and what follows. What is past 64 bits stays at their end.
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
    fn they_are_in_order() {
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
    fn different_texts_may_mean_the_same() {
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
    fn a_letter_is_a_dot_and_its_place() {
        assert_eq!(order("1a", "1.1"), Ordering::Equal);
        assert_eq!(order("1z", "1.26"), Ordering::Equal);
        assert_eq!(order("1nz", "1.14.26"), Ordering::Equal);
    }

    #[test]
    fn no_number_is_too_large() {
        assert_eq!(order("99999999999999999999", "1"), Ordering::Greater);
    }
}
