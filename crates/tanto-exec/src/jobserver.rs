//! Job slots: GNU make's jobserver as a client of the `make` that started Tanto (this file), as a server (`server`),
//! and with one pipe per command (`broker`).
//!
//! A client owns one slot from the start; every other slot is a byte in a pipe, which has to be put back unchanged.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use tanto_sys::error::text;
use tanto_sys::fs::file;
use tanto_sys::ipc::token_pipe::{TokenPipe, TokenPipeError};

use self::broker::TokenBroker;
use self::server::Server;
use crate::event::Level;
use crate::job::JobId;

pub mod broker;
pub mod makeflags;
pub mod role;
pub mod server;
pub mod token_allocation;

/// A message about the jobserver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    pub level: Level,
    /// Not printed with `--quiet`.
    pub with_status: bool,
    /// Text without a line end.
    pub text: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Connection {
    pub client: Option<Client>,
    /// ninja's messages, in order.
    pub notices: Vec<Notice>,
}

/// Address of a jobserver in `MAKEFLAGS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    None,
    /// An inherited pipe: read end, write end.
    Pipe(RawFd, RawFd),
    Fifo(Vec<u8>),
}

/// Why a jobserver cannot be used or created. A client's messages are ninja's.
#[derive(Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(&self.message()))]
pub enum JobserverError {
    InvalidDescriptorPair(Vec<u8>),
    SemaphoreMode,
    UnsupportedMode,
    EmptyFifoPath,
    /// An inherited pipe.
    Pipe(TokenPipeError),
    /// The named pipe at this path.
    Fifo(Vec<u8>, TokenPipeError),
    CreatePipe(io::Error),
    CreateFifo(Vec<u8>, io::Error),
    /// No path without blanks is left for a named pipe.
    NoFifoPath,
    FillPipe(io::Error),
}

impl JobserverError {
    /// Returns the message. Paths in it may not be UTF-8.
    pub fn message(&self) -> Vec<u8> {
        use TokenPipeError::{NotAPipe, Reading, Writing};
        match self {
            JobserverError::InvalidDescriptorPair(value) => {
                [b"Invalid file descriptor pair [", &value[..], b"]"].concat()
            }
            JobserverError::SemaphoreMode => b"Semaphore mode is not supported on Posix!".to_vec(),
            JobserverError::UnsupportedMode => b"Unsupported jobserver mode".to_vec(),
            JobserverError::EmptyFifoPath => b"Empty fifo path".to_vec(),
            JobserverError::Pipe(NotAPipe) => b"Invalid file descriptors".to_vec(),
            JobserverError::Pipe(Reading(_)) => b"Could not duplicate read descriptor".to_vec(),
            JobserverError::Pipe(Writing(_)) => b"Could not duplicate write descriptor".to_vec(),
            JobserverError::Fifo(path, NotAPipe) => [b"Not a fifo path: ", &path[..]].concat(),
            JobserverError::Fifo(_, Reading(error)) => [b"Error opening fifo for reading: ", &text(error)[..]].concat(),
            JobserverError::Fifo(_, Writing(error)) => [b"Error opening fifo for writing: ", &text(error)[..]].concat(),
            JobserverError::CreatePipe(error) => [b"pipe: ", &text(error)[..]].concat(),
            JobserverError::CreateFifo(path, error) => [b"mkfifo ", &path[..], b": ", &text(error)].concat(),
            JobserverError::NoFifoPath => b"no directory for a fifo: each candidate path contains blanks".to_vec(),
            JobserverError::FillPipe(error) => text(error),
        }
    }
}

