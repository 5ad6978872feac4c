//! `+CONTENTS`: what is in a package, a line for each file, and lines that begin with `@`. Understands a line as
//! pkg_install does. Does not do what the lines say.

/// All lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plist<'t> {
    text: &'t [u8],
}

/// A line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'t> {
    /// A file, below the prefix.
    File(&'t [u8]),
    /// A line that begins with `@`, and what stands behind its first word.
    Word(Word, &'t [u8]),
    /// A line that begins with `@` and means nothing; pkg_add warns of it.
    Unknown(&'t [u8]),
}

/// What a line that begins with `@` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// `@cwd`: the prefix.
    Cwd,
    /// `@src`: where files were packed from.
    Src,
    /// `@exec`: a command, when it is installed.
    Exec,
    /// `@unexec`: a command, when it is removed.
    Unexec,
    /// `@mode` of the files that follow.
    Mode,
    /// `@owner` of the files that follow.
    Owner,
    /// `@group` of the files that follow.
    Group,
    /// `@comment`, which also tells what the file before it holds.
    Comment,
    /// `@ignore`: the next line is none.
    Ignore,
    /// `@name`: PKGNAME.
    Name,
    /// `@display`: what is shown when it is installed.
    Display,
    /// `@pkgdep`: a pattern of a package that it needs.
    Depends,
    /// `@pkgcfl`: a pattern of packages that cannot be beside it.
    Conflicts,
    /// `@pkgdir`: a directory that it has.
    Directory,
    /// `@dirrm`: a directory that is removed with it.
    Remove,
    /// `@option`.
    Option,
    /// `@blddep`: a package that it was built with.
    BuiltWith,
}

/// What a file should hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum<'t> {
    /// Nothing is said.
    Unsaid,
    /// MD5 of its content, in hex.
    Md5(&'t [u8]),
    /// What the symbolic link leads to.
    Symlink(&'t [u8]),
}

/// A line is the first of these that it begins with, whatever follows.
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
    /// Of this text.
    pub fn new(text: &'t [u8]) -> Plist<'t> {
        // To C, it has ended there.
        Plist { text: text.split(|&byte| byte == 0).next().unwrap_or_default() }
    }

    /// Its lines in their order, without those that are empty.
    pub fn entries(self) -> impl Iterator<Item = Entry<'t>> {
        let lines = self.text.split(|&byte| byte == b'\n').map(trimmed_end);
        lines.filter(|line| !line.is_empty()).map(entry)
    }

    /// The entries that count: not those behind `@ignore`.
    pub fn obeyed(self) -> impl Iterator<Item = Entry<'t>> {
        let mut ignored = false;
        self.entries().filter(move |entry| {
            let this = std::mem::take(&mut ignored);
            ignored = !this && matches!(entry, Entry::Word(Word::Ignore, _));
            !this && !ignored
        })
    }

    /// What stands behind each word of a kind.
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

    /// The prefix.
    pub fn prefix(self) -> Option<&'t [u8]> {
        self.values(Word::Cwd).find(|prefix| !prefix.is_empty())
    }

    /// Its files, and what the line behind each says of it.
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

/// Blanks are those of C.
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
    fn files_have_what_is_said_of_them() {
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
    fn a_line_is_read_as_pkg_install_reads_it() {
        let entries = |text: &'static str| Plist::new(text.as_bytes()).entries().collect::<Vec<_>>();
        assert_eq!(entries("@execfoo bar\x0b"), [Entry::Word(Word::Exec, b"foo bar")]);
        assert_eq!(entries("@bogus x\n \n\t@cwd"), [Entry::Unknown(b"@bogus x"), Entry::File(b"\t@cwd")]);
        assert_eq!(entries("@cwd  a b \r\n@mode"), [Entry::Word(Word::Cwd, b"a b"), Entry::Word(Word::Mode, b"")]);
        assert_eq!(entries("a\0b\nc"), [Entry::File(b"a")]);
    }

    #[test]
    fn what_is_ignored_may_be_another_ignore() {
        let plist = Plist::new(b"@ignore\n@ignore\na\n@ignore\n@name b-1");
        assert_eq!(plist.obeyed().collect::<Vec<_>>(), [Entry::File(b"a")]);
        assert_eq!(plist.name(), None);
    }
}
