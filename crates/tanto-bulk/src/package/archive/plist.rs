//! Parses `+CONTENTS` as pkg_install does: a line for each file, and lines with `@`.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plist<'t> {
    text: &'t [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'t> {
    /// A file below the prefix.
    File(&'t [u8]),
    /// A command and its argument.
    Word(Word, &'t [u8]),
    /// An unknown command, which pkg_add warns of.
    Unknown(&'t [u8]),
}

/// The commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// `@cwd`: the prefix.
    Cwd,
    /// `@src`: the directory that files were packed from.
    Src,
    /// `@exec`: runs at installation.
    Exec,
    /// `@unexec`: runs at removal.
    Unexec,
    /// `@mode` of the files that follow.
    Mode,
    /// `@owner` of the files that follow.
    Owner,
    /// `@group` of the files that follow.
    Group,
    /// `@comment`, which also holds the digest of the file before it.
    Comment,
    /// `@ignore`: ignores the next line.
    Ignore,
    /// `@name`: PKGNAME.
    Name,
    /// `@display`: a message for the installation.
    Display,
    /// `@pkgdep`: a dependency.
    Depends,
    /// `@pkgcfl`: a conflict.
    Conflicts,
    /// `@pkgdir`: a directory of the package.
    Directory,
    /// `@dirrm`: a directory to remove.
    Remove,
    /// `@option`.
    Option,
    /// `@blddep`: a package that it was built with.
    BuiltWith,
}

/// The recorded content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum<'t> {
    Unsaid,
    /// MD5 in hex.
    Md5(&'t [u8]),
    /// The target of a symbolic link.
    Symlink(&'t [u8]),
}

/// The first command that a line starts with counts, whatever follows.
const WORDS: [(&[u8], Word); 17] = [
    (b"cwd", Word::Cwd),
    (b"src", Word::Src),
    (b"exec", Word::Exec),
    (b"unexec", Word::Unexec),
    (b"mode", Word::Mode),
    (b"owner", Word::Owner),
    (b"group", Word::Group),
    (b"comment", Word::Comment),
    (b"ignore", Word::Ignore),
    (b"name", Word::Name),
    (b"display", Word::Display),
    (b"pkgdep", Word::Depends),
    (b"pkgcfl", Word::Conflicts),
    (b"pkgdir", Word::Directory),
    (b"dirrm", Word::Remove),
    (b"option", Word::Option),
    (b"blddep", Word::BuiltWith),
];

impl<'t> Plist<'t> {
    pub fn new(text: &'t [u8]) -> Plist<'t> {
        // C strings end at NUL.
        Plist { text: text.split(|&byte| byte == 0).next().unwrap_or_default() }
    }

    /// Non-empty lines.
    pub fn entries(self) -> impl Iterator<Item = Entry<'t>> {
        let lines = self.text.split(|&byte| byte == b'\n').map(trimmed_end);
        lines.filter(|line| !line.is_empty()).map(entry)
    }

    /// Entries without those after `@ignore`.
    pub fn obeyed(self) -> impl Iterator<Item = Entry<'t>> {
        let mut ignored = false;
        self.entries().filter(move |entry| {
            let this = std::mem::take(&mut ignored);
            ignored = !this && matches!(entry, Entry::Word(Word::Ignore, _));
            !this && !ignored
        })
    }

    /// The arguments of all commands of a kind.
    pub fn values(self, wanted: Word) -> impl Iterator<Item = &'t [u8]> {
        self.obeyed().filter_map(move |entry| match entry {
            Entry::Word(word, value) if word == wanted => Some(value),
            _ => None,
        })
    }

    /// PKGNAME.
    pub fn name(self) -> Option<&'t [u8]> {
        self.values(Word::Name).find(|name| !name.is_empty())
    }

    pub fn prefix(self) -> Option<&'t [u8]> {
        self.values(Word::Cwd).find(|prefix| !prefix.is_empty())
    }

    /// Files with their recorded content.
    pub fn files(self) -> impl Iterator<Item = (&'t [u8], Sum<'t>)> {
        let mut entries = self.obeyed().peekable();
        std::iter::from_fn(move || {
            let file = entries.find_map(|entry| match entry {
                Entry::File(file) => Some(file),
                _ => None,
            })?;
            let sum = match entries.peek() {
                Some(Entry::Word(Word::Comment, text)) => sum(text),
                _ => Sum::Unsaid,
            };
            Some((file, sum))
        })
    }
}

fn sum(comment: &[u8]) -> Sum<'_> {
    match (comment.strip_prefix(b"MD5:"), comment.strip_prefix(b"Symlink:")) {
        (Some(md5), _) => Sum::Md5(md5),
        (_, Some(link)) => Sum::Symlink(link),
        _ => Sum::Unsaid,
    }
}

fn entry(line: &[u8]) -> Entry<'_> {
    let Some(command) = line.strip_prefix(b"@") else { return Entry::File(line) };
    let known = WORDS.iter().find_map(|&(text, word)| Some((word, command.strip_prefix(text)?)));
    match known {
        Some((word, rest)) => Entry::Word(word, trimmed_start(rest)),
        None => Entry::Unknown(line),
    }
}

/// Whitespace as in C.
fn is_blank(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

fn trimmed_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    &line[..end]
}

fn trimmed_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"@comment $NetBSD: PLIST$\n@name lib-1.0nb2\n@cwd /usr/pkg\n@blddep base-2\n@pkgdep base>=1\n\
        bin/a\n@comment MD5:00ff\nlib/b.so\n@comment Symlink:b.so.1\n@mode 0444\nshare/c  \n\n@ignore\n+BUILD\n\
        @pkgdir var/x\n@exec echo %D\n";

    #[test]
    fn files_have_recorded_digests() {
        let plist = Plist::new(TEXT);
        let files: Vec<_> = plist.files().collect();
        assert_eq!(
            files,
            [(&b"bin/a"[..], Sum::Md5(b"00ff")), (b"lib/b.so", Sum::Symlink(b"b.so.1")), (b"share/c", Sum::Unsaid)]
        );
        assert_eq!((plist.name(), plist.prefix()), (Some(&b"lib-1.0nb2"[..]), Some(&b"/usr/pkg"[..])));
        assert_eq!(plist.values(Word::BuiltWith).collect::<Vec<_>>(), [b"base-2"]);
        assert_eq!(plist.values(Word::Depends).collect::<Vec<_>>(), [b"base>=1"]);
        assert_eq!(plist.values(Word::Directory).collect::<Vec<_>>(), [b"var/x"]);
    }

    #[test]
    fn lines_are_parsed_as_by_pkg_install() {
        let entries = |text: &'static str| Plist::new(text.as_bytes()).entries().collect::<Vec<_>>();
        assert_eq!(entries("@execfoo bar\x0b"), [Entry::Word(Word::Exec, b"foo bar")]);
        assert_eq!(entries("@bogus x\n \n\t@cwd"), [Entry::Unknown(b"@bogus x"), Entry::File(b"\t@cwd")]);
        assert_eq!(entries("@cwd  a b \r\n@mode"), [Entry::Word(Word::Cwd, b"a b"), Entry::Word(Word::Mode, b"")]);
        assert_eq!(entries("a\0b\nc"), [Entry::File(b"a")]);
    }

    #[test]
    fn ignore_applies_to_ignore() {
        let plist = Plist::new(b"@ignore\n@ignore\na\n@ignore\n@name b-1");
        assert_eq!(plist.obeyed().collect::<Vec<_>>(), [Entry::File(b"a")]);
        assert_eq!(plist.name(), None);
    }
}
