//! Copies the files of a result to the directory of its attempt, within limits.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256, Sha512};
use tanto_protocol::Digest;

use super::messages::IncomingFile;
use crate::error::cause;
use crate::package::digest::hex;

/// Limits of the files beside the package, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub log: u64,
    pub all: u64,
}

impl LogLimits {
    pub const DEFAULT: LogLimits = LogLimits { log: 64 << 20, all: 1 << 30 };
}

/// Names of logs end with it. Other files are archives, which cannot be shortened.
const LOG: &str = ".log";

/// Copies logs and archives. Those without room are shortened or left out, with a note.
pub(super) fn copy_logs(
    dir: &Path,
    logs: &[IncomingFile],
    limits: LogLimits,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    let mut room = limits.all;
    for IncomingFile { name, blob } in logs {
        let mut from = File::open(blob)?;
        let size = from.metadata()?.len();
        let is_log = name.ends_with(LOG);
        let most = if is_log { room.min(limits.log) } else { room };
        if size > most && !is_log || most == 0 && size > 0 {
            notes.push(format!("{name} of {size} bytes was left out"));
            continue;
        }
        // A link would let later writers change the blob.
        let mut to = File::create_new(dir.join(name))?;
        if size > most {
            notes.push(format!("{name} of {size} bytes was shortened"));
        }
        room -= copy_ends(&mut from, &mut to, size, most)?;
    }
    Ok(())
}

/// Copies a file or, if it has more bytes than `most`, its beginning and its end. Returns the bytes copied.
fn copy_ends(from: &mut File, to: &mut File, size: u64, most: u64) -> io::Result<u64> {
    if size <= most {
        return io::copy(&mut from.take(size), to);
    }
    let (head, tail) = (most / 2, most - most / 2);
    let copied = io::copy(&mut Read::by_ref(from).take(head), to)?;
    write!(to, "\n\n[tanto: {} bytes are left out here]\n\n", size - most)?;
    from.seek(SeekFrom::Start(size - tail))?;
    Ok(copied + io::copy(&mut from.take(tail), to)?)
}

/// A reader that computes the digest of all it reads, and may copy it.
pub(super) struct DigestReader<'f> {
    from: File,
    to: Option<&'f File>,
    digest: Sha256,
    /// Of a package that is installed.
    sha512: Option<Sha512>,
}

impl<'f> DigestReader<'f> {
    pub fn open(from: &Path) -> io::Result<DigestReader<'f>> {
        Ok(DigestReader { from: File::open(from)?, to: None, digest: Sha256::new(), sha512: None })
    }

    /// Copies all it reads.
    pub fn copying(from: &Path, to: &'f File) -> io::Result<DigestReader<'f>> {
        Ok(DigestReader { to: Some(to), ..DigestReader::open(from)? })
    }

    /// Copies all it reads, and computes its SHA512, too.
    pub fn installing(from: &Path, to: &'f File) -> io::Result<DigestReader<'f>> {
        Ok(DigestReader { sha512: Some(Sha512::new()), ..DigestReader::copying(from, to)? })
    }

    pub fn size(&self) -> io::Result<u64> {
        self.from.metadata().map(|data| data.len())
    }

    /// Returns the digest, and the SHA512 in hex if it was computed.
    pub fn finish(self) -> (Digest, Option<String>) {
        let sha512 = self.sha512.map(|sha512| hex(&sha512.finalize()));
        (Digest(self.digest.finalize().into()), sha512)
    }
}

impl Read for DigestReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(room)?;
        let read = &room[..length];
        self.digest.update(read);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(read);
        }
        self.to.as_mut().map_or(Ok(()), |to| to.write_all(read))?;
        Ok(length)
    }
}

pub(super) fn create_dir(dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|error| format!("{}: {}", dir.display(), cause(&error)))
}
