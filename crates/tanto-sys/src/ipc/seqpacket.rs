//! Sockets that carry whole packets and descriptors between two processes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, recv, sendmsg, socket_with, socketpair,
};

use crate::error::call_error;
use crate::ipc::poll::{self, Watch};

/// One end of a connection.
#[derive(Debug)]
pub struct SeqpacketSocket(OwnedFd);

/// Limit of descriptors per packet.
pub const MAX_DESCRIPTORS: usize = 16;

impl SeqpacketSocket {
    /// Creates a connected pair. Child processes do not inherit it.
    pub fn pair() -> io::Result<(SeqpacketSocket, SeqpacketSocket)> {
        let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (one, other) = ends.map_err(|error| call_error("socketpair", None, error.into()))?;
        Ok((SeqpacketSocket(one), SeqpacketSocket(other)))
    }

    /// Connects to an abstract address, which any process can occupy: the caller checks the peer.
    pub fn connect(address: &[u8]) -> io::Result<SeqpacketSocket> {
        if address.is_empty() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let address = SocketAddrUnix::new_abstract_name(address).map_err(|_| io::ErrorKind::InvalidFilename)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        net::connect(&socket, &address)?;
        Ok(SeqpacketSocket(socket))
    }

    /// Sends a packet. Fails instead of blocking if there is no room, or if it is too large.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= MAX_DESCRIPTORS, "callers know how many may go");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "there is room for the largest number");
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags))?;
        Ok(())
    }

    /// Receives a packet, truncated to the length of `room`. `None` if there is none yet; 0 bytes if the peer is gone.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match retry_on_intr(|| recv(&self.0, &mut *room, RecvFlags::DONTWAIT)) {
            Ok((length, _)) => Ok(Some(length)),
            Err(Errno::AGAIN) => Ok(None),
            // The peer closed the socket with unread data.
            Err(Errno::CONNRESET) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a packet arrives, the timeout expires, or a signal is handled.
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
    fn sending_without_room_fails() {
        let (one, other) = SeqpacketSocket::pair().unwrap();
        let large = vec![0; 100_000];
        while one.send(&large, &[]).is_ok() {}
        assert!(one.send(&large, &[]).is_err());
        drop(other);
        assert!(one.send(b"x", &[]).is_err());
    }
}
