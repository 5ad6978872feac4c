//! Tar archives: ustar, with what GNU and POSIX have added for long names. Reads one member after the other. Does not
//! know what is in them.

use std::io::{self, Read};

use super::ArchiveError;

/// A member of an archive, without its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where it goes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// What a link leads to; empty for all else.
    pub link: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Its owner's number.
    pub uid: u32,
    /// Its group's.
    pub gid: u32,
    /// Its owner's name, which counts where it exists; may be empty.
    pub user: Vec<u8>,
    /// Its group's.
    pub group: Vec<u8>,
    /// When it was changed: seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// How long its content is, in bytes.
    pub size: u64,
    /// It has attributes, access lists or flags that are not told here.
    pub more: bool,
}

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file.
    File,
    /// Another name of a member that came before.
    Hard,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A device or a pipe.
    Special,
}

/// An archive that is being read. As a reader, it is the content of its present member.
pub(super) struct Members<R> {
    from: R,
    /// Of the content.
    left: u64,
    /// What follows it, up to the next head.
    padding: u64,
    begun: bool,
    ended: bool,
}

const BLOCK: usize = 512;
/// A name, or what is said beside the head of a member. Paths have 4,096 bytes at most.
const LONGEST_EXTENSION: u64 = 1 << 20;
/// How many members may follow each other that say something of the next.
const MOST_EXTENSIONS: usize = 16;
const LONGEST_PATH: usize = 4096;

/// What members before a member say of it.
#[derive(Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    group: Option<Vec<u8>>,
    uid: Option<u64>,
    gid: Option<u64>,
    size: Option<u64>,
    mtime: Option<(i64, u32)>,
    more: bool,
}

impl<R: Read> Members<R> {
    pub fn new(from: R) -> Members<R> {
        Members { from, left: 0, padding: 0, begun: false, ended: false }
    }

    /// The next member. What was not read of the last one is passed over.
    pub fn next_member(&mut self) -> Result<Option<Member>, ArchiveError> {
        let mut said = Said::default();
        for _ in 0..=MOST_EXTENSIONS {
            let Some(head) = self.next_head()? else { return Ok(None) };
            let size = number(&head[124..136]).ok_or(ArchiveError::Member("a size is no number"))?;
            match head[156] {
                b'x' => said.read(&self.extension(size)?)?,
                b'g' => drop(self.extension(size)?),
                b'L' => said.path = Some(until_nul(&self.extension(size)?).to_vec()),
                b'K' => said.link = Some(until_nul(&self.extension(size)?).to_vec()),
                _ => return self.begin(&head, said, size).map(Some),
            }
        }
        Err(ArchiveError::Member("too much is said of one member"))
    }

    fn next_head(&mut self) -> Result<Option<[u8; BLOCK]>, ArchiveError> {
        if self.ended {
            return Ok(None);
        }
        let rest = self.left + self.padding;
        if io::copy(&mut (&mut self.from).take(rest), &mut io::sink())? < rest {
            return Err(ArchiveError::Torn);
        }
        (self.left, self.padding) = (0, 0);
        let mut head = [0; BLOCK];
        self.from.read_exact(&mut head)?;
        if head.iter().all(|&byte| byte == 0) {
            self.ended = true;
            // Behind the end are the sums of what packed and signed it.
            io::copy(&mut self.from, &mut io::sink())?;
            return Ok(None);
        }
        match sums_up(&head) {
            true => self.begun = true,
            false if self.begun => return Err(ArchiveError::Member("the head of a member is not what its sum says")),
            false => return Err(ArchiveError::NoPackage),
        }
        Ok(Some(head))
    }

    /// The content of a member that says something of the next.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > LONGEST_EXTENSION {
            return Err(ArchiveError::Member("a name is too long"));
        }
        self.expect(size);
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        Ok(content)
    }

    fn expect(&mut self, size: u64) {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    fn begin(&mut self, head: &[u8; BLOCK], said: Said, size: u64) -> Result<Member, ArchiveError> {
        let path = said.path.unwrap_or_else(|| own_path(head));
        let kind = match head[156] {
            // What pkgsrc's tools and older ones say of directories.
            0 | b'0' | b'7' if path.ends_with(b"/") => Kind::Directory,
            0 | b'0' | b'7' => Kind::File,
            b'1' => Kind::Hard,
            b'2' => Kind::Symlink,
            b'5' => Kind::Directory,
            b'3' | b'4' | b'6' => Kind::Special,
            _ => return Err(ArchiveError::Member("a member is of no known kind")),
        };
        let size = said.size.unwrap_or(size);
        let size = match kind {
            Kind::File if size <= i64::MAX as u64 => size,
            Kind::Hard if size > 0 => return Err(ArchiveError::Member("a link has content")),
            Kind::File => return Err(ArchiveError::Member("a member is too long")),
            _ => 0,
        };
        let link = match kind {
            Kind::Hard | Kind::Symlink => said.link.unwrap_or_else(|| until_nul(&head[157..257]).to_vec()),
            _ => Vec::new(),
        };
        if path.is_empty() || path.len().max(link.len()) > LONGEST_PATH || path.contains(&0) || link.contains(&0) {
            return Err(ArchiveError::Member("a member's name makes no sense"));
        }
        let word = |field: &[u8]| number(field).ok_or(ArchiveError::Member("a field is no number"));
        let id = |said: Option<u64>, field: &[u8]| {
            let id = said.map_or_else(|| word(field), Ok)?;
            u32::try_from(id).map_err(|_| ArchiveError::Member("an owner has no such number"))
        };
        self.expect(size);
        Ok(Member {
            kind,
            link,
            mode: (word(&head[100..108])? & 0o7777) as u32,
            uid: id(said.uid, &head[108..116])?,
            gid: id(said.gid, &head[116..124])?,
            user: said.user.unwrap_or_else(|| until_nul(&head[265..297]).to_vec()),
            group: said.group.unwrap_or_else(|| until_nul(&head[297..329]).to_vec()),
            mtime: said.mtime.unwrap_or((word(&head[136..148])?.try_into().unwrap_or(0), 0)),
            size,
            more: said.more,
            path,
        })
    }
}

