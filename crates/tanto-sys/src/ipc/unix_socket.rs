//! Sockets with a place in the file system, for processes of one machine. Does not know what is said through them.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::SendFlags;

/// Listens at a place in a directory that only its owner may enter; what lay there before goes, so that whoever calls
/// makes sure that nobody listens there. Does not block.
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

/// Speaks to whoever listens there.
pub fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    near(dir, name, |path| UnixStream::connect(path))
}

/// The name of a socket has a limit of some hundred bytes, which that of a directory has not: it is named by a descriptor.
fn near<T>(dir: &Path, name: &str, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let dir = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(dir)?;
    open(&PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())))
}

/// The user who has connected to us.
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    peer_credentials(stream).map(|who| who.user)
}

/// A process at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// Its number, as we see it.
    pub pid: u32,
    /// Its user.
    pub user: u32,
}

/// Who has made the other end of a socket, or listens there.
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<PeerCredentials> {
    let mut who = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; `who` has room for `length` bytes.
    let asked = unsafe {
        let fd = socket.as_fd().as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, who.as_mut_ptr().cast(), &raw mut length)
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zero is a valid `ucred`, and so is what the kernel has written.
    let who = unsafe { who.assume_init() };
    Ok(PeerCredentials { pid: who.pid.unsigned_abs(), user: who.uid })
}

/// Sends what there is room for; says how much. That nobody reads it any more is an error, and no signal.
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
    fn a_place_may_have_a_long_name() {
        let place = Scratch::new("local");
        let dir = place.at(&["a-directory-with-a-long-name"; 9].join("/"));
        fs::create_dir_all(&dir).unwrap();
        assert_eq!(connect(&dir, "door").unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(listen(&dir, "door").unwrap());
        assert_eq!(connect(&dir, "door").unwrap_err().kind(), io::ErrorKind::ConnectionRefused, "it is dead");
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
