//! Patterns of paths: `*`, `?` and `[...]` within a component, `**` for any number of components.

/// A pattern that is matched against whole paths.
#[derive(Clone, Debug)]
pub struct Glob(Vec<Part>);

/// One component of a pattern.
#[derive(Clone, Debug)]
enum Part {
    /// `**`: any number of components, none included.
    Any,
    Name(Vec<Token>),
}

#[derive(Clone, Debug)]
enum Token {
    /// `*`: any number of letters, none included.
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

/// What a pattern is made of; `T` is one item of the matched text.
trait Piece<T> {
    /// Matches any number of items.
    fn is_any(&self) -> bool;

    fn matches(&self, item: &T) -> bool;
}

impl Glob {
    /// Reads a pattern; `None` if it has no character that makes it one. A bracket that is never closed stands for self_input.
    pub fn new(pattern: &[u8]) -> Option<Glob> {
        if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
            return None;
        }
        let part = |name: &[u8]| if name == b"**" { Part::Any } else { Part::Name(tokens(&letters(name))) };
        let mut parts: Vec<Part> = pattern.split(|&byte| byte == b'/').map(part).collect();
        // `dir/**` is what lies below the directory, without self_input.
        if matches!(parts.last(), Some(Part::Any)) {
            parts.push(Part::Name(vec![Token::Any]));
        }
        Some(Glob(parts))
    }

    /// Does the whole path match?
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

/// Matches all of `pattern` against all of `text`, in at most the product of their lengths.
fn all_match<P: Piece<T>, T>(pattern: &[P], text: &[T]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The last piece that takes any number of items, and where the text goes on behind those that it has taken.
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

/// The characters of a name. A byte that is not UTF-8 is a letter of its own, beyond those of Unicode.
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

/// A class, behind its opening bracket, and the letters behind the closing one. A `]` that comes first is one of its letters.
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
    fn a_star_stays_in_its_component() {
        let paths = ["a.o", "b.o", "a.c", ".o", "lib/a.o", "lib/x/a.o", "lib/a.o.d"];
        assert_eq!(matching("*.o", &paths), ["a.o", "b.o", ".o"]);
        assert_eq!(matching("lib/*", &paths), ["lib/a.o", "lib/a.o.d"]);
        assert_eq!(matching("*/a.*", &paths), ["lib/a.o", "lib/a.o.d"]);
        assert_eq!(matching("l*b/a**.o", &paths), ["lib/a.o"]);
    }

    #[test]
    fn two_stars_take_any_number_of_components() {
        let paths = ["a.o", "lib", "lib/a.o", "lib/x/a.o", "lib/x/y/a.o", "/lib/a.o"];
        assert_eq!(matching("**/a.o", &paths), ["a.o", "lib/a.o", "lib/x/a.o", "lib/x/y/a.o", "/lib/a.o"]);
        assert_eq!(matching("lib/**", &paths), ["lib/a.o", "lib/x/a.o", "lib/x/y/a.o"]);
        assert_eq!(matching("lib/**/y/*", &paths), ["lib/x/y/a.o"]);
        assert_eq!(matching("**/**", &paths).len(), paths.len());
    }

    #[test]
    fn question_marks_and_classes_take_one_letter() {
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
    fn an_open_bracket_stands_for_itself() {
        assert_eq!(matching("a[b*", &["a[b", "a[bc", "ab"]), ["a[b", "a[bc"]);
        assert_eq!(matching("a[", &["a["]), ["a["]);
        assert_eq!(matching("a[!]", &["a[!]"]), ["a[!]"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_letters() {
        let glob = Glob::new(b"\xff?.o").unwrap();
        assert!(glob.matches(b"\xff\xfe.o") && !glob.matches(b"\xfe\xfe.o"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(matching(&pattern, &[&"a".repeat(2000)]).is_empty());
    }
}
