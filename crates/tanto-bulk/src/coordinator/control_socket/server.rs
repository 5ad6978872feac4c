//! The coordinator's side of the socket: nobody who is slow, silent or lying makes it wait. Does not know what is asked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tanto_sys::ipc::epoll::{Epoll, Interest};
use tanto_sys::ipc::unix_socket;
use tanto_sys::user;

use super::frames::{self, Wrong};
use super::{Answer, Desk, Request, SOCKET};

/// So many may be there at a time; others are sent away.
const MOST_GUESTS: usize = 32;
/// So long somebody may take to ask, and again to hear the answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// So much is read of one at a time, in bytes.
const PORTION: usize = 256 << 10;
/// The listener's number among the guests'.
const LISTENER: u64 = 0;

/// Listens in a state directory while it lives.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    set: Epoll,
    guests: BTreeMap<u64, Guest>,
    /// The number of the one who came last.
    last: u64,
}

#[derive(Debug)]
struct Guest {
    stream: UnixStream,
    /// When this began: to ask, to wait, or to hear.
    since: Instant,
    does: Does,
}

#[derive(Debug)]
enum Does {
    /// It has said this.
    Asks(Vec<u8>),
    /// The build is thinking.
    Waits,
    /// This is still to be sent.
    Hears(Vec<u8>),
}

impl Server {
    /// Opens the door. Whoever calls has the state to itself, so that what lies there is dead.
    pub fn open(state: &Path) -> io::Result<Server> {
        let listener = unix_socket::listen(state, SOCKET)?;
        let set = Epoll::new()?;
        set.add(&listener, LISTENER, Interest::Read)?;
        Ok(Server { path: state.join(SOCKET), listener, set, guests: BTreeMap::new(), last: LISTENER })
    }

    /// Readable when there may be something to do.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.set.try_clone_fd()
    }

    fn welcome(&mut self) {
        // A guest that was gone again is no trouble of ours.
        while let Ok((stream, _)) = self.listener.accept() {
            let is_ours = unix_socket::peer_user(&stream).is_ok_and(user::is_trusted);
            if is_ours && self.guests.len() < MOST_GUESTS {
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
        self.guests.insert(self.last, Guest { stream, since: Instant::now(), does: Does::Asks(Vec::new()) });
        Ok(())
    }

    /// Those that have had their time go.
    fn sweep(&mut self) {
        self.guests.retain(|_, guest| matches!(guest.does, Does::Waits) || guest.since.elapsed() < PATIENCE);
    }

    /// Reads of a guest what it has said; its request if that is whole. Who says nonsense goes.
    fn hear(&mut self, number: u64) -> Option<Request> {
        let guest = self.guests.get_mut(&number)?;
        match guest.read() {
            Ok(None) => None,
            Ok(Some(request)) => {
                (guest.does, guest.since) = (Does::Waits, Instant::now());
                // What it says now nobody wants to hear.
                let _ = self.set.modify(&guest.stream, number, Interest::Write);
                Some(request)
            }
            Err(why) => {
                self.answer(number, Answer::refused(why));
                None
            }
        }
    }

    /// Sends a guest what it can take; it goes when it has all.
    fn send(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        let Does::Hears(rest) = &mut guest.does else { return };
        match unix_socket::send(&guest.stream, rest) {
            Ok(sent) if sent < rest.len() => drop(rest.drain(..sent)),
            Err(error) if is_later(&error) => {}
            _ => drop(self.guests.remove(&number)),
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Guest {
    fn read(&mut self) -> Result<Option<Request>, &'static str> {
        let Does::Asks(bytes) = &mut self.does else { return Ok(None) };
        let before = bytes.len();
        let ended = (&mut self.stream).take(PORTION as u64).read_to_end(bytes);
        let is_open = ended.as_ref().is_err_and(is_later);
        match understood(bytes) {
            Ok(None) if !is_open && bytes.len() < before + PORTION => Err("the request ends in the midst"),
            Ok(request) => Ok(request),
            Err(Wrong::Version(_)) => Err("this build runs another version of Tanto"),
            Err(Wrong::TooLong) => Err("the request is too long"),
            Err(Wrong::Stranger | Wrong::Nonsense) => Err("this is no request"),
        }
    }
}

fn understood(bytes: &[u8]) -> Result<Option<Request>, Wrong> {
    let Some(at) = frames::greeted(bytes)? else { return Ok(None) };
    let words = frames::frame(&bytes[at..])?;
    words.map(|words| Request::of(&words)).transpose()
}

impl Desk for Server {
    fn next(&mut self) -> Option<(u64, Request)> {
        self.sweep();
        for number in self.set.ready().unwrap_or_default() {
            if number == LISTENER {
                self.welcome();
                continue;
            }
            self.send(number);
            if let Some(request) = self.hear(number) {
                return Some((number, request));
            }
        }
        None
    }

    fn answer(&mut self, number: u64, answer: Answer) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        (guest.does, guest.since) = (Does::Hears(answer.bytes()), Instant::now());
        let _ = self.set.modify(&guest.stream, number, Interest::Write);
        self.send(number);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
