//! What is known of an unpacked package, so that nobody need look into it: as text, beside its layer. Does not know how
//! it came there.

use crate::package::archive::plist::{Plist, Word};

/// Of one package. Paths are below the prefix.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    /// PKGNAME.
    pub name: Vec<u8>,
    /// About so much its layer takes on the disk.
    pub bytes: u64,
    /// Why pkg_add has to install it; it has no files here then.
    pub through: Option<String>,
    /// Patterns of what it needs.
    pub depends: Vec<Vec<u8>>,
    /// Patterns of what it cannot be beside.
    pub conflicts: Vec<Vec<u8>>,
    /// Directories that are its own though there may be nothing in them.
    pub own_dirs: Vec<Vec<u8>>,
    /// All directories that are made for its files and for those, each before what is in it.
    pub dirs: Vec<Vec<u8>>,
    /// Its files, in order.
    pub files: Vec<Vec<u8>>,
}

const HEAD: &[u8] = b"tanto layer 1\n";

impl Facts {
    /// What its list says. What it takes on the disk, and its directories, is not known by that.
    pub fn of(plist: Plist<'_>) -> Facts {
        let values = |word| plist.values(word).map(<[u8]>::to_vec).collect();
        let mut files: Vec<Vec<u8>> = plist.files().map(|(file, _)| file.to_vec()).collect();
        files.sort_unstable();
        Facts {
            name: plist.name().unwrap_or_default().to_vec(),
            depends: values(Word::Depends),
            conflicts: values(Word::Conflicts),
            own_dirs: values(Word::Directory),
            files,
            ..Facts::default()
        }
    }

    /// As text. No value has more than a line.
    pub fn text(&self) -> Vec<u8> {
        let mut text = HEAD.to_vec();
        let mut line = |key: u8, value: &[u8]| {
            text.push(key);
            text.extend_from_slice(value);
            text.push(b'\n');
        };
        line(b'n', &self.name);
        line(b'b', self.bytes.to_string().as_bytes());
        if let Some(why) = &self.through {
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
        // Whoever reads it knows by this that it is whole.
        line(b'.', b"");
        text
    }

    /// Reads it again; `None` if it is not whole.
    pub fn read(text: &[u8]) -> Option<Facts> {
        let mut facts = Facts::default();
        let mut lines = text.strip_prefix(HEAD)?.split(|&byte| byte == b'\n');
        loop {
            let (&key, value) = lines.next()?.split_first()?;
            let list = match key {
                b'n' => {
                    facts.name = value.to_vec();
                    continue;
                }
                b'b' => {
                    facts.bytes = std::str::from_utf8(value).ok()?.parse().ok()?;
                    continue;
                }
                b't' => {
                    facts.through = Some(String::from_utf8(value.to_vec()).ok()?);
                    continue;
                }
                b'.' => return Some(facts),
                b'd' => &mut facts.depends,
                b'c' => &mut facts.conflicts,
                b'o' => &mut facts.own_dirs,
                b'm' => &mut facts.dirs,
                b'f' => &mut facts.files,
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
    fn what_is_written_is_read_again_if_it_is_whole() {
        let list = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        let facts = Facts {
            name: b"lib-1.0".to_vec(),
            bytes: 4711,
            through: Some("it has a script".into()),
            depends: list(&["a>=1", "b-[0-9]*"]),
            conflicts: list(&["c"]),
            own_dirs: list(&["var/x"]),
            dirs: list(&["lib", "lib/x"]),
            files: list(&["lib/x/\u{e4} b", "lib/y"]),
        };
        let text = facts.text();
        assert_eq!(Facts::read(&text), Some(facts));
        for length in 0..text.len() - 2 {
            assert_eq!(Facts::read(&text[..length]), None, "{length}");
        }
        assert_eq!(Facts::read(b"tanto layer 1\n?x\n.\n"), None);
    }
}
