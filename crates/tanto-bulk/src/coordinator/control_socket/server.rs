//! The coordinator's side of the socket. It never blocks, however slow or malformed a connection is.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_protocol::{ClientAnswer, MessageError, Refusal, RefusalCode, ToServer};
use tanto_sys::ipc::epoll::{Epoll, Interest};
use tanto_sys::ipc::unix_socket;
use tanto_sys::user;

use super::frames::{self, FrameError};
use super::link::{Link, LinkError, LinkEvent, is_later};
use super::{ControlServer, Request, Response, SOCKET};

/// The maximum number of connections; others are closed.
const MAX_CONNECTIONS: usize = 32;
/// The time limit for sending a request, and again for receiving the answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum read of one connection at a time, in bytes.
const MAX_READ: usize = 256 << 10;
/// The number of the listener among the connections.
const LISTENER: u64 = 0;

/// Listens in a state directory until it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    set: Epoll,
    connections: BTreeMap<u64, Connection>,
    /// The number of the last connection.
    last: u64,
    /// The connection to the server of clients.
    link: Option<u64>,
    link_events: VecDeque<LinkEvent>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    /// When the phase began.
    since: Instant,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Received so far.
    Requesting(Vec<u8>),
    Waiting,
    /// Still to be sent.
    Receiving(Vec<u8>),
    /// The connection to the server of clients.
    Linked(Link),
}

impl Server {
    /// The caller holds the lock of the state directory, so that an existing socket is stale.
    pub fn open(state: &Path) -> io::Result<Server> {
        let listener = unix_socket::listen(state, SOCKET)?;
        let set = Epoll::new()?;
        set.add(&listener, LISTENER, Interest::Read)?;
        let (connections, link_events) = (BTreeMap::new(), VecDeque::new());
        Ok(Server { path: state.join(SOCKET), listener, set, connections, last: LISTENER, link: None, link_events })
    }

