//! Directories that are written as placeholders, so that results can be used in another checkout or another build directory.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::{memchr2, memmem};

/// Stand for the root of the checkout and for the working directory. They are in no path: command lines with control characters
/// are not cached.
pub(crate) const PLACEHOLDERS: [u8; 2] = [ROOT, DIRECTORY];
const ROOT: u8 = 1;
const DIRECTORY: u8 = 2;

/// The directories that are replaced. All others stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Places {
    /// The root of the checkout; empty if it stays.
    root: Vec<u8>,
    /// The working directory below the root; empty if it stays.
    directory: Vec<u8>,
}

/// Which places are replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hidden {
    Nothing,
    Root,
    Directory,
    RootAndDirectory,
}

impl Places {
    /// All paths stay as they are.
    pub(crate) const NONE: Places = Places { root: Vec::new(), directory: Vec::new() };

    #[cfg(test)]
    pub(crate) fn new(root: &str, directory: &str) -> Places {
        Places { root: root.into(), directory: directory.into() }
    }

    /// Finds the checkout that contains a working directory: the nearest one with its own `.git`, which a submodule does not have.
    /// A place is missing if compilers write its path in another way into depfiles, or options have another use for a character;
    /// the directory also if it is the root.
    pub(crate) fn around(dir: &Path) -> Places {
        let is_plain = |path: &&[u8]| path.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._+,@-".contains(byte));
        let found = dir.ancestors().filter(|dir| dir.parent().is_some()).find(|dir| is_checkout(dir));
        let Some(root) = found.map(|dir| dir.as_os_str().as_bytes()).filter(is_plain) else { return Places::NONE };
        let directory = Some(dir.as_os_str().as_bytes()).filter(|dir| *dir != root).filter(is_plain);
        Places { root: root.to_vec(), directory: directory.unwrap_or_default().to_vec() }
    }

    /// Those of the places that are to be hidden.
    pub(crate) fn only(&self, hidden: Hidden) -> Places {
        let (root, directory) = match hidden {
            Hidden::Nothing => (false, false),
            Hidden::Root => (true, false),
            Hidden::Directory => (false, true),
            Hidden::RootAndDirectory => (true, true),
        };
        let keep = |path: &Vec<u8>, is_kept: bool| if is_kept { path.clone() } else { Vec::new() };
        Places { root: keep(&self.root, root), directory: keep(&self.directory, directory) }
    }

    pub(crate) fn root(&self) -> Option<&[u8]> {
        Some(&self.root[..]).filter(|path| !path.is_empty())
    }

    pub(crate) fn directory(&self) -> Option<&[u8]> {
        Some(&self.directory[..]).filter(|path| !path.is_empty())
    }

    pub(crate) fn are_none(&self) -> bool {
        self.root.is_empty() && self.directory.is_empty()
    }

    /// The placeholders and their paths, the longer path first.
    fn each(&self) -> impl Iterator<Item = (u8, &[u8])> {
        [(DIRECTORY, self.directory()), (ROOT, self.root())].into_iter().filter_map(|(mark, path)| Some((mark, path?)))
    }

    fn path_of(&self, placeholder: u8) -> Option<&[u8]> {
        self.each().find(|(mark, _)| *mark == placeholder).map(|(_, path)| path)
    }

    /// Replaces a place at the beginning of a path.
    pub(crate) fn hide_in_path<'p>(&self, path: &'p [u8], buffer: &'p mut Vec<u8>) -> &'p [u8] {
        match self.each().find_map(|(mark, place)| Some((mark, below(path, place)?))) {
            Some((mark, rest)) => {
                buffer.clear();
                buffer.push(mark);
                buffer.extend_from_slice(rest);
                buffer
            }
            None => path,
        }
    }

    /// Restores the place at the beginning of a path.
    pub(crate) fn show_in_path<'p>(&self, path: &'p [u8], buffer: &'p mut Vec<u8>) -> &'p [u8] {
        let parts = path.split_first().and_then(|(mark, rest)| Some((self.path_of(*mark)?, rest)));
        let Some((place, rest)) = parts else { return path };
        buffer.clear();
        buffer.extend_from_slice(place);
        buffer.extend_from_slice(rest);
        buffer
    }

    /// Replaces places wherever they are in a word of a command line, in which a path may follow an option.
    pub(crate) fn hide_in_word(&self, word: &[u8]) -> Vec<u8> {
        self.replaced(word, |_| true)
    }

