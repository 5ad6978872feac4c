//! The socket to a fork server or the checkpoint daemon.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use tanto_sys::ipc::poll::Watch;
use tanto_sys::ipc::seqpacket::SeqpacketSocket;

use super::NotInWorker;
use super::frames::{self, MOST_BYTES, Reply};

pub(super) struct WorkerConnection {
    socket: SeqpacketSocket,
    /// Timeout of replies.
    timeout: Duration,
    /// Messages about other commands that arrived while waiting for a reply.
    queued: VecDeque<Reply>,
    buffer: Vec<u8>,
}

impl WorkerConnection {
    pub(super) fn new(socket: SeqpacketSocket, timeout: Duration) -> WorkerConnection {
        WorkerConnection { socket, timeout, queued: VecDeque::new(), buffer: vec![0; MOST_BYTES + 1] }
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

    /// Sends a command and waits until it is started; returns its process ID.
    pub(super) fn run(&mut self, id: u64, frame: &[u8], with: &[BorrowedFd<'_>]) -> Result<u32, NotInWorker> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => NotInWorker::Busy,
            _ => NotInWorker::WorkerGone,
        };
        self.socket.send(frame, with).map_err(failed)?;
        let until = Instant::now() + self.timeout;
        loop {
            match self.receive_until(until).map_err(failed)? {
                Reply::Started { id: its, pid } if its == id => return Ok(pid),
                Reply::Declined { id: its, why } if its == id => return Err(NotInWorker::Declined(why)),
                other => self.queued.push_back(other),
            }
        }
    }

    /// Returns the next message, if there is one. An error means that the peer is gone.
    pub(super) fn try_next(&mut self) -> io::Result<Option<Reply>> {
        match self.queued.pop_front() {
            None => self.receive(),
            reply => Ok(reply),
        }
    }

    /// Waits for a message, up to the timeout.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.socket.wait(Some(self.timeout))
    }

    /// Waits for the next message, and does not look at queued ones.
    pub(super) fn next(&mut self) -> io::Result<Reply> {
        self.receive_until(Instant::now() + self.timeout)
    }

    fn receive_until(&mut self, until: Instant) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.receive()? {
                return Ok(reply);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.wait(Some(left))?;
        }
    }

    fn receive(&mut self) -> io::Result<Option<Reply>> {
        match self.socket.receive(&mut self.buffer)? {
            None => Ok(None),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(length) => {
                let reply = frames::decode(&self.buffer[..length]);
                reply.map(Some).ok_or_else(|| io::Error::other("malformed message"))
            }
        }
    }
}
