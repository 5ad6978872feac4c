//! Version relations: `gtk3>=3.0<4`.

use crate::package::name::Name;
use crate::package::version::Version;

/// A base with version bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relation {
    base: Vec<u8>,
    bounds: Vec<Bound>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Bound {
    below: bool,
    or_equal: bool,
    version: Version,
}

impl Relation {
    /// Parses a text with `<` or `>`.
    pub(super) fn parse(text: &[u8]) -> Option<Relation> {
        let at = memchr::memchr2(b'<', b'>', text)?;
        let (base, rest) = text.split_at(at);
        // An upper bound may follow a lower bound only.
        let second = if rest[0] == b'>' { memchr::memchr(b'<', rest) } else { None };
        let (first, second) = rest.split_at(second.unwrap_or(rest.len()));
        let bounds = [first, second].into_iter().filter(|bound| !bound.is_empty()).map(Bound::parse);
        Some(Relation { base: base.to_vec(), bounds: bounds.collect() })
    }

    pub(super) fn base(&self) -> &[u8] {
        &self.base
    }

    pub(super) fn holds(&self, name: &Name<'_>) -> bool {
        name.has_version() && name.base() == self.base && self.bounds.iter().all(|bound| bound.holds(name.version()))
    }
}

impl Bound {
    fn parse(text: &[u8]) -> Bound {
        let or_equal = text.get(1) == Some(&b'=');
        Bound { below: text[0] == b'<', or_equal, version: Version::parse(&text[1 + usize::from(or_equal)..]) }
    }

    fn holds(&self, version: &Version) -> bool {
        let ordering = version.cmp(&self.version);
        if ordering.is_eq() { self.or_equal } else { ordering.is_lt() == self.below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_compared() {
        for (text, name, expected) in [
            ("a>1", "a-1", false),
            ("a>=1", "a-1", true),
            ("a>1", "a-1nb1", true),
            ("a<2", "a-1.9", true),
            ("a<2", "a-2", false),
            ("a<=2", "a-2", true),
            ("a>=1<2", "a-1.5", true),
            ("a>=1<2", "a-2", false),
            ("a>=1<=2", "a-2", true),
            ("a>=1", "b-1", false),
            ("a>=1", "a-b-1", false),
            ("a>=1", "a", false),
            ("a<1>0", "a-0.5", true),
            ("a>=1>=3", "a-2", true),
        ] {
            let relation = Relation::parse(text.as_bytes()).unwrap();
            assert_eq!(relation.holds(&Name::new(name.as_bytes())), expected, "{text} {name}");
        }
        assert_eq!(Relation::parse(b"a-1"), None);
    }
}
