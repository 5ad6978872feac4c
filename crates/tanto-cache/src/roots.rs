//! Paths below the root of a checkout, written without the root, so that another checkout can use them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memchr::memmem;

/// Stands for the root. It is in no path: command lines with control characters are not cached.
const PLACEHOLDER: u8 = 1;

/// The root of a checkout, or none: then all paths stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Root(Vec<u8>);

impl Root {
    /// All paths stay as they are.
    pub(crate) const NONE: Root = Root(Vec::new());

    #[cfg(test)]
    pub(crate) fn new(path: &[u8]) -> Root {
        Root(path.to_vec())
    }

    /// Finds the checkout that contains a directory: the nearest one with its own `.git`, which a submodule does not have.
    /// `NONE` if compilers write its path in another way into depfiles, or options have another use for a character.
    pub(crate) fn around(dir: &Path) -> Root {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+,@-".contains(byte);
        let found = dir.ancestors().filter(|dir| dir.parent().is_some()).find(|dir| is_checkout(dir));
        let path = found.map(|dir| dir.as_os_str().as_bytes()).filter(|path| path.iter().all(is_plain));
        path.map_or(Root::NONE, |path| Root(path.to_vec()))
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the root at the beginning of a path.
    pub(crate) fn hide_in_path<'p>(&self, path: &'p [u8], buffer: &'p mut Vec<u8>) -> &'p [u8] {
        match path.strip_prefix(&self.0[..]) {
            Some(rest) if !self.is_none() && matches!(rest.first(), None | Some(b'/')) => {
                buffer.clear();
                buffer.push(PLACEHOLDER);
                buffer.extend_from_slice(rest);
                buffer
            }
            _ => path,
        }
    }

    /// Restores the root at the beginning of a path.
    pub(crate) fn show_in_path<'p>(&self, path: &'p [u8], buffer: &'p mut Vec<u8>) -> &'p [u8] {
        match path.split_first() {
            Some((&PLACEHOLDER, rest)) => {
                buffer.clear();
                buffer.extend_from_slice(&self.0);
                buffer.extend_from_slice(rest);
                buffer
            }
            _ => path,
        }
    }

    /// Replaces the root wherever it is in a word of a command line, in which a path may follow an option.
    pub(crate) fn hide_in_word(&self, word: &[u8]) -> Vec<u8> {
        self.replaced(word, |_| true)
    }

    /// Replaces the root in a depfile or a message. Returns `None` if it could not be restored: the text has the root in the
    /// middle of another path, or has the placeholder.
    pub(crate) fn hide_in_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let hidden = self.replaced(text, ends_before_path);
        (!text.contains(&PLACEHOLDER) && !self.is_in(&hidden)).then_some(hidden)
    }

    /// Replaces the root where it is a whole path or the beginning of one, if the text before it is as wanted.
    fn replaced(&self, text: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut hidden = Vec::with_capacity(text.len());
        let mut done = 0;
        if self.is_none() {
            return text.to_vec();
        }
        for at in memmem::find_iter(text, &self.0) {
            let end = at + self.0.len();
            // A longer name that begins with the root is another directory.
            let is_longer = text.get(end).is_some_and(|&next| is_in_name(next));
            if is_longer || !is_wanted(&text[..at]) {
                continue;
            }
            hidden.extend_from_slice(&text[done..at]);
            hidden.push(PLACEHOLDER);
            done = end;
        }
        hidden.extend_from_slice(&text[done..]);
        hidden
    }

    /// Restores the root in a text.
    pub(crate) fn show_in_text(&self, text: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(text.len());
        for (at, part) in text.split(|&byte| byte == PLACEHOLDER).enumerate() {
            if at > 0 {
                shown.extend_from_slice(&self.0);
            }
            shown.extend_from_slice(part);
        }
        shown
    }

    /// Returns whether the bytes of the root are anywhere in a file.
    pub(crate) fn is_in(&self, content: &[u8]) -> bool {
        !self.is_none() && memmem::find(content, &self.0).is_some()
    }

    /// Returns whether a path begins with the text of the root.
    pub(crate) fn begins(&self, path: &[u8]) -> bool {
        !self.is_none() && path.starts_with(&self.0)
    }