/// Parses the value of `MAKEFLAGS`. The last word that names a jobserver counts.
pub fn parse(makeflags: &[u8]) -> Result<Address, JobserverError> {
    let mut words = makeflags.split(|&b| b == b' ' || b == b'\t').filter(|w| !w.is_empty()).peekable();
    // The first word holds make's one-letter flags, if any; with `n` nothing is run.
    if words.peek().is_some_and(|first| first[0] != b'-' && first.contains(&b'n')) {
        return Ok(Address::None);
    }
    // An unsupported kind is an error only if no later word names a supported one.
    let mut place = Some(Address::None);
    for word in words {
        if let Some(value) = word.strip_prefix(b"--jobserver-auth=") {
            place = parse_auth(value);
        } else if let Some(value) = word.strip_prefix(b"--jobserver-fds=") {
            let invalid = || JobserverError::InvalidDescriptorPair(value.to_vec());
            let (reader, writer) = descriptor_pair(value).ok_or_else(invalid)?;
            place = Some(Address::Pipe(reader, writer));
        }
    }
    place.ok_or(JobserverError::SemaphoreMode)
}

fn parse_auth(value: &[u8]) -> Option<Address> {
    match descriptor_pair(value) {
        Some((reader, writer)) if reader < 0 || writer < 0 => Some(Address::None),
        Some((reader, writer)) => Some(Address::Pipe(reader, writer)),
        None => value.strip_prefix(b"fifo:").map(|path| Address::Fifo(path.to_vec())),
    }
}

/// Parses like C's `%d,%d`, which ignores the rest.
fn descriptor_pair(text: &[u8]) -> Option<(RawFd, RawFd)> {
    let (reader, rest) = number(text)?;
    let (writer, _) = number(rest.strip_prefix(b",")?)?;
    Some((reader, writer))
}

/// Parses like C's `%d`; numbers that do not fit are cut.
fn number(text: &[u8]) -> Option<(RawFd, &[u8])> {
    let text = text.trim_ascii_start();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits = text[sign..].iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = text.split_at(sign + digits);
    let limit = if number.starts_with(b"-") { i64::MIN } else { i64::MAX };
    let value = std::str::from_utf8(number).ok().filter(|_| digits > 0)?.parse().unwrap_or(limit);
    Some((value as RawFd, rest))
}

/// Connects to the jobserver in the value of `MAKEFLAGS`, if it names one.
pub fn connect(makeflags: Option<&[u8]>) -> Connection {
    let mut connection = Connection::default();
    let Some(makeflags) = makeflags else { return connection };
    let mut say = |level, with_status, text| connection.notices.push(Notice { level, with_status, text });
    let place = match parse(makeflags) {
        Ok(Address::None) => return connection,
        Ok(place) => place,
        Err(why) => {
            say(Level::Warning, false, [b"Ignoring jobserver: ", &why.message()[..], b" [", makeflags, b"]"].concat());
            return connection;
        }
    };
    say(Level::Info, true, [b"Jobserver mode detected: ", makeflags].concat());
    if let Address::Pipe(..) = place {
        say(Level::Warning, true, PIPE_WARNING.to_vec());
    }
    match Client::open(&place) {
        Ok(client) => connection.client = Some(client),
        Err(why) => say(Level::Error, false, [b"Could not initialize jobserver: ", &why.message()[..]].concat()),
    }
    connection
}

const PIPE_WARNING: &[u8] =
    b"Jobserver 'pipe' mode detected, a pool that implements 'fifo' mode would be more reliable!";

/// The right to run one job. Must be given back to the jobserver that issued it.
#[derive(PartialEq, Eq, Debug)]
pub struct Slot(());

/// Source of job slots.
#[derive(Debug)]
pub enum Jobserver {
    /// The jobserver of a parent `make`.
    Client(Client),
    /// Tanto's own jobserver with one pipe for all commands.
    Server(Server),
    /// Tanto's own slots, allocated by priority.
    Broker(TokenBroker),
}

impl Jobserver {
    /// Takes a slot for a command of this priority, if one is free. Never waits.
    pub fn acquire(&mut self, priority: i64) -> Option<Slot> {
        match self {
            Jobserver::Client(client) => client.acquire(),
            Jobserver::Server(server) => server.client_mut().acquire(),
            Jobserver::Broker(broker) => broker.acquire(priority),
        }
    }

    pub fn release(&mut self, slot: Slot) {
        match self {
            Jobserver::Client(client) => client.release(slot),
            Jobserver::Server(server) => server.client_mut().release(slot),
            Jobserver::Broker(broker) => broker.release(slot),
        }
    }

