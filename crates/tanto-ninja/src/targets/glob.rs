//! Path globs: `*`, `?` and `[...]` within a component, `**` for any number of components.

#[derive(Clone, Debug)]
pub struct Glob(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    /// `**`: zero or more components.
    Any,
    Name(Vec<Token>),
}

#[derive(Clone, Debug)]
enum Token {
    /// `*`: zero or more characters.
    Any,
    /// `?`
    One,
    Letter(u32),
    /// `[a-z]`, or `[!a-z]` if negated.
    Class {
        ranges: Vec<(u32, u32)>,
        negated: bool,
    },
}

/// An element of a pattern; `T` is an element of the text.
trait Piece<T> {
    fn is_any(&self) -> bool;

    fn matches(&self, item: &T) -> bool;
}

impl Glob {
    /// Returns `None` if the text has no special character. An unclosed bracket is literal.
    pub fn new(pattern: &[u8]) -> Option<Glob> {
        if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
            return None;
        }
        let part = |name: &[u8]| if name == b"**" { Part::Any } else { Part::Name(tokens(&letters(name))) };
        let mut parts: Vec<Part> = pattern.split(|&byte| byte == b'/').map(part).collect();
        // `dir/**` does not match the directory itself.
        if matches!(parts.last(), Some(Part::Any)) {
            parts.push(Part::Name(vec![Token::Any]));
        }
        Some(Glob(parts))
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        all_match(&self.0, &names)
    }
}

impl Piece<&[u8]> for Part {
    fn is_any(&self) -> bool {
        matches!(self, Part::Any)
    }

    fn matches(&self, name: &&[u8]) -> bool {
        match self {
            Part::Any => true,
            Part::Name(tokens) => all_match(tokens, &letters(name)),
        }
    }
}

impl Piece<u32> for Token {
    fn is_any(&self) -> bool {
        matches!(self, Token::Any)
    }

    fn matches(&self, letter: &u32) -> bool {
        match self {
            Token::Any | Token::One => true,
            Token::Letter(own) => own == letter,
            Token::Class { ranges, negated } => {
                ranges.iter().any(|(from, to)| (from..=to).contains(&letter)) != *negated
            }
        }
    }
}

