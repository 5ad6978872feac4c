//! Patterns for names of packages: `gtk3>=3.0<4`, `lua5[34]-[0-9]*`, `{mysql,mariadb}-client-[0-9]*`. Does not know
//! which packages there are.
//!
//! The rules are those of pbulk's resolver, which has no shortcut for names without a version (as `pkg_add` has for
//! what a user types).

mod glob;
mod relation;

use relation::Relation;

use super::name::Name;

/// A pattern, made ready to be compared with many names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// A name matches if it matches one of them.
    alternatives: Vec<Single>,
}

/// A pattern without braces.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Single {
    Relation(Relation),
    Glob(Vec<u8>),
    Exact(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// A brace is not closed.
    Unbalanced,
    /// The braces stand for more than [`MOST_ALTERNATIVES`].
    TooMany,
}

/// Braces in a row multiply; real patterns have a handful.
pub const MOST_ALTERNATIVES: usize = 1000;

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &[u8]) -> Result<Pattern, PatternError> {
        let mut plain = Vec::new();
        expand(text.to_vec(), &mut plain)?;
        Ok(Pattern { alternatives: plain.into_iter().map(Single::new).collect() })
    }

    /// Does it match this name?
    pub fn matches(&self, name: &Name<'_>) -> bool {
        self.alternatives.iter().any(|single| single.matches(name))
    }

    /// Whatever matches begins with one of these.
    pub fn beginnings(&self) -> impl Iterator<Item = &[u8]> {
        self.alternatives.iter().map(Single::beginning)
    }
}

impl Single {
    fn new(text: Vec<u8>) -> Single {
        if let Some(relation) = Relation::parse(&text) {
            Single::Relation(relation)
        } else if text.iter().any(|byte| b"*?[]".contains(byte)) {
            Single::Glob(text)
        } else {
            Single::Exact(text)
        }
    }

    fn matches(&self, name: &Name<'_>) -> bool {
        match self {
            Single::Relation(relation) => relation.holds(name),
            Single::Glob(pattern) => glob::matches(pattern, name.text()),
            Single::Exact(text) => text == name.text(),
        }
    }

    fn beginning(&self) -> &[u8] {
        match self {
            Single::Relation(relation) => relation.base(),
            Single::Glob(pattern) => glob::literal_start(pattern),
            Single::Exact(text) => text,
        }
    }
}

/// Writes each text that the braces stand for; the first brace is taken apart, then those in what it stood for.
fn expand(text: Vec<u8>, plain: &mut Vec<Vec<u8>>) -> Result<(), PatternError> {
    let Some(open) = memchr::memchr(b'{', &text) else {
        plain.push(text);
        return if plain.len() > MOST_ALTERNATIVES { Err(PatternError::TooMany) } else { Ok(()) };
    };
    let (choices, rest) = choices(&text[open + 1..]).ok_or(PatternError::Unbalanced)?;
    for choice in choices {
        expand([&text[..open], choice, rest].concat(), plain)?;
    }
    Ok(())
}

/// What the commas outside of inner braces separate, up to the brace that closes; and what follows it.
fn choices(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (mut depth, mut from, mut choices) = (0_usize, 0, Vec::new());
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' => {
                choices.push(&text[from..at]);
                return Some((choices, &text[at + 1..]));
            }
            b',' if depth == 0 => {
                choices.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern.as_bytes()).unwrap().matches(&Name::new(name.as_bytes()))
    }

    #[test]
    fn a_name_is_equal_or_not() {
        assert!(matches("LPRng-doc-3.6.13", "LPRng-doc-3.6.13"));
        assert!(!matches("LPRng-doc", "LPRng-doc-3.6.13"));
        assert!(!matches("LPRng-doc-3.6.13", "LPRng-doc-3.6.13nb1"));
    }

    #[test]
    fn braces_come_first() {
        assert!(matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.90"));
        assert!(matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.90nb2"));
        assert!(!matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.901"));
        assert!(matches("dovecot>=2.3.21.1{nb*,}", "dovecot-2.3.21.1"));
        assert!(matches("{a,b{c,d>=2}}-[0-9]*", "bc-1"));
        assert!(matches("x{a,b}{1,2}-3", "xb2-3"));
        assert!(matches("a{}-1", "a-1"));
    }

    #[test]
    fn what_cannot_be_a_pattern_is_refused() {
        assert_eq!(Pattern::parse(b"a{b,c"), Err(PatternError::Unbalanced));
        assert_eq!(Pattern::parse(b"a{b{c}"), Err(PatternError::Unbalanced));
        assert_eq!(Pattern::parse(&b"{a,b}".repeat(40)), Err(PatternError::TooMany));
    }

    #[test]
    fn whatever_matches_begins_as_it_says() {
        for (text, beginnings) in [
            ("gtk3>=3<4", &["gtk3"][..]),
            ("lua5[34]-[0-9]*", &["lua5"]),
            ("{my,maria}db-1", &["mydb-1", "mariadb-1"]),
            ("*", &[""]),
        ] {
            let pattern = Pattern::parse(text.as_bytes()).unwrap();
            assert_eq!(
                pattern.beginnings().collect::<Vec<_>>(),
                beginnings.iter().map(|it| it.as_bytes()).collect::<Vec<_>>()
            );
        }
    }
}
