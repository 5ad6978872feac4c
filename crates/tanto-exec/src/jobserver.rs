//! A share in job slots: GNU make's jobserver, as a client of the `make` that started us; as a server, see `server`. Does
//! not know what is run in a slot.
//!
//! One slot is ours from the start; every other is a byte in a pipe, to be put back as it was when its job is done.

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
pub mod server;
pub mod token_allocation;

/// Something to tell the user about the jobserver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// How loud.
    pub level: Level,
    /// Only for those who see the status of the build, not with `--quiet`.
    pub with_status: bool,
    /// The text, without a line end.
    pub text: Vec<u8>,
}

/// Whether there is a jobserver for us, and what to say about it, in this order.
#[derive(Debug, Default)]
pub struct Connection {
    /// The share, if there is one.
    pub client: Option<Client>,
    /// What ninja says.
    pub notices: Vec<Notice>,
}

/// Where `MAKEFLAGS` says that the slots are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// There are none to share.
    Nowhere,
    /// In a pipe that we inherited: the end to read, the end to write.
    Pipe(RawFd, RawFd),
    /// In a named pipe.
    Fifo(Vec<u8>),
}

/// Reads the value of `MAKEFLAGS`; the last word that names a jobserver counts. The error is for the user.
pub fn parse(makeflags: &[u8]) -> Result<Place, Vec<u8>> {
    let mut words = makeflags.split(|&b| b == b' ' || b == b'\t').filter(|w| !w.is_empty()).peekable();
    // The first word holds make's one-letter flags, if it has any: with `n` nothing is to be run.
    if words.peek().is_some_and(|first| first[0] != b'-' && first.contains(&b'n')) {
        return Ok(Place::Nowhere);
    }
    // Another system's kind of jobserver is an error only if no later word names one of ours.
    let mut place = Some(Place::Nowhere);
    for word in words {
        if let Some(value) = word.strip_prefix(b"--jobserver-auth=") {
            place = parse_auth(value);
        } else if let Some(value) = word.strip_prefix(b"--jobserver-fds=") {
            let invalid = || [b"Invalid file descriptor pair [", value, b"]"].concat();
            let (reader, writer) = descriptor_pair(value).ok_or_else(invalid)?;
            place = Some(Place::Pipe(reader, writer));
        }
    }
    place.ok_or_else(|| b"Semaphore mode is not supported on Posix!".to_vec())
}

fn parse_auth(value: &[u8]) -> Option<Place> {
    match descriptor_pair(value) {
        Some((reader, writer)) if reader < 0 || writer < 0 => Some(Place::Nowhere),
        Some((reader, writer)) => Some(Place::Pipe(reader, writer)),
        None => value.strip_prefix(b"fifo:").map(|path| Place::Fifo(path.to_vec())),
    }
}

/// As C's `%d,%d`: what follows the second number is not looked at.
fn descriptor_pair(text: &[u8]) -> Option<(RawFd, RawFd)> {
    let (reader, rest) = number(text)?;
    let (writer, _) = number(rest.strip_prefix(b",")?)?;
    Some((reader, writer))
}

/// As C's `%d`; a number that does not fit is cut, as there.
fn number(text: &[u8]) -> Option<(RawFd, &[u8])> {
    let text = text.trim_ascii_start();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits = text[sign..].iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = text.split_at(sign + digits);
    let limit = if number.starts_with(b"-") { i64::MIN } else { i64::MAX };
    let value = std::str::from_utf8(number).ok().filter(|_| digits > 0)?.parse().unwrap_or(limit);
    Some((value as RawFd, rest))
}

/// Looks for a jobserver in the value of `MAKEFLAGS`, if that is set, and connects to it.
pub fn connect(makeflags: Option<&[u8]>) -> Connection {
    let mut connection = Connection::default();
    let Some(makeflags) = makeflags else { return connection };
    let mut say = |level, with_status, text| connection.notices.push(Notice { level, with_status, text });
    let place = match parse(makeflags) {
        Ok(Place::Nowhere) => return connection,
        Ok(place) => place,
        Err(why) => {
            say(Level::Warning, false, [b"Ignoring jobserver: ", &why[..], b" [", makeflags, b"]"].concat());
            return connection;
        }
    };
    say(Level::Info, true, [b"Jobserver mode detected: ", makeflags].concat());
    if let Place::Pipe(..) = place {
        say(Level::Warning, true, PIPE_WARNING.to_vec());
    }
    match Client::open(&place) {
        Ok(client) => connection.client = Some(client),
        Err(why) => say(Level::Error, false, [b"Could not initialize jobserver: ", &why[..]].concat()),
    }
    connection
}

const PIPE_WARNING: &[u8] =
    b"Jobserver 'pipe' mode detected, a pool that implements 'fifo' mode would be more reliable!";

/// The right to run one job. Whoever holds one gives it back to the client it is from.
#[derive(PartialEq, Eq, Debug)]
pub struct Slot(());

/// Whose slots there are to use.
#[derive(Debug)]
pub enum Jobserver {
    /// Somebody else's.
    Client(Client),
    /// Our own, which others use too.
    Server(Server),
    /// Our own, which are dealt out.
    Broker(TokenBroker),
}

