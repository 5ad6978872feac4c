//! Which known word was meant. Does not know what the words stand for.

/// Words further away than this are no suggestion.
const LIMIT: usize = 3;

/// The Levenshtein distance of two words, in bytes: how many insertions, deletions and replacements lie between
/// them. Above `limit` it may be any number above `limit`.
pub fn distance(from: &[u8], to: &[u8], limit: usize) -> usize {
    if from.len().abs_diff(to.len()) > limit {
        return limit + 1;
    }
    // One row of the classic table: row[x] is the distance of what was read of `from` to the first x bytes of `to`.
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

/// What an error about `word` ends with: `, did you mean 'WORD'?`, or nothing where no known word is near.
pub fn did_you_mean<'w>(word: &[u8], known: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    closest(word, known).map_or_else(Vec::new, |meant| [b", did you mean '", meant, b"'?"].concat())
}

/// The known word nearest to `word`, the first of several; `None` if all are too far away to be meant.
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