impl<R: Read> Read for Members<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let length = self.from.read(&mut room[..most])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= length as u64;
        Ok(length)
    }
}

impl Said {
    /// Lines `LENGTH KEY=VALUE`, where the length is that of the whole line.
    fn read(&mut self, mut text: &[u8]) -> Result<(), ArchiveError> {
        let bad = ArchiveError::Member("what is said of a member makes no sense");
        while !text.is_empty() {
            let Some((line, rest)) = line(text) else { return Err(bad) };
            let Some(equals) = line.iter().position(|&byte| byte == b'=') else { return Err(bad) };
            let (key, value) = (&line[..equals], &line[equals + 1..]);
            let known = match key {
                b"path" => replace(&mut self.path, value.to_vec()),
                b"linkpath" => replace(&mut self.link, value.to_vec()),
                b"uname" => replace(&mut self.user, value.to_vec()),
                b"gname" => replace(&mut self.group, value.to_vec()),
                b"uid" => decimal(value).is_some_and(|it| replace(&mut self.uid, it)),
                b"gid" => decimal(value).is_some_and(|it| replace(&mut self.gid, it)),
                b"size" => decimal(value).is_some_and(|it| replace(&mut self.size, it)),
                b"mtime" => time(value).is_some_and(|it| replace(&mut self.mtime, it)),
                _ if key.starts_with(b"GNU.sparse") => return Err(ArchiveError::Member("a member has holes")),
                _ => {
                    self.more |= [&b"SCHILY.xattr"[..], b"LIBARCHIVE.xattr", b"SCHILY.acl", b"SCHILY.fflags"]
                        .iter()
                        .any(|it| key.starts_with(it));
                    true
                }
            };
            if !known {
                return Err(bad);
            }
            text = rest;
        }
        Ok(())
    }
}

fn replace<T>(place: &mut Option<T>, value: T) -> bool {
    *place = Some(value);
    true
}

/// The first line's key and value, and what follows it.
fn line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = text.iter().position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&text[..blank])?).ok()?;
    let line = text.get(blank + 1..length)?;
    Some((line.strip_suffix(b"\n")?, &text[length..]))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Seconds, with a fraction perhaps; before 1970 perhaps.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (text, negative) = text.strip_prefix(b"-").map_or((text, false), |rest| (rest, true));
    let dot = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let seconds = i64::try_from(decimal(&text[..dot])?).ok()?;
    let fraction = text.get(dot + 1..).unwrap_or_default();
    let mut ns = 0;
    for at in 0..9 {
        let digit = fraction.get(at).copied().unwrap_or(b'0');
        ns = ns * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some(match (negative, ns) {
        (false, ns) => (seconds, ns),
        (true, 0) => (-seconds, 0),
        (true, ns) => (-seconds - 1, 1_000_000_000 - ns),
    })
}

/// Octal digits between blanks; or, if the first bit is set, a number in binary.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // The sign, which is never needed, is in the first byte too.
        let first = u64::from(field[0] & 0x7f);
        return field[1..].iter().try_fold(first, |sum, &byte| sum.checked_mul(256)?.checked_add(byte.into()));
    }
    let text = until_nul(field).trim_ascii();
    text.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 8)?;
        sum.checked_mul(8)?.checked_add(digit.into())
    })
}

/// Its own path, which may be in two pieces.
fn own_path(head: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&head[..100]);
    let prefix = until_nul(&head[345..500]);
    // GNU's own format has other things there.
    match &head[257..263] == b"ustar\0" && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

/// The sum of all bytes, in which the sum itself counts as blanks. Some old programs count signed.
fn sums_up(head: &[u8; BLOCK]) -> bool {
    let own = 148..156;
    let bytes = || head.iter().enumerate().map(|(at, &byte)| if own.contains(&at) { b' ' } else { byte });
    let said = number(&head[own.clone()]).and_then(|sum| i64::try_from(sum).ok());
    let unsigned = bytes().map(i64::from).sum::<i64>();
    let signed = bytes().map(|byte| i64::from(byte.cast_signed())).sum::<i64>();
    said.is_some_and(|said| said == unsigned || said == signed)
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