impl Jobserver {
    /// Takes a slot for a command that is so urgent, if one is free. Never waits.
    pub fn acquire(&mut self, urgency: i64) -> Option<Slot> {
        match self {
            Jobserver::Client(client) => client.acquire(),
            Jobserver::Server(server) => server.client_mut().acquire(),
            Jobserver::Broker(bank) => bank.acquire(urgency),
        }
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: Slot) {
        match self {
            Jobserver::Client(client) => client.release(slot),
            Jobserver::Server(server) => server.client_mut().release(slot),
            Jobserver::Broker(bank) => bank.release(slot),
        }
    }

    /// Are there as many as commands of ours may run?
    pub fn is_ours(&self) -> bool {
        matches!(self, Jobserver::Server(_) | Jobserver::Broker(_))
    }

    /// Are they dealt out?
    pub fn is_dealt(&self) -> bool {
        matches!(self, Jobserver::Broker(_))
    }

    /// Is there something to deal out?
    pub fn is_busy(&self) -> bool {
        matches!(self, Jobserver::Broker(bank) if bank.is_busy())
    }

    /// Deals out what is to be dealt out. Is there a slot for a command that waits and is so urgent?
    pub fn deal(&mut self, waiting: Option<i64>) -> bool {
        if let Jobserver::Broker(bank) = self { bank.balance(waiting) } else { false }
    }

    /// To be told when no slot is in use.
    pub fn settle(&mut self) {
        match self {
            Jobserver::Client(_) | Jobserver::Broker(_) => {}
            Jobserver::Server(server) => server.settle(),
        }
    }

    /// The descriptors that all commands must inherit, if any.
    pub fn descriptors(&self) -> Option<[RawFd; 2]> {
        match self {
            Jobserver::Client(_) | Jobserver::Broker(_) => None,
            Jobserver::Server(server) => server.descriptors(),
        }
    }

    /// The descriptors that this command must inherit, if any. It has to leave when it has ended.
    pub fn join(&mut self, job: JobId, urgency: i64) -> Option<[RawFd; 2]> {
        match self {
            Jobserver::Client(_) | Jobserver::Server(_) => None,
            Jobserver::Broker(bank) => bank.join(job, urgency),
        }
    }

    /// This command has ended.
    pub fn leave(&mut self, job: JobId) {
        if let Jobserver::Broker(bank) = self {
            bank.leave(job);
        }
    }

    /// Readable when a slot may be free; of those that are dealt out the bank knows.
    pub fn readable(&self) -> Option<RawFd> {
        match self {
            Jobserver::Client(client) => Some(client.as_raw_fd()),
            Jobserver::Server(server) => Some(server.client().as_raw_fd()),
            Jobserver::Broker(_) => None,
        }
    }
}

/// A share in the slots.
#[derive(Debug)]
pub struct Client {
    tokens: TokenPipe,
    own_is_taken: bool,
    /// What was taken out of the pool.
    taken: Vec<u8>,
}

impl Client {
    /// Opens the place for ourselves alone. The error is for the user.
    pub fn open(place: &Place) -> Result<Client, Vec<u8>> {
        let tokens = match place {
            Place::Nowhere => return Err(b"Unsupported jobserver mode".to_vec()),
            Place::Pipe(reader, writer) => TokenPipe::inherited(*reader, *writer).map_err(pipe_refused),
            Place::Fifo(path) if path.is_empty() => Err(b"Empty fifo path".to_vec()),
            Place::Fifo(path) => TokenPipe::open(file::path(path)).map_err(|why| fifo_refused(path, &why)),
        };
        Ok(Client::of(tokens?))
    }

    fn of(tokens: TokenPipe) -> Client {
        Client { tokens, own_is_taken: false, taken: Vec::new() }
    }

    /// Takes a slot, if one is free: ours first. Never waits.
    pub fn acquire(&mut self) -> Option<Slot> {
        if self.own_is_taken {
            // A pool that is gone leaves us our own slot.
            self.taken.push(self.tokens.take().ok().flatten()?);
        }
        self.own_is_taken = true;
        Some(Slot(()))
    }

    /// Gives a slot back: ours last, which nobody else can use.
    pub fn release(&mut self, _slot: Slot) {
        assert!(self.own_is_taken, "a slot was given back twice");
        match self.taken.pop() {
            // Nothing can be done about a pool that is gone.
            Some(token) => _ = self.tokens.put(token),
            None => self.own_is_taken = false,
        }
    }
}

impl AsRawFd for Client {
    /// Readable when somebody put a slot back.
    fn as_raw_fd(&self) -> RawFd {
        self.tokens.as_raw_fd()
    }
}

fn pipe_refused(why: TokenPipeError) -> Vec<u8> {
    match why {
        TokenPipeError::NotAPipe => b"Invalid file descriptors".to_vec(),
        TokenPipeError::Reading(_) => b"Could not duplicate read descriptor".to_vec(),
        TokenPipeError::Writing(_) => b"Could not duplicate write descriptor".to_vec(),
    }
}

fn fifo_refused(path: &[u8], why: &TokenPipeError) -> Vec<u8> {
    match why {
        TokenPipeError::NotAPipe => [b"Not a fifo path: ", path].concat(),
        TokenPipeError::Reading(error) => [b"Error opening fifo for reading: ", &text(error)[..]].concat(),
        TokenPipeError::Writing(error) => [b"Error opening fifo for writing: ", &text(error)[..]].concat(),
    }
}

#[cfg(test)]
mod tests;