    /// Returns whether the number of slots equals Tanto's parallelism.
    pub fn owns_all_slots(&self) -> bool {
        matches!(self, Jobserver::Server(_) | Jobserver::Broker(_))
    }

    /// Returns whether tokens are allocated by priority.
    pub fn is_prioritized(&self) -> bool {
        matches!(self, Jobserver::Broker(_))
    }

    /// Returns whether there are commands to balance.
    pub fn has_commands(&self) -> bool {
        matches!(self, Jobserver::Broker(broker) if broker.has_commands())
    }

    /// Reallocates tokens. Returns whether a waiting command of this priority gets a slot.
    pub fn reallocate(&mut self, waiting: Option<i64>) -> bool {
        if let Jobserver::Broker(broker) = self { broker.reallocate(waiting) } else { false }
    }

    /// Restores lost tokens. Call when no slot is in use.
    pub fn restore_tokens(&mut self) {
        match self {
            Jobserver::Client(_) | Jobserver::Broker(_) => {}
            Jobserver::Server(server) => server.restore_tokens(),
        }
    }

    /// Returns the descriptors that all commands inherit.
    pub fn descriptors(&self) -> Option<[RawFd; 2]> {
        match self {
            Jobserver::Client(_) | Jobserver::Broker(_) => None,
            Jobserver::Server(server) => server.descriptors(),
        }
    }

    /// Registers a command that is about to start, and returns the descriptors that it inherits. Call `leave` when it
    /// has ended.
    pub fn add_command(&mut self, job: JobId, priority: i64) -> Option<[RawFd; 2]> {
        match self {
            Jobserver::Client(_) | Jobserver::Server(_) => None,
            Jobserver::Broker(broker) => broker.add_command(job, priority),
        }
    }

    pub fn remove_command(&mut self, job: JobId) {
        if let Jobserver::Broker(broker) = self {
            broker.remove_command(job);
        }
    }

    /// Returns the descriptor that becomes readable when a slot may be free. The broker has one per command instead.
    pub fn readable(&self) -> Option<RawFd> {
        match self {
            Jobserver::Client(client) => Some(client.as_raw_fd()),
            Jobserver::Server(server) => Some(server.client().as_raw_fd()),
            Jobserver::Broker(_) => None,
        }
    }
}

/// A client of a jobserver.
#[derive(Debug)]
pub struct Client {
    tokens: TokenPipe,
    own_is_taken: bool,
    /// Tokens taken from the pipe.
    taken: Vec<u8>,
}

impl Client {
    pub fn open(place: &Address) -> Result<Client, JobserverError> {
        let tokens = match place {
            Address::None => Err(JobserverError::UnsupportedMode),
            Address::Pipe(reader, writer) => TokenPipe::inherited(*reader, *writer).map_err(JobserverError::Pipe),
            Address::Fifo(path) if path.is_empty() => Err(JobserverError::EmptyFifoPath),
            Address::Fifo(path) => {
                TokenPipe::open(file::path(path)).map_err(|error| JobserverError::Fifo(path.clone(), error))
            }
        };
        Ok(Client::of(tokens?))
    }

    fn of(tokens: TokenPipe) -> Client {
        Client { tokens, own_is_taken: false, taken: Vec::new() }
    }

    /// Takes a slot, Tanto's own one first. Never waits.
    pub fn acquire(&mut self) -> Option<Slot> {
        if self.own_is_taken {
            // If the pipe is gone, only the own slot remains.
            self.taken.push(self.tokens.take().ok().flatten()?);
        }
        self.own_is_taken = true;
        Some(Slot(()))
    }

    /// Gives a slot back; Tanto's own one last, because others cannot use it.
    pub fn release(&mut self, _slot: Slot) {
        assert!(self.own_is_taken, "a slot was given back twice");
        match self.taken.pop() {
            // A pipe that is gone needs no tokens.
            Some(token) => _ = self.tokens.put(token),
            None => self.own_is_taken = false,
        }
    }
}

impl AsRawFd for Client {
    /// Readable when a token was put back.
    fn as_raw_fd(&self) -> RawFd {
        self.tokens.as_raw_fd()
    }
}

#[cfg(test)]
mod tests;
