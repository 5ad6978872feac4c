//! The socket to the clang worker or the checkpoint daemon.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use tanto_sys::ipc::poll::Watch;
use tanto_sys::ipc::seqpacket::SeqpacketSocket;

use super::frames::{self, MOST_BYTES, PROTOCOL, Said};

pub(super) struct Link {
    socket: SeqpacketSocket,
    /// First line of the peer's `clang --version`.
    pub(super) clang: Vec<u8>,
    /// Beginning of the peer's `ld.lld --version`.
    pub(super) lld: Vec<u8>,
    /// GNU build-ids of the programs and libraries that the peer replaces.
    pub(super) builds: Vec<Vec<u8>>,
    /// Timeout of replies.
    patience: Duration,
    /// Messages about other commands that arrived while waiting for a reply.
    unheard: VecDeque<Said>,
    room: Vec<u8>,
}

impl Link {
    /// Waits for the peer's greeting.
    pub(super) fn greeted(socket: SeqpacketSocket, patience: Duration) -> io::Result<Link> {
        let (unheard, room) = (VecDeque::new(), vec![0; MOST_BYTES + 1]);
        let (clang, lld, builds) = (Vec::new(), Vec::new(), Vec::new());
        let mut link = Link { socket, clang, lld, builds, patience, unheard, room };
        let Said::Hello { version: PROTOCOL, clang, lld, builds } = link.hear(Instant::now() + patience)? else {
            return Err(io::Error::other("it speaks another protocol"));
        };
        (link.clang, link.lld, link.builds) = (clang, lld, builds);
        Ok(link)
    }

    pub(super) fn socket(&self) -> &SeqpacketSocket {
        &self.socket
    }

    /// Closes this end of the socket.
    pub(super) fn close(&mut self) {
        if let Ok((gone, _)) = SeqpacketSocket::pair() {
            self.socket = gone;
        }
    }

    /// Readable on messages, and when the peer is gone.
    pub(super) fn watch(&self) -> Watch {
        Watch::new(&self.socket)
    }

    /// Sends a command and waits until it is started: returns its process ID, or why the peer declines.
    pub(super) fn run(&mut self, id: u64, frame: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<Result<u32, Vec<u8>>> {
        self.socket.send(frame, with)?;
        let until = Instant::now() + self.patience;
        loop {
            match self.hear(until)? {
                Said::Started { id: its, pid } if its == id => return Ok(Ok(pid)),
                Said::Declined { id: its, why } if its == id => return Ok(Err(why)),
                other => self.unheard.push_back(other),
            }
        }
    }

    /// Returns the next message, if there is one. An error means that the peer is gone.
    pub(super) fn said(&mut self) -> io::Result<Option<Said>> {
        match self.unheard.pop_front() {
            None => self.receive(),
            said => Ok(said),
        }
    }

    /// Waits for a message, up to the timeout.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.socket.wait(Some(self.patience))
    }

    /// Waits for the next message, and does not look at queued ones.
    pub(super) fn next(&mut self) -> io::Result<Said> {
        self.hear(Instant::now() + self.patience)
    }

    fn hear(&mut self, until: Instant) -> io::Result<Said> {
        loop {
            if let Some(said) = self.receive()? {
                return Ok(said);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.wait(Some(left))?;
        }
    }

    fn receive(&mut self) -> io::Result<Option<Said>> {
        match self.socket.receive(&mut self.room)? {
            None => Ok(None),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(length) => {
                let said = frames::decode(&self.room[..length]);
                said.map(Some).ok_or_else(|| io::Error::other("it said what nobody understands"))
            }
        }
    }
}
