//! Stores information about an unpacked package as text beside its layer, so that the layer need not be searched.

use crate::package::archive::plist::{Plist, Word};

/// Information about a package. Paths are relative to the prefix.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct PackageInfo {
    /// PKGNAME.
    pub name: Vec<u8>,
    /// Estimated disk usage of its layer.
    pub bytes: u64,
    /// The reason why pkg_add must install it. Its layer is empty then.
    pub needs_pkg_add: Option<String>,
    /// Patterns of dependencies.
    pub depends: Vec<Vec<u8>>,
    /// Patterns of conflicts.
    pub conflicts: Vec<Vec<u8>>,
    /// Directories of `@pkgdir`, which may be empty.
    pub own_dirs: Vec<Vec<u8>>,
    /// All directories of its layer, parents first.
    pub dirs: Vec<Vec<u8>>,
    /// Sorted.
    pub files: Vec<Vec<u8>>,
}

const HEAD: &[u8] = b"tanto layer 1\n";

impl PackageInfo {
    /// Reads a packing list, which contains neither the size nor all directories.
    pub fn of(plist: Plist<'_>) -> PackageInfo {
        let values = |word| plist.values(word).map(<[u8]>::to_vec).collect();
        let mut files: Vec<Vec<u8>> = plist.files().map(|(file, _)| file.to_vec()).collect();
        files.sort_unstable();
        PackageInfo {
            name: plist.name().unwrap_or_default().to_vec(),
            depends: values(Word::Depends),
            conflicts: values(Word::Conflicts),
            own_dirs: values(Word::Directory),
            files,
            ..PackageInfo::default()
        }
    }

    /// Encodes it as lines. Values contain no newlines.
    pub fn text(&self) -> Vec<u8> {
        let mut text = HEAD.to_vec();
        let mut line = |key: u8, value: &[u8]| {
            text.push(key);
            text.extend_from_slice(value);
            text.push(b'\n');
        };
        line(b'n', &self.name);
        line(b'b', self.bytes.to_string().as_bytes());
        if let Some(why) = &self.needs_pkg_add {
            line(b't', why.as_bytes());
        }
        let lists = [
            (b'd', &self.depends),
            (b'c', &self.conflicts),
            (b'o', &self.own_dirs),
            (b'm', &self.dirs),
            (b'f', &self.files),
        ];
        for (key, values) in lists {
            values.iter().for_each(|value| line(key, value));
        }
        // Marks the text as complete.
        line(b'.', b"");
        text
    }

    /// Parses such a text; `None` if it is incomplete or malformed.
    pub fn read(text: &[u8]) -> Option<PackageInfo> {
        let mut info = PackageInfo::default();
        let mut lines = text.strip_prefix(HEAD)?.split(|&byte| byte == b'\n');
        loop {
            let (&key, value) = lines.next()?.split_first()?;
            let list = match key {
                b'n' => {
                    info.name = value.to_vec();
                    continue;
                }
                b'b' => {
                    info.bytes = std::str::from_utf8(value).ok()?.parse().ok()?;
                    continue;
                }
                b't' => {
                    info.needs_pkg_add = Some(String::from_utf8(value.to_vec()).ok()?);
                    continue;
                }
                b'.' => return Some(info),
                b'd' => &mut info.depends,
                b'c' => &mut info.conflicts,
                b'o' => &mut info.own_dirs,
                b'm' => &mut info.dirs,
                b'f' => &mut info.files,
                _ => return None,
            };
            list.push(value.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_unless_truncated() {
        let list = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        let info = PackageInfo {
            name: b"lib-1.0".to_vec(),
            bytes: 4711,
            needs_pkg_add: Some("it has a script".into()),
            depends: list(&["a>=1", "b-[0-9]*"]),
            conflicts: list(&["c"]),
            own_dirs: list(&["var/x"]),
            dirs: list(&["lib", "lib/x"]),
            files: list(&["lib/x/\u{e4} b", "lib/y"]),
        };
        let text = info.text();
        assert_eq!(PackageInfo::read(&text), Some(info));
        for length in 0..text.len() - 2 {
            assert_eq!(PackageInfo::read(&text[..length]), None, "{length}");
        }
        assert_eq!(PackageInfo::read(b"tanto layer 1\n?x\n.\n"), None);
    }
}
