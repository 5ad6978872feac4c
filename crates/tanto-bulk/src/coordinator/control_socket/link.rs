//! The connection to the server of clients: messages in both directions, each a length of 32 bits, little endian, and JSON.
//! The coordinator sends the first one.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use tanto_protocol::{Message, MessageError, ToCoordinator, ToServer};
use tanto_sys::ipc::unix_socket;

use super::frames::LENGTH;

/// An event of the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// A server has connected. It replaces an earlier one.
    Up,
    Message(Box<ToCoordinator>),
    /// The server has gone, or was cut off for this reason.
    Down(String),
}

/// The maximum read at a time, in bytes.
const MAX_READ: usize = 1 << 20;
/// A server that leaves this much unread is cut off.
const MAX_UNSENT: usize = 256 << 20;

/// The two buffers of the connection.
#[derive(Default, Debug)]
pub(super) struct Link {
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Bytes of `unsent` that were sent.
    sent: usize,
}

/// The connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("it has closed the connection")]
    Closed,
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("it does not read its messages")]
    Stalled,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Link {
    /// Reads what is there. Returns the complete messages.
    pub fn receive(&mut self, stream: &UnixStream) -> Result<Vec<ToCoordinator>, LinkError> {
        let before = self.received.len();
        let read = { stream }.take(MAX_READ as u64).read_to_end(&mut self.received);
        let messages = self.messages()?;
        match read {
            Ok(length) if length < MAX_READ && messages.is_empty() => Err(LinkError::Closed),
            Ok(_) => Ok(messages),
            Err(error) if is_later(&error) => Ok(messages),
            Err(_) if self.received.len() > before => Ok(messages),
            Err(error) => Err(error.into()),
        }
    }

    fn messages(&mut self) -> Result<Vec<ToCoordinator>, LinkError> {
        let (mut messages, mut at) = (Vec::new(), 0);
        while let Some((length, rest)) = self.received[at..].split_first_chunk::<LENGTH>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > ToCoordinator::MAX_BYTES {
                return Err(MessageError::TooLong { bytes: length, max: ToCoordinator::MAX_BYTES }.into());
            }
            let Some(bytes) = rest.get(..length) else { break };
            messages.push(ToCoordinator::decode(bytes)?);
            at += LENGTH + length;
        }
        self.received.drain(..at);
        Ok(messages)
    }

    /// Queues a message.
    pub fn push(&mut self, message: &ToServer) -> Result<(), LinkError> {
        let bytes = message.encode()?;
        if self.unsent.len() - self.sent + bytes.len() > MAX_UNSENT {
            return Err(LinkError::Stalled);
        }
        self.unsent.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.unsent.extend_from_slice(&bytes);
        Ok(())
    }

    /// Sends as much as possible. Returns whether everything is sent.
    pub fn send(&mut self, stream: &UnixStream) -> Result<bool, LinkError> {
        while self.sent < self.unsent.len() {
            match unix_socket::send(stream, &self.unsent[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Ok(true)
    }
}

pub(in crate::coordinator) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