    /// Replaces places in a depfile or a message. Returns `None` if they could not be restored: the text has one of them in the
    /// middle of another path, or has a placeholder.
    pub(crate) fn hide_in_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let hidden = self.replaced(text, ends_before_path);
        (!text.iter().any(|byte| PLACEHOLDERS.contains(byte)) && !self.are_in(&hidden)).then_some(hidden)
    }

    fn replaced(&self, text: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        self.each().fold(text.to_vec(), |text, (mark, place)| replaced(&text, place, mark, &is_wanted))
    }

    /// Restores places in a text.
    pub(crate) fn show_in_text(&self, text: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr2(ROOT, DIRECTORY, rest) {
            shown.extend_from_slice(&rest[..at]);
            shown.extend_from_slice(self.path_of(rest[at]).unwrap_or(&rest[at..=at]));
            rest = &rest[at + 1..];
        }
        shown.extend_from_slice(rest);
        shown
    }

    /// Returns whether the bytes of a place are anywhere in a file.
    pub(crate) fn are_in(&self, content: &[u8]) -> bool {
        self.each().any(|(_, place)| memmem::find(content, place).is_some())
    }

    /// Returns whether a path is the working directory or below it.
    pub(crate) fn has_in_directory(&self, path: &[u8]) -> bool {
        self.directory().is_some_and(|directory| below(path, directory).is_some())
    }

    /// Returns whether a name with placeholders begins with the text of a place for which it has none. Options that replace
    /// this place change the name here, too.
    pub(crate) fn begin(&self, name: &[u8], buffer: &mut Vec<u8>) -> bool {
        let mark = name.first().copied();
        let shown = self.show_in_path(name, buffer);
        match mark {
            Some(DIRECTORY) if !self.directory.is_empty() => false,
            Some(ROOT) if !self.root.is_empty() => self.directory().is_some_and(|place| shown.starts_with(place)),
            _ => self.each().any(|(_, place)| shown.starts_with(place)),
        }
    }

    /// Returns whether a path begins with a place, but is not below it. Options that replace the place change it, too.
    pub(crate) fn are_like(&self, path: &[u8]) -> bool {
        self.each().any(|(_, place)| path.starts_with(place) && below(path, place).is_none())
    }
}

/// Returns the rest of a path if it is `place` or below it.
fn below<'p>(path: &'p [u8], place: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(place).filter(|rest| matches!(rest.first(), None | Some(b'/')))
}

/// Replaces a place where it is a whole path or the beginning of one, if the text before it is as wanted.
fn replaced(text: &[u8], place: &[u8], placeholder: u8, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut hidden = Vec::with_capacity(text.len());
    let mut done = 0;
    for at in memmem::find_iter(text, place) {
        let end = at + place.len();
        // A longer name that begins with the place is another directory.
        let is_longer = text.get(end).is_some_and(|&next| is_in_name(next));
        if is_longer || !is_wanted(&text[..at]) {
            continue;
        }
        hidden.extend_from_slice(&text[done..at]);
        hidden.push(placeholder);
        done = end;
    }
    hidden.extend_from_slice(&text[done..]);
    hidden
}

/// Returns whether a byte can follow a name in a path without ending it.
fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte)
}

/// Returns whether a path may begin after a text. After a part of a path, it continues that one.
fn ends_before_path(text: &[u8]) -> bool {
    /// Quotes in messages.
    const QUOTES: [&[u8]; 2] = ["\u{2018}".as_bytes(), "\u{201c}".as_bytes()];
    let is_in_path = |&byte: &u8| is_in_name(byte) || !byte.is_ascii() || b"/@,%=\\".contains(&byte);
    !text.last().is_some_and(is_in_path) || QUOTES.iter().any(|quote| text.ends_with(quote)) || ends_in_color(text)
}

/// Returns whether a text ends in an escape sequence that sets the color or clears the line.
fn ends_in_color(text: &[u8]) -> bool {
    let Some(sequence) = text.strip_suffix(b"m").or_else(|| text.strip_suffix(b"K")) else {
        return false;
    };
    let digits = sequence.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    sequence[..sequence.len() - digits].ends_with(b"\x1b[")
}

