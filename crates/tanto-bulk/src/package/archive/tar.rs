//! Reads untrusted tar archives: ustar with the extensions of GNU and POSIX for long names.

use std::io::{self, Read};

use super::ArchiveError;

/// The header of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub path: Vec<u8>,
    pub kind: MemberKind,
    /// The target of a link; else empty.
    pub link: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The owner's name, which takes precedence if it exists; may be empty.
    pub user: Vec<u8>,
    pub group: Vec<u8>,
    /// Seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    /// Bytes of content.
    pub size: u64,
    /// Has extended attributes, access lists or flags, which are not returned.
    pub more: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberKind {
    File,
    /// A hard link to an earlier member.
    Hard,
    Symlink,
    Directory,
    /// A device or a pipe.
    Special,
}

/// An archive reader. As `Read`, it returns the content of the current member.
pub(super) struct Members<R> {
    from: R,
    /// Bytes left of the content.
    left: u64,
    /// Bytes of padding after it.
    padding: u64,
    begun: bool,
    ended: bool,
}

const BLOCK: usize = 512;
/// The size limit of an extension, in bytes. Paths have at most 4,096.
const MAX_EXTENSION: u64 = 1 << 20;
/// The limit of consecutive extension members.
const MAX_EXTENSIONS: usize = 16;
const MAX_PATH: usize = 4096;

/// Values of extension members for the next member.
#[derive(Default)]
struct Extensions {
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

    /// Moves to the next member.
    pub fn next_member(&mut self) -> Result<Option<Member>, ArchiveError> {
        let mut extensions = Extensions::default();
        for _ in 0..=MAX_EXTENSIONS {
            let Some(head) = self.next_head()? else { return Ok(None) };
            let size = number(&head[124..136]).ok_or(ArchiveError::Member("a size is not a number"))?;
            match head[156] {
                b'x' => extensions.read(&self.extension(size)?)?,
                b'g' => drop(self.extension(size)?),
                b'L' => extensions.path = Some(until_nul(&self.extension(size)?).to_vec()),
                b'K' => extensions.link = Some(until_nul(&self.extension(size)?).to_vec()),
                _ => return self.begin(&head, extensions, size).map(Some),
            }
        }
        Err(ArchiveError::Member("the extensions of a member are too large"))
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
            // Reads on, so that checksums of gzip and signatures are verified.
            io::copy(&mut self.from, &mut io::sink())?;
            return Ok(None);
        }
        match has_valid_checksum(&head) {
            true => self.begun = true,
            false if self.begun => return Err(ArchiveError::Member("wrong checksum in the header of a member")),
            false => return Err(ArchiveError::NoPackage),
        }
        Ok(Some(head))
    }

    /// Reads the content of an extension member.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > MAX_EXTENSION {
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

    fn begin(&mut self, head: &[u8; BLOCK], extensions: Extensions, size: u64) -> Result<Member, ArchiveError> {
        let path = extensions.path.unwrap_or_else(|| own_path(head));
        let kind = match head[156] {
            // Old formats mark directories like this.
            0 | b'0' | b'7' if path.ends_with(b"/") => MemberKind::Directory,
            0 | b'0' | b'7' => MemberKind::File,
            b'1' => MemberKind::Hard,
            b'2' => MemberKind::Symlink,
            b'5' => MemberKind::Directory,
            b'3' | b'4' | b'6' => MemberKind::Special,
            _ => return Err(ArchiveError::Member("a member is of an unknown type")),
        };
        let size = extensions.size.unwrap_or(size);
        let size = match kind {
            MemberKind::File if size <= i64::MAX as u64 => size,
            MemberKind::Hard if size > 0 => return Err(ArchiveError::Member("a link has content")),
            MemberKind::File => return Err(ArchiveError::Member("a member is too long")),
            _ => 0,
        };
        let link = match kind {
            MemberKind::Hard | MemberKind::Symlink => {
                extensions.link.unwrap_or_else(|| until_nul(&head[157..257]).to_vec())
            }
            _ => Vec::new(),
        };
        if path.is_empty() || path.len().max(link.len()) > MAX_PATH || path.contains(&0) || link.contains(&0) {
            return Err(ArchiveError::Member("malformed name of a member"));
        }
        let word = |field: &[u8]| number(field).ok_or(ArchiveError::Member("a field is not a number"));
        let id = |extensions: Option<u64>, field: &[u8]| {
            let id = extensions.map_or_else(|| word(field), Ok)?;
            u32::try_from(id).map_err(|_| ArchiveError::Member("an owner id is out of range"))
        };
        self.expect(size);
        Ok(Member {
            kind,
            link,
            mode: (word(&head[100..108])? & 0o7777) as u32,
            uid: id(extensions.uid, &head[108..116])?,
            gid: id(extensions.gid, &head[116..124])?,
            user: extensions.user.unwrap_or_else(|| until_nul(&head[265..297]).to_vec()),
            group: extensions.group.unwrap_or_else(|| until_nul(&head[297..329]).to_vec()),
            mtime: extensions.mtime.unwrap_or((word(&head[136..148])?.try_into().unwrap_or(0), 0)),
            size,
            more: extensions.more,
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

impl Extensions {
    /// Parses POSIX lines `LENGTH KEY=VALUE`; the length is that of the whole line.
    fn read(&mut self, mut text: &[u8]) -> Result<(), ArchiveError> {
        let bad = ArchiveError::Member("malformed extensions of a member");
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
                _ if key.starts_with(b"GNU.sparse") => return Err(ArchiveError::Member("a member is sparse")),
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

/// Returns the first line and the rest.
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

/// Parses seconds with an optional fraction and sign.
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

/// Parses octal digits between blanks, or GNU's binary numbers.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // The first byte has the sign too, which is never needed.
        let first = u64::from(field[0] & 0x7f);
        return field[1..].iter().try_fold(first, |sum, &byte| sum.checked_mul(256)?.checked_add(byte.into()));
    }
    let text = until_nul(field).trim_ascii();
    text.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 8)?;
        sum.checked_mul(8)?.checked_add(digit.into())
    })
}

/// The path in the header, possibly in two parts.
fn own_path(head: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_nul(&head[..100]);
    let prefix = until_nul(&head[345..500]);
    // GNU's format uses this field otherwise.
    match &head[257..263] == b"ustar\0" && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

/// Verifies the checksum, which counts as blanks itself. Some old programs sum signed bytes.
fn has_valid_checksum(head: &[u8; BLOCK]) -> bool {
    let own = 148..156;
    let bytes = || head.iter().enumerate().map(|(at, &byte)| if own.contains(&at) { b' ' } else { byte });
    let extensions = number(&head[own.clone()]).and_then(|sum| i64::try_from(sum).ok());
    let unsigned = bytes().map(i64::from).sum::<i64>();
    let signed = bytes().map(|byte| i64::from(byte.cast_signed())).sum::<i64>();
    extensions.is_some_and(|extensions| extensions == unsigned || extensions == signed)
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
