//! The socket to somebody who runs commands: the worker, or who keeps checkpoints. Does not know which of the two.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use tanto_sys::ipc::poll::Watch;
use tanto_sys::ipc::seqpacket::SeqpacketSocket;

use super::frames::{self, MOST_BYTES, PROTOCOL, Said};

/// Our end of it.
pub(super) struct Link {
    socket: SeqpacketSocket,
    /// The first line of the other's `clang --version`.
    pub(super) clang: Vec<u8>,
    /// The beginning of its `ld.lld --version`.
    pub(super) lld: Vec<u8>,
    /// The GNU build-ids of what the other stands for.
    pub(super) builds: Vec<Vec<u8>>,
    /// Who says nothing for so long never will.
    patience: Duration,
    /// Said of other commands while we waited for a word on one.
    unheard: VecDeque<Said>,
    room: Vec<u8>,
}

impl Link {
    /// Waits until the other has said what it stands for.
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

    /// The socket itself.
    pub(super) fn socket(&self) -> &SeqpacketSocket {
        &self.socket
    }

    /// Nobody holds our end of the socket any more.
    pub(super) fn close(&mut self) {
        if let Ok((gone, _)) = SeqpacketSocket::pair() {
            self.socket = gone;
        }
    }

    /// Ready when there is something to hear, or nobody to say it.
    pub(super) fn watch(&self) -> Watch {
        Watch::new(&self.socket)
    }

    /// Hands over a command, and waits until it has a process: returns that one's number, or why the other declines.
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

    /// The next thing that was said, if there is one. An error: the other is gone.
    pub(super) fn said(&mut self) -> io::Result<Option<Said>> {
        match self.unheard.pop_front() {
            None => self.receive(),
            said => Ok(said),
        }
    }

    /// Waits a while for something that `said` can tell.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.socket.wait(Some(self.patience))
    }

    /// Waits for the next thing that is said, however much there is to hear of before.
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
