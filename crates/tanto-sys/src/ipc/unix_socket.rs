//! Unix domain sockets.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::SendFlags;

/// Listens on a non-blocking socket in a directory that only its owner can enter. Replaces an existing socket: the
/// caller makes sure that no process listens on it.
pub fn listen(dir: &Path, name: &str) -> io::Result<UnixListener> {
    match fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = near(dir, name, |path| UnixListener::bind(path))?;
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to a listening socket.
pub fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    near(dir, name, |path| UnixStream::connect(path))
}

/// Paths of sockets are limited to some hundred bytes, so the directory is named by a descriptor.
fn near<T>(dir: &Path, name: &str, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let dir = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(dir)?;
    open(&PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())))
}

/// Returns the user id of the peer.
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    peer_credentials(stream).map(|credentials| credentials.user)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// The process id, in this PID namespace.
    pub pid: u32,
    /// The user id.
    pub user: u32,
}

/// Returns the credentials of the process that connected or listens.
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<PeerCredentials> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; `credentials` has room for `length` bytes.
    let asked = unsafe {
        let fd = socket.as_fd().as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, credentials.as_mut_ptr().cast(), &raw mut length)
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zero is a valid `ucred`, and so is what the kernel has written.
    let credentials = unsafe { credentials.assume_init() };
    Ok(PeerCredentials { pid: credentials.pid.unsigned_abs(), user: credentials.uid })
}

/// Sends as many bytes as there is room for and returns their number. A closed peer is an error, not a signal.
pub fn send(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user;
    use std::io::Read;
    use tanto_testing::Scratch;

    #[test]
    fn the_path_may_be_long() {
        let place = Scratch::new("local");
        let dir = place.at(&["a-directory-with-a-long-name"; 9].join("/"));
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(connect(&dir, "door").unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(listen(&dir, "door").unwrap());
        assert_eq!(
            connect(&dir, "door").unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused,
            "its listener is closed"
        );
        let listener = listen(&dir, "door").unwrap();
        assert_eq!(fs::metadata(dir.join("door")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let client = connect(&dir, "door").unwrap();
        let (mut guest, _) = listener.accept().unwrap();
        assert_eq!(peer_user(&guest).unwrap(), user::effective());
        assert_eq!(send(&client, b"x").unwrap(), 1);
        guest.read_exact(&mut [0]).unwrap();
        drop(guest);
        assert_eq!(send(&client, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
