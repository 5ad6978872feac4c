//! Patterns of package names: `gtk3>=3.0<4`, `lua5[34]-[0-9]*`, `{mysql,mariadb}-client-[0-9]*`.
//!
//! The rules are those of pbulk's resolver, without pkg_add's shortcut for names without a version.

mod glob;
mod relation;

use relation::Relation;

use super::name::Name;

/// A parsed pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
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
    /// The braces stand for more than [`MAX_ALTERNATIVES`].
    TooMany,
}

/// Matches a whole text with a shell pattern.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    glob::matches(pattern.as_bytes(), text.as_bytes())
}

/// Limits the expansion of braces.
pub const MAX_ALTERNATIVES: usize = 1000;

impl Pattern {
    pub fn parse(text: &[u8]) -> Result<Pattern, PatternError> {
        let mut plain = Vec::new();
        expand(text.to_vec(), &mut plain)?;
        Ok(Pattern { alternatives: plain.into_iter().map(Single::new).collect() })
    }

    pub fn matches(&self, name: &Name<'_>) -> bool {
        self.alternatives.iter().any(|single| single.matches(name))
    }

    /// Prefixes of all matches.
    pub fn prefixes(&self) -> impl Iterator<Item = &[u8]> {
        self.alternatives.iter().map(Single::prefix)
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

    fn prefix(&self) -> &[u8] {
        match self {
            Single::Relation(relation) => relation.base(),
            Single::Glob(pattern) => glob::literal_start(pattern),
            Single::Exact(text) => text,
        }
    }
}

/// Expands braces, the first one first.
fn expand(text: Vec<u8>, plain: &mut Vec<Vec<u8>>) -> Result<(), PatternError> {
    let Some(open) = memchr::memchr(b'{', &text) else {
        plain.push(text);
        return if plain.len() > MAX_ALTERNATIVES { Err(PatternError::TooMany) } else { Ok(()) };
    };
    let (choices, rest) = choices(&text[open + 1..]).ok_or(PatternError::Unbalanced)?;
    for choice in choices {
        expand([&text[..open], choice, rest].concat(), plain)?;
    }
    Ok(())
}

/// Splits at the commas outside of inner braces; returns the alternatives and the rest.
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
    fn plain_pattern_matches_exactly() {
        assert!(matches("LPRng-doc-3.6.13", "LPRng-doc-3.6.13"));
        assert!(!matches("LPRng-doc", "LPRng-doc-3.6.13"));
        assert!(!matches("LPRng-doc-3.6.13", "LPRng-doc-3.6.13nb1"));
    }

    #[test]
    fn braces_are_expanded_first() {
        assert!(matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.90"));
        assert!(matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.90nb2"));
        assert!(!matches("boost-libs-1.90{,nb*,.*}", "boost-libs-1.901"));
        assert!(matches("dovecot>=2.3.21.1{nb*,}", "dovecot-2.3.21.1"));
        assert!(matches("{a,b{c,d>=2}}-[0-9]*", "bc-1"));
        assert!(matches("x{a,b}{1,2}-3", "xb2-3"));
        assert!(matches("a{}-1", "a-1"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        assert_eq!(Pattern::parse(b"a{b,c"), Err(PatternError::Unbalanced));
        assert_eq!(Pattern::parse(b"a{b{c}"), Err(PatternError::Unbalanced));
        assert_eq!(Pattern::parse(&b"{a,b}".repeat(40)), Err(PatternError::TooMany));
    }

    #[test]
    fn matches_start_with_a_prefix() {
        for (text, prefixes) in [
            ("gtk3>=3<4", &["gtk3"][..]),
            ("lua5[34]-[0-9]*", &["lua5"]),
            ("{my,maria}db-1", &["mydb-1", "mariadb-1"]),
            ("*", &[""]),
        ] {
            let pattern = Pattern::parse(text.as_bytes()).unwrap();
            assert_eq!(
                pattern.prefixes().collect::<Vec<_>>(),
                prefixes.iter().map(|it| it.as_bytes()).collect::<Vec<_>>()
            );
        }
    }
}
