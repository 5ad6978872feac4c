//! Pipes that hold job tokens, one byte each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

/// Both ends of a token pipe, opened by this process. Non-blocking, whatever mode other processes use.
#[derive(Debug)]
pub struct TokenPipe {
    reader: File,
    writer: File,
}

#[derive(Debug)]
pub enum TokenPipeError {
    /// Not a pipe.
    NotAPipe,
    /// Cannot be opened for reading.
    Reading(io::Error),
    /// Cannot be opened for writing.
    Writing(io::Error),
}

impl TokenPipe {
    /// Opens a named pipe.
    pub fn open(path: &Path) -> Result<TokenPipe, TokenPipeError> {
        let reader = nonblocking().read(true).open(path).map_err(TokenPipeError::Reading)?;
        if !reader.metadata().is_ok_and(|m| m.file_type().is_fifo()) {
            return Err(TokenPipeError::NotAPipe);
        }
        // Only now: opening for writing would block without a reader.
        let writer = nonblocking().write(true).open(path).map_err(TokenPipeError::Writing)?;
        Ok(TokenPipe { reader, writer })
    }

    /// Reopens an inherited pipe by the numbers of its descriptors. A duplicate would share the blocking mode with
    /// other processes.
    pub fn inherited(reader: RawFd, writer: RawFd) -> Result<TokenPipe, TokenPipeError> {
        let (reader, writer) = (format!("/proc/self/fd/{reader}"), format!("/proc/self/fd/{writer}"));
        let is_pipe = |path: &str| fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo());
        if !is_pipe(&reader) || !is_pipe(&writer) {
            return Err(TokenPipeError::NotAPipe);
        }
        let reader = nonblocking().read(true).open(reader).map_err(TokenPipeError::Reading)?;
        let writer = nonblocking().write(true).open(writer).map_err(TokenPipeError::Writing)?;
        Ok(TokenPipe { reader, writer })
    }

    /// Takes a token; `None` if there is none.
    pub fn take(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        loop {
            match (&self.reader).read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => return Ok(Some(byte[0])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn put(&self, token: u8) -> io::Result<()> {
        (&self.writer).write_all(&[token])
    }

    /// Returns the number of tokens in the pipe.
    pub fn count(&self) -> io::Result<usize> {
        Ok(rustix::io::ioctl_fionread(&self.reader)? as usize)
    }
}

/// A blocking token pipe for child processes. Only children started after `Launcher::hand_on` inherit it.
#[derive(Debug)]
pub struct SharedPipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// Scripts use low numbers for files of their own, shells use 10 and above, and `select` supports numbers below 1024.
const MIN_DESCRIPTOR: RawFd = 50;

impl SharedPipe {
    pub fn new() -> io::Result<SharedPipe> {
        let (reader, writer) = io::pipe()?;
        Ok(SharedPipe { reader: moved_up(reader.into())?, writer: moved_up(writer.into())? })
    }

    /// Returns the numbers of the reading and the writing end, here and in children.
    pub fn raw_fds(&self) -> [RawFd; 2] {
        [self.reader.as_raw_fd(), self.writer.as_raw_fd()]
    }

    /// Lets other users open the pipe through `/proc`.
    pub fn allow_all_users(&self) -> io::Result<()> {
        let file = File::from(self.reader.try_clone()?);
        file.set_permissions(fs::Permissions::from_mode(0o666))
    }

    /// Opens the pipe for this process.
    pub fn tokens(&self) -> Result<TokenPipe, TokenPipeError> {
        TokenPipe::inherited(self.reader.as_raw_fd(), self.writer.as_raw_fd())
    }
}

/// Moves a descriptor to a higher number, if possible.
fn moved_up(fd: OwnedFd) -> io::Result<OwnedFd> {
    match rustix::io::fcntl_dupfd_cloexec(&fd, MIN_DESCRIPTOR) {
        // The limit of descriptors is too low.
        Err(Errno::INVAL | Errno::MFILE) => Ok(fd),
        moved => Ok(moved?),
    }
}

impl AsRawFd for TokenPipe {
    /// Readable when there is a token.
    fn as_raw_fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }
}

fn nonblocking() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(libc::O_NONBLOCK);
    options
}

/// Creates a named pipe that only this user can open.
pub fn make_fifo(path: &Path) -> io::Result<()> {
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use tanto_testing::Scratch;

    fn is_nonblocking(fd: &impl AsRawFd) -> bool {
        // SAFETY: F_GETFL takes no further argument and touches no memory.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK != 0
    }

    #[test]
    fn tokens_are_put_and_taken() {
        let dir = Scratch::new("tokens");
        make_fifo(&dir.at("fifo")).unwrap();
        let one = TokenPipe::open(&dir.at("fifo")).unwrap();
        let other = TokenPipe::open(&dir.at("fifo")).unwrap();
        assert_eq!(one.take().unwrap(), None);
        one.put(b'x').unwrap();
        assert_eq!(other.take().unwrap(), Some(b'x'));
        assert_eq!(one.take().unwrap(), None);
    }

    #[test]
    fn an_inherited_pipe_keeps_its_blocking_mode() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"ab").unwrap();
        let tokens = TokenPipe::inherited(reader.as_raw_fd(), writer.as_raw_fd()).unwrap();
        assert_eq!(tokens.take().unwrap(), Some(b'a'));
        assert_eq!(tokens.take().unwrap(), Some(b'b'));
        assert_eq!(tokens.take().unwrap(), None);
        assert!(is_nonblocking(&tokens));
        assert!(!is_nonblocking(&OwnedFd::from(reader)) && !is_nonblocking(&OwnedFd::from(writer)));
    }

    #[test]
    fn a_shared_pipe_has_high_numbers_and_blocks() {
        let ends = SharedPipe::new().unwrap();
        let mode = || fs::metadata(format!("/proc/self/fd/{}", ends.raw_fds()[0])).unwrap().permissions().mode();
        assert_eq!(mode() & 0o777, 0o600);
        ends.allow_all_users().unwrap();
        assert_eq!(mode() & 0o777, 0o666);
        let tokens = ends.tokens().unwrap();
        assert!(ends.raw_fds().iter().all(|&number| number >= MIN_DESCRIPTOR));
        assert!(!is_nonblocking(&ends.reader) && !is_nonblocking(&ends.writer) && is_nonblocking(&tokens));
        assert_eq!(tokens.count().unwrap(), 0);
        tokens.put(b'a').unwrap();
        tokens.put(b'b').unwrap();
        assert_eq!(tokens.count().unwrap(), 2);
        let mut byte = [0];
        File::from(ends.reader).read_exact(&mut byte).unwrap();
        assert_eq!((byte, tokens.count().unwrap()), (*b"a", 1));
    }

    #[test]
    fn other_files_are_refused() {
        let dir = Scratch::new("no-tokens");
        fs::write(dir.at("file"), "x").unwrap();
        assert!(matches!(TokenPipe::open(&dir.at("file")), Err(TokenPipeError::NotAPipe)));
        assert!(matches!(TokenPipe::open(&dir.at("none")), Err(TokenPipeError::Reading(_))));
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        assert!(matches!(TokenPipe::inherited(fd, fd), Err(TokenPipeError::NotAPipe)));
        assert!(matches!(TokenPipe::inherited(-2, 1 << 30), Err(TokenPipeError::NotAPipe)));
    }
}