    /// Returns whether a path begins with the root, but is not below it. Options that replace the root change it, too.
    pub(crate) fn is_like(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&self.0[..]).filter(|_| !self.is_none());
        rest.is_some_and(|rest| !matches!(rest.first(), None | Some(b'/')))
    }
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
    fn paths_below_the_root_are_written_without_it() {
        let root = Root::new(b"/a/b");
        let mut buffer = Vec::new();
        for (path, hidden) in
            [("/a/b", "\u{1}"), ("/a/b/c", "\u{1}/c"), ("/a/bc", "/a/bc"), ("/a", "/a"), ("b/c", "b/c")]
        {
            assert_eq!(root.hide_in_path(path.as_bytes(), &mut buffer), hidden.as_bytes());
            let hidden = hidden.as_bytes().to_vec();
            assert_eq!(root.show_in_path(&hidden, &mut buffer), path.as_bytes());
        }
        assert_eq!(Root::NONE.hide_in_path(b"/a/b/c", &mut buffer), b"/a/b/c");
    }

    #[test]
    fn the_root_is_replaced_in_words() {
        let root = Root::new(b"/a/b");
        for (word, hidden) in [
            ("-I/a/b/c", "-I\u{1}/c"),
            ("-ffile-prefix-map=/a/b=.", "-ffile-prefix-map=\u{1}=."),
            ("/a/b2", "/a/b2"),
            ("/a/b.x", "/a/b.x"),
            ("", ""),
        ] {
            assert_eq!(root.hide_in_word(word.as_bytes()), hidden.as_bytes());
        }
        assert_eq!(Root::NONE.hide_in_word(b"-I/a/b"), b"-I/a/b");
    }

    #[test]
    fn the_root_is_replaced_in_texts_and_restored() {
        let root = Root::new(b"/a/b");
        for (text, hidden) in [
            ("x.o: /a/b/x.c \\\n /a/b\n", "x.o: \u{1}/x.c \\\n \u{1}\n"),
            ("In \u{2018}/a/b/x\u{2019}, (/a/b)", "In \u{2018}\u{1}/x\u{2019}, (\u{1})"),
            ("\u{1b}[01m\u{1b}[K/a/b/x.c:1:\u{1b}[m", "\u{1b}[01m\u{1b}[K\u{1}/x.c:1:\u{1b}[m"),
            ("\u{1b}[1m/a/b", "\u{1b}[1m\u{1}"),
            ("", ""),
        ] {
            assert_eq!(root.hide_in_text(text.as_bytes()).as_deref(), Some(hidden.as_bytes()));
            assert_eq!(root.show_in_text(hidden.as_bytes()), text.as_bytes());
        }
        for text in ["/usr/a/b/x", "/a/b2", "/a/b.x", "\u{e9}/a/b", "-I/a/b", "a\u{1}b", "[1m/a/b", "m/a/b"] {
            assert_eq!(root.hide_in_text(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Root::NONE.hide_in_text(b"/usr/a/b/x").as_deref(), Some(&b"/usr/a/b/x"[..]));
        assert_eq!(Root::NONE.hide_in_text(b"\x01"), None);
        assert!(root.is_in(b"x/a/b2") && !root.is_in(b"/a/") && !Root::NONE.is_in(b"x"));
    }

    #[test]
    fn a_checkout_is_found_by_its_git_directory() {
        let dir = Scratch::new("cache-root");
        std::fs::create_dir_all(dir.at("repo/.git")).unwrap();
        std::fs::create_dir_all(dir.at("repo/sub/out")).unwrap();
        std::fs::create_dir_all(dir.at("tree/out")).unwrap();
        dir.write("repo/sub/.git", "gitdir: ../.git/modules/sub\n");
        dir.write("tree/.git", "gitdir: /x/repo/.git/worktrees/tree\n");
        let root = |name: &str| Root::around(&dir.at(name));
        let path = |name: &str| Root::new(dir.at(name).as_os_str().as_bytes());
        assert_eq!(root("repo/sub/out"), path("repo"));
        assert_eq!(root("tree/out"), path("tree"));
        assert_eq!(root("tree"), path("tree"));
    }
}
