//! Messages to and from fork servers and the checkpoint daemon, encoded as in `preload/PROTOCOL.md` and
//! `clang-worker/PROTOCOL.md`.

use tanto_sys::process::Argv;

/// Limits of both sides; `preload/frames.h` and `clang-worker/src/frames.h` have the same numbers.
pub(super) const PROTOCOL: u32 = 3;
/// Longest frame in bytes.
pub(super) const MOST_BYTES: usize = 128 << 10;
/// Maximum number of arguments, and of environment variables.
const MOST_TEXTS: usize = 16 << 10;
/// Maximum number of reported checkpoints, and of files without one.
const MOST_FILES: usize = 64;
const MOST_WITHOUT: usize = 32;
/// Maximum number of programs and libraries that a worker replaces.
const MOST_BUILDS: usize = 64;
/// Maximum number of files, and of directories, that a fork server depends on.
const MOST_PATHS: usize = 1024;

/// A request to run a command.
pub(super) struct Run<'a> {
    pub(super) id: u64,
    pub(super) umask: u32,
    /// Program that the command would run.
    pub(super) clang: &'a [u8],
    /// The lld for linking; empty: none.
    pub(super) lld: &'a [u8],
    pub(super) words: &'a Argv,
    /// `NAME=value` each.
    pub(super) environment: &'a [&'a [u8]],
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Used {
    pub(super) user_us: u64,
    pub(super) system_us: u64,
    pub(super) max_rss_kib: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// A message of a fork server or the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// The checkpoint program. `builds`: GNU build-ids of the programs and libraries that it replaces, in hexadecimal
    /// digits.
    Hello {
        version: u32,
        clang: Vec<u8>,
        lld: Vec<u8>,
        builds: Vec<Vec<u8>>,
    },
    /// A fork server is ready.
    Ready {
        version: u32,
        /// Why it cannot serve; empty if it can.
        unusable: Vec<u8>,
        /// CPU time of its start, and of a fork that ends at once.
        startup_us: u64,
        fork_us: u64,
        /// Loaded files, and directories that were searched for them.
        files: Vec<Vec<u8>>,
        dirs: Vec<Vec<u8>>,
    },
    Started {
        id: u64,
        pid: u32,
    },
    Ended {
        id: u64,
        /// As returned by `wait`.
        status: u32,
        used: Used,
    },
    /// The command has to run as a process, for this reason.
    Declined {
        id: u64,
        why: Vec<u8>,
    },
    /// The command's process is gone.
    Gone {
        id: u64,
    },
    /// State of the checkpoint daemon.
    Holding {
        most: u32,
        wanted: u32,
        memory_kib: u64,
        files: Vec<Vec<u8>>,
        without: Vec<Without>,
    },
}

/// A file without a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Without {
    pub file: Vec<u8>,
    /// One line for the user.
    pub why: Vec<u8>,
}

/// Request to stop the checkpoint daemon.
pub(super) const STOP: [u8; 5] = [1, 0, 0, 0, 9];

/// Encodes a command; `None` if it exceeds a limit.
pub(super) fn encode(run: &Run<'_>) -> Option<Vec<u8>> {
    framed(1, run, &[])
}

/// Encodes a request for a checkpoint; the daemon keeps at most `most`.
pub(super) fn encode_keep(run: &Run<'_>, most: u32) -> Option<Vec<u8>> {
    framed(6, run, &most.to_le_bytes())
}

fn framed(kind: u8, run: &Run<'_>, more: &[u8]) -> Option<Vec<u8>> {
    let count = run.words.iter().count();
    if count > MOST_TEXTS || run.environment.len() > MOST_TEXTS {
        return None;
    }
    let mut bytes = vec![0; 4];
    bytes.push(kind);
    bytes.extend(run.id.to_le_bytes());
    bytes.extend(run.umask.to_le_bytes());
    let mut texts = |count: Option<usize>, texts: &mut dyn Iterator<Item = &[u8]>| {
        if let Some(count) = count {
            bytes.extend(number(count).to_le_bytes());
        }
        for text in texts {
            bytes.extend(number(text.len()).to_le_bytes());
            bytes.extend_from_slice(text);
        }
    };
    texts(None, &mut [run.clang, run.lld].into_iter());
    texts(Some(count), &mut run.words.iter());
    texts(Some(run.environment.len()), &mut run.environment.iter().copied());
    bytes.extend_from_slice(more);
    let length = number(bytes.len() - 4);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    (bytes.len() <= MOST_BYTES).then_some(bytes)
}

/// A length that does not fit makes the frame too long anyway.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Decodes a message; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<Reply> {
    let mut from = Reader(bytes);
    let length = usize::try_from(from.small()?).ok()?;
    if bytes.len() > MOST_BYTES || length + 4 != bytes.len() {
        return None;
    }
    let reply = match from.take(1)?[0] {
        0 => Reply::Hello {
            version: from.small()?,
            clang: from.text()?,
            lld: from.text()?,
            builds: from.list(MOST_BUILDS, Reader::text)?,
        },
        2 => Reply::Started { id: from.large()?, pid: from.small()? },
        3 => Reply::Ended { id: from.large()?, status: from.small()?, used: from.used()? },
        4 => Reply::Declined { id: from.large()?, why: from.text()? },
        5 => (Reply::Gone { id: from.large()? }, from.small()?).0,
        8 => Reply::Holding {
            most: from.small()?,
            wanted: from.small()?,
            memory_kib: from.large()?,
            files: from.list(MOST_FILES, Reader::text)?,
            without: from.list(MOST_WITHOUT, |from| Some(Without { file: from.text()?, why: from.text()? }))?,
        },
        10 => Reply::Ready {
            version: from.small()?,
            unusable: from.text()?,
            startup_us: from.large()?,
            fork_us: from.large()?,
            files: from.list(MOST_PATHS, Reader::text)?,
            dirs: from.list(MOST_PATHS, Reader::text)?,
        },
        _ => return None,
    };
    from.0.is_empty().then_some(reply)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn small(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn large(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.small()?).ok()?;
        Some(self.take(length)?.to_vec())
    }

    fn list<T>(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.small()?).ok()?;
        (count <= most).then(|| (0..count).map(|_| one(self)).collect())?
    }

    fn used(&mut self) -> Option<Used> {
        Some(Used {
            user_us: self.large()?,
            system_us: self.large()?,
            max_rss_kib: self.large()?,
            read_bytes: self.large()?,
            written_bytes: self.large()?,
        })
    }
}

#[cfg(test)]
mod tests;
