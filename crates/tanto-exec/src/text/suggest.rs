//! "Did you mean" suggestions, by edit distance.

/// The maximum distance of a suggestion.
const LIMIT: usize = 3;

/// The Levenshtein distance in bytes. A distance above `limit` is only guaranteed to be reported as greater than
/// `limit`.
pub fn distance(from: &[u8], to: &[u8], limit: usize) -> usize {
    if from.len().abs_diff(to.len()) > limit {
        return limit + 1;
    }
    // One row of the table: row[x] is the distance between the part of `from` read so far and the first x bytes of
    // `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (y, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = y + 1;
        let mut least = row[0];
        for (x, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[x + 1];
            row[x + 1] = replaced.min(row[x] + 1).min(diagonal + 1);
            least = least.min(row[x + 1]);
        }
        if least > limit {
            return limit + 1;
        }
    }
    row[to.len()]
}

/// The end of an error message about `word`: `, did you mean 'WORD'?`, or nothing if no known word is close.
pub fn did_you_mean<'w>(word: &[u8], known: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    closest(word, known).map_or_else(Vec::new, |meant| [b", did you mean '", meant, b"'?"].concat())
}

/// `unknown KIND 'WORD', did you mean 'OTHER'?`
pub fn unknown(kind: &str, word: &[u8], known: impl IntoIterator<Item = &'static str>) -> Vec<u8> {
    let hint = did_you_mean(word, known.into_iter().map(str::as_bytes));
    [b"unknown ", kind.as_bytes(), b" '", word, b"'", &hint].concat()
}

/// The first of the closest known words, or `None` if all exceed the limit.
pub fn closest<'w>(word: &[u8], known: impl IntoIterator<Item = &'w [u8]>) -> Option<&'w [u8]> {
    let mut best = None;
    let mut least = LIMIT + 1;
    for candidate in known {
        let distance = distance(candidate, word, LIMIT);
        if distance < least {
            (best, least) = (Some(candidate), distance);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance(b"", b"", 3), 0);
        assert_eq!(distance(b"", b"ninja", 9), 5);
        assert_eq!(distance(b"ninja", b"", 9), 5);
        assert_eq!(distance(b"browser_tests", b"browser_tests", 3), 0);
        assert_eq!(distance(b"browser_test", b"browser_tests", 3), 1);
        assert_eq!(distance(b"kitten", b"sitting", 3), 3);
        assert_eq!(distance(b"flaw", b"lawn", 3), 2);
    }

    #[test]
    fn distance_stops_above_the_limit() {
        assert!(distance(b"abcdefghijk", b"lmnopqrstuv", 3) > 3);
        assert!(distance(b"a", b"abcdefgh", 3) > 3);
        assert_eq!(distance(b"abc", b"xyz", 3), 3);
    }

    #[test]
    fn closest_takes_the_first_of_the_nearest() {
        let known = || [&b"clean"[..], b"cleandead", b"deps"];
        assert_eq!(closest(b"cle", known()), Some(&b"clean"[..]));
        assert_eq!(closest(b"cleandea", known()), Some(&b"cleandead"[..]));
        assert_eq!(closest(b"nothing", known()), None);
        assert_eq!(closest(b"", [&b"abcd"[..]]), None);
        assert_eq!(closest(b"ab", [&b"aa"[..], b"bb"]), Some(&b"aa"[..]));
    }
}