/// Matches the whole text. The time is bounded by the product of the lengths.
fn all_match<P: Piece<T>, T>(pattern: &[P], text: &[T]) -> bool {
    let (mut at, mut read) = (0, 0);
    // For backtracking: the last wildcard, and the end of the text it has consumed.
    let mut last_any = None;
    while read < text.len() {
        match (pattern.get(at), last_any) {
            (Some(piece), _) if piece.is_any() => {
                last_any = Some((at, read));
                at += 1;
            }
            (Some(piece), _) if piece.matches(&text[read]) => {
                at += 1;
                read += 1;
            }
            (_, Some((any, taken))) => {
                last_any = Some((any, taken + 1));
                (at, read) = (any + 1, taken + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(Piece::is_any)
}

/// The code points of a name. Bytes that are not UTF-8 map to values above Unicode.
fn letters(name: &[u8]) -> Vec<u32> {
    const BEYOND: u32 = char::MAX as u32 + 1;
    let beyond = |&byte: &u8| BEYOND + u32::from(byte);
    let chunks = name.utf8_chunks();
    chunks.flat_map(|chunk| chunk.valid().chars().map(u32::from).chain(chunk.invalid().iter().map(beyond))).collect()
}

fn tokens(mut letters: &[u32]) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let Some((&first, rest)) = letters.split_first() {
        let class = if first == u32::from('[') { class(rest) } else { None };
        let (token, rest) = match (class, char::from_u32(first)) {
            (Some(found), _) => found,
            (None, Some('*')) => (Token::Any, rest),
            (None, Some('?')) => (Token::One, rest),
            (None, _) => (Token::Letter(first), rest),
        };
        tokens.push(token);
        letters = rest;
    }
    tokens
}

/// Parses a class after its opening bracket. A leading `]` is literal.
fn class(letters: &[u32]) -> Option<(Token, &[u32])> {
    let is = |letter: Option<&u32>, one: char| letter == Some(&u32::from(one));
    let negated = is(letters.first(), '!') || is(letters.first(), '^');
    let inside = &letters[usize::from(negated)..];
    let end = 1 + inside.iter().skip(1).position(|&letter| letter == u32::from(']'))?;
    let (mut inside, behind) = (&inside[..end], &inside[end + 1..]);
    let mut ranges = Vec::new();
    while let Some((&from, rest)) = inside.split_first() {
        let to = rest.get(1).filter(|_| is(rest.first(), '-'));
        ranges.push((from, *to.unwrap_or(&from)));
        inside = if to.is_some() { &rest[2..] } else { rest };
    }
    Some((Token::Class { ranges, negated }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching<'p>(pattern: &str, paths: &[&'p str]) -> Vec<&'p str> {
        let glob = Glob::new(pattern.as_bytes()).unwrap();
        paths.iter().copied().filter(|path| glob.matches(path.as_bytes())).collect()
    }

    #[test]
    fn plain_names_are_no_patterns() {
        assert!(Glob::new(b"lib/a.o").is_none());
    }

    #[test]
    fn star_matches_within_a_component() {
        let paths = ["a.o", "b.o", "a.c", ".o", "lib/a.o", "lib/x/a.o", "lib/a.o.d"];
        assert_eq!(matching("*.o", &paths), ["a.o", "b.o", ".o"]);
        assert_eq!(matching("lib/*", &paths), ["lib/a.o", "lib/a.o.d"]);
        assert_eq!(matching("*/a.*", &paths), ["lib/a.o", "lib/a.o.d"]);
        assert_eq!(matching("l*b/a**.o", &paths), ["lib/a.o"]);
    }

    #[test]
    fn double_star_matches_any_number_of_components() {
        let paths = ["a.o", "lib", "lib/a.o", "lib/x/a.o", "lib/x/y/a.o", "/lib/a.o"];
        assert_eq!(matching("**/a.o", &paths), ["a.o", "lib/a.o", "lib/x/a.o", "lib/x/y/a.o", "/lib/a.o"]);
        assert_eq!(matching("lib/**", &paths), ["lib/a.o", "lib/x/a.o", "lib/x/y/a.o"]);
        assert_eq!(matching("lib/**/y/*", &paths), ["lib/x/y/a.o"]);
        assert_eq!(matching("**/**", &paths).len(), paths.len());
    }

    #[test]
    fn question_mark_and_class_match_one_character() {
        let paths = ["a1", "b2", "c-", "c]", "ä1", "a", "a12"];
        assert_eq!(matching("?1", &paths), ["a1", "ä1"]);
        assert_eq!(matching("[ab][0-9]", &paths), ["a1", "b2"]);
        assert_eq!(matching("[!a-b]?", &paths), ["c-", "c]", "ä1"]);
        assert_eq!(matching("[^a-z]1", &paths), ["ä1"]);
        assert_eq!(matching("c[-x]", &paths), ["c-"]);
        assert_eq!(matching("c[]x]", &paths), ["c]"]);
        assert_eq!(matching("c[x-]", &paths), ["c-"]);
    }

    #[test]
    fn unclosed_bracket_is_literal() {
        assert_eq!(matching("a[b*", &["a[b", "a[bc", "ab"]), ["a[b", "a[bc"]);
        assert_eq!(matching("a[", &["a["]), ["a["]);
        assert_eq!(matching("a[!]", &["a[!]"]), ["a[!]"]);
    }

    #[test]
    fn non_utf8_bytes_are_characters() {
        let glob = Glob::new(b"\xff?.o").unwrap();
        assert!(glob.matches(b"\xff\xfe.o") && !glob.matches(b"\xfe\xfe.o"));
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(matching(&pattern, &[&"a".repeat(2000)]).is_empty());
    }
}
