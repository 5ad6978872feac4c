//! A socket between two processes that carries whole packets, and descriptors with them. Does not know what they say.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::error::call_error;
use crate::ipc::poll::{self, Watch};

/// One end.
#[derive(Debug)]
pub struct SeqpacketSocket(OwnedFd);

/// So many descriptors go with a packet at most.
pub const MAX_DESCRIPTORS: usize = 16;
/// Room for them, in units of the alignment that the kernel wants.
const CONTROL: usize = (MAX_DESCRIPTORS * size_of::<RawFd>() + 2 * size_of::<libc::cmsghdr>()) / size_of::<usize>();

impl SeqpacketSocket {
    /// Both ends. A process that we start gets neither, unless it is told to.
    pub fn pair() -> io::Result<(SeqpacketSocket, SeqpacketSocket)> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for both descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(call_error("socketpair", None, io::Error::last_os_error()));
        }
        // SAFETY: the call succeeded, so that both are open and ours alone.
        let [one, other] = ends.map(|end| SeqpacketSocket(unsafe { OwnedFd::from_raw_fd(end) }));
        Ok((one, other))
    }

    /// Connects to the process that listens for packets at this abstract address, which is no file. Anybody may listen
    /// there: the caller checks who it is.
    pub fn connect(address: &[u8]) -> io::Result<SeqpacketSocket> {
        // SAFETY: no memory is touched.
        let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so that it is open and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all-zero is a valid `sockaddr_un`: numbers only.
        let mut name: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        name.sun_family = libc::AF_UNIX as _;
        if address.is_empty() || address.len() >= name.sun_path.len() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        // The NUL before it makes it none of a file.
        name.sun_path[1..].iter_mut().zip(address).for_each(|(to, &byte)| *to = byte as _);
        let size = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + address.len();
        // SAFETY: the address is as large as is said.
        let connected = unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), size as libc::socklen_t) };
        if connected == 0 { Ok(SeqpacketSocket(socket)) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a packet. Does not wait: where there is no room for it now, or it is too large, that is an error.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= MAX_DESCRIPTORS, "callers know how many may go");
        let mut control = [0_usize; CONTROL];
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all-zero is a valid `msghdr`: numbers and null pointers.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let size = u32::try_from(size_of_val(descriptors)).expect("a handful of numbers");
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: computes with numbers; then the room is large enough for the header and the descriptors, which
            // `BorrowedFd` holds as plain numbers, and aligned.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(size) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size) as _;
                std::ptr::copy_nonoverlapping(
                    descriptors.as_ptr().cast::<u8>(),
                    libc::CMSG_DATA(header),
                    size_of_val(descriptors),
                );
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: what the message points to is there for the call.
            let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Takes the next packet that has come: as many of its bytes as there is room for. None: there is none yet. Nothing
    /// of it: the other side is gone.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            // SAFETY: there is as much room as is said.
            let length =
                unsafe { libc::recv(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
            if let Ok(length) = usize::try_from(length) {
                return Ok(Some(length));
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(None),
                // It went away with something of ours unread.
                io::ErrorKind::ConnectionReset => return Ok(Some(0)),
                _ => return Err(error),
            }
        }
    }

    /// Waits until there is something to receive, or the time is over, or a signal came.
    pub fn wait(&self, most: Option<Duration>) -> io::Result<()> {
        poll::wait(&mut [Watch::new(self)], most)
    }
}

impl AsRawFd for SeqpacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for SeqpacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_stay_whole() {
        let (one, other) = SeqpacketSocket::pair().unwrap();
        let mut room = [0; 8];
        assert_eq!(other.receive(&mut room).unwrap(), None);
        one.send(b"first", &[]).unwrap();
        one.send(b"2", &[one.as_fd(), other.as_fd()]).unwrap();
        assert_eq!(other.receive(&mut room).unwrap(), Some(5));
        assert_eq!(&room[..5], b"first");
        assert_eq!(other.receive(&mut room).unwrap(), Some(1));
        drop(one);
        other.wait(None).unwrap();
        assert_eq!(other.receive(&mut room).unwrap(), Some(0));
    }

    #[test]
    fn what_there_is_no_room_for_is_refused() {
        let (one, other) = SeqpacketSocket::pair().unwrap();
        let large = vec![0; 100_000];
        while one.send(&large, &[]).is_ok() {}
        assert!(one.send(&large, &[]).is_err());
        drop(other);
        assert!(one.send(b"x", &[]).is_err());
    }
}