/// Returns whether a directory is a repository or a worktree of one. A submodule belongs to the repository around it.
fn is_checkout(dir: &Path) -> bool {
    let git = dir.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(data) if data.is_dir() => true,
        Ok(data) if data.is_file() && data.len() < 4096 => {
            fs::read(&git).is_ok_and(|text| memmem::find(&text, b"/worktrees/").is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn paths_below_a_place_are_written_without_it() {
        let mut buffer = Vec::new();
        let (root, both) = (Places::new("/a/b", ""), Places::new("/a/b", "/a/b/c"));
        for (places, path, hidden) in [
            (&root, "/a/b", "\u{1}"),
            (&root, "/a/b/c", "\u{1}/c"),
            (&root, "/a/bc", "/a/bc"),
            (&root, "/a", "/a"),
            (&root, "b/c", "b/c"),
            (&both, "/a/b/c", "\u{2}"),
            (&both, "/a/b/c/../d", "\u{2}/../d"),
            (&both, "/a/b/c2/d", "\u{1}/c2/d"),
            (&Places::new("", "/a/b"), "/a/b/c", "\u{2}/c"),
            (&Places::NONE, "/a/b/c", "/a/b/c"),
        ] {
            assert_eq!(places.hide_in_path(path.as_bytes(), &mut buffer), hidden.as_bytes());
            let hidden = hidden.as_bytes().to_vec();
            assert_eq!(places.show_in_path(&hidden, &mut buffer), path.as_bytes());
        }
    }

    #[test]
    fn places_are_replaced_in_words() {
        let places = Places::new("/a/b", "/a/b/c");
        for (word, hidden) in [
            ("-I/a/b/d", "-I\u{1}/d"),
            ("-I/a/b/c/d", "-I\u{2}/d"),
            ("-ffile-prefix-map=/a/b=.", "-ffile-prefix-map=\u{1}=."),
            ("-ffile-prefix-map=/a/b/c=/a/b", "-ffile-prefix-map=\u{2}=\u{1}"),
            ("/a/b2", "/a/b2"),
            ("/a/b.x", "/a/b.x"),
            ("/a/b/c-d", "\u{1}/c-d"),
            ("", ""),
        ] {
            assert_eq!(places.hide_in_word(word.as_bytes()), hidden.as_bytes());
        }
        assert_eq!(Places::NONE.hide_in_word(b"-I/a/b"), b"-I/a/b");
    }

    #[test]
    fn places_are_replaced_in_texts_and_restored() {
        let places = Places::new("/a/b", "/a/b/c");
        for (text, hidden) in [
            ("x.o: /a/b/x.c \\\n /a/b\n", "x.o: \u{1}/x.c \\\n \u{1}\n"),
            ("x.o: /a/b/c/x.c /a/b/y /a/b/c2", "x.o: \u{2}/x.c \u{1}/y \u{1}/c2"),
            ("In \u{2018}/a/b/x\u{2019}, (/a/b)", "In \u{2018}\u{1}/x\u{2019}, (\u{1})"),
            ("\u{1b}[01m\u{1b}[K/a/b/x.c:1:\u{1b}[m", "\u{1b}[01m\u{1b}[K\u{1}/x.c:1:\u{1b}[m"),
            ("\u{1b}[1m/a/b", "\u{1b}[1m\u{1}"),
            ("", ""),
        ] {
            assert_eq!(places.hide_in_text(text.as_bytes()).as_deref(), Some(hidden.as_bytes()));
            assert_eq!(places.show_in_text(hidden.as_bytes()), text.as_bytes());
        }
        for text in ["/usr/a/b/x", "/a/b2", "/a/b.x", "\u{e9}/a/b", "-I/a/b", "a\u{1}b", "a\u{2}b", "[1m/a/b", "m/a/b"]
        {
            assert_eq!(places.hide_in_text(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Places::NONE.hide_in_text(b"/usr/a/b/x").as_deref(), Some(&b"/usr/a/b/x"[..]));
        assert_eq!(Places::NONE.hide_in_text(b"\x01"), None);
        assert_eq!(Places::new("", "/a/b/c").hide_in_text(b"/a/b /a/b/c").as_deref(), Some(&b"/a/b \x02"[..]));
        assert_eq!(Places::new("", "/a/b/c").hide_in_text(b"/a/b/c2"), None);
        assert!(places.are_in(b"x/a/b2") && !places.are_in(b"/a/") && !Places::NONE.are_in(b"x"));
    }

    #[test]
    fn names_that_begin_like_a_place_are_found() {
        let both = Places::new("/a/b", "/a/b/c");
        let (root, directory) = (both.only(Hidden::Root), both.only(Hidden::Directory));
        let begin = |places: &Places, name: &[u8]| places.begin(name, &mut Vec::new());
        for name in [&b"/a/b"[..], b"/a/b/x", b"/a/b2", b"\x01/c", b"\x01/c/x", b"\x01/c2/x"] {
            assert!(begin(&both, name), "{name:?}");
        }
        for name in [&b"/a"[..], b"\x01/x", b"\x02/x", b"\x02/../c/x", b"PWD"] {
            assert!(!begin(&both, name), "{name:?}");
        }
        assert!(begin(&directory, b"/a/b/c2/x") && !begin(&directory, b"/a/b/x") && !begin(&directory, b"\x02/x"));
        assert!(begin(&root, b"/a/b/x") && !begin(&root, b"\x01/c/x"));
        assert!(both.are_like(b"/a/b/c2") && both.are_like(b"/a/b2") && !both.are_like(b"/a/b/d"));
        assert!(!root.are_like(b"/a/b/c2") && directory.are_like(b"/a/b/c2") && !directory.are_like(b"/a/b2"));
    }

    #[test]
    fn a_checkout_is_found_by_its_git_directory() {
        let dir = Scratch::new("cache-root");
        std::fs::create_dir_all(dir.at("repo/.git")).unwrap();
        std::fs::create_dir_all(dir.at("repo/sub/out")).unwrap();
        std::fs::create_dir_all(dir.at("tree/out")).unwrap();
        dir.write("repo/sub/.git", "gitdir: ../.git/modules/sub\n");
        dir.write("tree/.git", "gitdir: /x/repo/.git/worktrees/tree\n");
        let around = |name: &str| Places::around(&dir.at(name));
        let path = |name: &str| dir.at(name).into_os_string().into_string().unwrap();
        assert_eq!(around("repo/sub/out"), Places::new(&path("repo"), &path("repo/sub/out")));
        assert_eq!(around("tree/out"), Places::new(&path("tree"), &path("tree/out")));
        assert_eq!(around("tree"), Places::new(&path("tree"), ""));
        assert_eq!(around("tree/o t"), Places::new(&path("tree"), ""));
    }
}
