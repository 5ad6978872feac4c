//! A package's name, taken apart: `py311-gtk3-3.24.1nb2` is version `3.24.1nb2` of `py311-gtk3`. Does not know what
//! the package holds.

use std::cmp::Ordering;

use super::version::Version;

/// A PKGNAME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name<'t> {
    text: &'t [u8],
    /// Where the last `-` is; `None` if there is none, and then there is no version.
    dash: Option<usize>,
    version: Version,
}

impl<'t> Name<'t> {
    /// Takes a name apart.
    pub fn new(text: &'t [u8]) -> Name<'t> {
        let dash = memchr::memrchr(b'-', text);
        let version = Version::parse(dash.map_or(&[], |dash| &text[dash + 1..]));
        Name { text, dash, version }
    }

    /// All of it.
    pub fn text(&self) -> &'t [u8] {
        self.text
    }

    /// PKGBASE: what stands before the version.
    pub fn base(&self) -> &'t [u8] {
        &self.text[..self.dash.unwrap_or(self.text.len())]
    }

    /// The version; that of nothing where the name has none.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Whether there is a version in it.
    pub fn has_version(&self) -> bool {
        self.dash.is_some()
    }

    /// Of two that a pattern matches, the greater one is taken: the higher version, and among equals the name that
    /// comes later byte by byte.
    pub fn preference(&self, other: &Name<'_>) -> Ordering {
        self.version.cmp(&other.version).then_with(|| self.text.cmp(other.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_follows_the_last_dash() {
        let name = Name::new(b"py311-gtk3-3.24.1nb2");
        assert_eq!((name.base(), name.version()), (&b"py311-gtk3"[..], &Version::parse(b"3.24.1nb2")));
        let name = Name::new(b"gtk3");
        assert_eq!((name.base(), name.has_version()), (&b"gtk3"[..], false));
    }

    #[test]
    fn the_higher_version_is_preferred_then_the_later_name() {
        for (less, more) in [("a-1.0", "a-1.1"), ("b-1.0", "a-1.0nb1"), ("a-1.0", "b-1"), ("a-1", "a-1.0")] {
            assert_eq!(Name::new(less.as_bytes()).preference(&Name::new(more.as_bytes())), Ordering::Less, "{less}");
        }
    }
}
