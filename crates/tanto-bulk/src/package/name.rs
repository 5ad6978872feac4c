//! Splits package names: `py311-gtk3-3.24.1nb2` is version `3.24.1nb2` of `py311-gtk3`.

use std::cmp::Ordering;

use super::version::Version;

/// A PKGNAME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name<'t> {
    text: &'t [u8],
    /// The offset of the last `-`; `None` if there is no version.
    dash: Option<usize>,
    version: Version,
}

impl<'t> Name<'t> {
    pub fn new(text: &'t [u8]) -> Name<'t> {
        let dash = memchr::memrchr(b'-', text);
        let version = Version::parse(dash.map_or(&[], |dash| &text[dash + 1..]));
        Name { text, dash, version }
    }

    pub fn text(&self) -> &'t [u8] {
        self.text
    }

    /// PKGBASE.
    pub fn base(&self) -> &'t [u8] {
        &self.text[..self.dash.unwrap_or(self.text.len())]
    }

    /// The version; empty if there is none.
    pub fn version(&self) -> &Version {
        &self.version
    }

    pub fn has_version(&self) -> bool {
        self.dash.is_some()
    }

    /// The order of preference of matches: the higher version, then the later name in byte order.
    pub fn preference(&self, other: &Name<'_>) -> Ordering {
        self.version.cmp(&other.version).then_with(|| self.text.cmp(other.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_follows_the_last_dash() {
        let name = Name::new(b"py311-gtk3-3.24.1nb2");
        assert_eq!((name.base(), name.version()), (&b"py311-gtk3"[..], &Version::parse(b"3.24.1nb2")));
        let name = Name::new(b"gtk3");
        assert_eq!((name.base(), name.has_version()), (&b"gtk3"[..], false));
    }

    #[test]
    fn higher_version_is_preferred_then_later_name() {
        for (less, more) in [("a-1.0", "a-1.1"), ("b-1.0", "a-1.0nb1"), ("a-1.0", "b-1"), ("a-1", "a-1.0")] {
            assert_eq!(Name::new(less.as_bytes()).preference(&Name::new(more.as_bytes())), Ordering::Less, "{less}");
        }
    }
}