    /// Returns a descriptor that is readable when there may be a request.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.set.try_clone_fd()
    }

    /// Closes a connection without an answer, as if no build ran.
    pub fn hang_up(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    fn accept(&mut self) {
        // Errors concern the connection only.
        while let Ok((stream, _)) = self.listener.accept() {
            let is_ours = unix_socket::peer_user(&stream).is_ok_and(user::is_trusted);
            if is_ours && self.connections.len() < MAX_CONNECTIONS {
                let _ = self.admit(stream);
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        // A new socket has room for all of it.
        unix_socket::send(&stream, &frames::greeting())?;
        self.last += 1;
        self.set.add(&stream, self.last, Interest::Read)?;
        self.connections
            .insert(self.last, Connection { stream, since: Instant::now(), phase: Phase::Requesting(Vec::new()) });
        Ok(())
    }

    /// Closes connections that exceeded the time limit.
    fn close_expired(&mut self) {
        let is_endless = |phase: &Phase| matches!(phase, Phase::Waiting | Phase::Linked(_));
        self.connections.retain(|_, connection| is_endless(&connection.phase) || connection.since.elapsed() < TIMEOUT);
    }

    /// Reads from a connection. Returns its request if that is complete. A malformed one is refused.
    fn receive(&mut self, number: u64) -> Option<Request> {
        let connection = self.connections.get_mut(&number)?;
        match connection.read() {
            Ok(None) => None,
            Ok(Some(Request::Link)) => {
                self.begin_link(number);
                None
            }
            Ok(Some(request)) => {
                (connection.phase, connection.since) = (Phase::Waiting, Instant::now());
                // Nothing more is read.
                let _ = self.set.modify(&connection.stream, number, Interest::Write);
                Some(request)
            }
            Err(why) => {
                self.answer(number, Response::refused(why));
                None
            }
        }
    }

    /// Sends as much as possible, and closes the connection at the end.
    fn send(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Phase::Receiving(rest) = &mut connection.phase else { return };
        match unix_socket::send(&connection.stream, rest) {
            Ok(sent) if sent < rest.len() => drop(rest.drain(..sent)),
            Err(error) if is_later(&error) => {}
            _ => drop(self.connections.remove(&number)),
        }
    }
}

fn too_long(number: u64, error: &MessageError) -> ToServer {
    let refusal = Refusal { code: RefusalCode::Invalid, message: format!("there is no answer: {error}") };
    ToServer::Answer { number, answer: ClientAnswer::Refused(refusal) }
}

/// The link to the server of clients.
impl Server {
    fn begin_link(&mut self, number: u64) {
        if let Some(earlier) = self.link.replace(number) {
            self.connections.remove(&earlier);
            self.link_events.push_back(LinkEvent::Down("another server has connected".into()));
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.phase = Phase::Linked(Link::default());
            self.link_events.push_back(LinkEvent::Up);
        }
    }

    fn receive_from_link(&mut self, number: u64) {
        let Some(Connection { stream, phase: Phase::Linked(link), .. }) = self.connections.get_mut(&number) else {
            return;
        };
        match link.receive(stream) {
            Ok(messages) => {
                let events = messages.into_iter().map(|message| LinkEvent::Message(Box::new(message)));
                self.link_events.extend(events);
                self.send_on_link(number);
            }
            Err(error) => self.cut_link(&error),
        }
    }

    fn send_on_link(&mut self, number: u64) {
        let Some(Connection { stream, phase: Phase::Linked(link), .. }) = self.connections.get_mut(&number) else {
            return;
        };
        let interest = match link.send(stream) {
            Ok(true) => Interest::Read,
            Ok(false) => Interest::ReadAndWrite,
            Err(error) => return self.cut_link(&error),
        };
        // An error means that the connection is gone, which reading reports.
        let _ = self.set.modify(stream, number, interest);
    }

    fn cut_link(&mut self, error: &LinkError) {
        if let Some(number) = self.link.take() {
            self.connections.remove(&number);
            self.link_events.push_back(LinkEvent::Down(error.to_string()));
        }
    }
}

impl Connection {
    fn read(&mut self) -> Result<Option<Request>, &'static str> {
        let Phase::Requesting(bytes) = &mut self.phase else { return Ok(None) };
        let before = bytes.len();
        let ended = (&mut self.stream).take(MAX_READ as u64).read_to_end(bytes);
        let is_open = ended.as_ref().is_err_and(is_later);
        match parse(bytes) {
            Ok(None) if !is_open && bytes.len() < before + MAX_READ => Err("the request is incomplete"),
            Ok(request) => Ok(request),
            Err(FrameError::Version(_)) => Err("the running build uses another version of Tanto"),
            Err(FrameError::TooLong) => Err("the request is too long"),
            Err(FrameError::NoGreeting | FrameError::Malformed) => Err("malformed request"),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<Request>, FrameError> {
    let Some(at) = frames::greeting_end(bytes)? else { return Ok(None) };
    let words = frames::frame(&bytes[at..])?;
    words.map(|words| Request::of(&words)).transpose()
}

impl ControlServer for Server {
    fn next(&mut self) -> Option<(u64, Request)> {
        self.close_expired();
        for number in self.set.ready().unwrap_or_default() {
            if number == LISTENER {
                self.accept();
                continue;
            }
            if self.link == Some(number) {
                self.receive_from_link(number);
                continue;
            }
            self.send(number);
            if let Some(request) = self.receive(number) {
                return Some((number, request));
            }
        }
        None
    }

    fn answer(&mut self, number: u64, answer: Response) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        (connection.phase, connection.since) = (Phase::Receiving(answer.bytes()), Instant::now());
        let _ = self.set.modify(&connection.stream, number, Interest::Write);
        self.send(number);
    }

    fn next_link_event(&mut self) -> Option<LinkEvent> {
        self.link_events.pop_front()
    }

    fn send_to_server(&mut self, message: &ToServer) {
        let Some(number) = self.link else { return };
        let Some(Connection { phase: Phase::Linked(link), .. }) = self.connections.get_mut(&number) else { return };
        let pushed = match (link.push(message), message) {
            // It concerns one client only.
            (Err(LinkError::Message(error)), ToServer::Answer { number, .. }) => link.push(&too_long(*number, &error)),
            (pushed, _) => pushed,
        };
        match pushed {
            Ok(()) => self.send_on_link(number),
            Err(error) => self.cut_link(&error),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
