//! The other side of the socket: asks a build that runs. Does not know what to do if there is none.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tanto_sys::ipc::unix_socket;

use super::frames::{self, Wrong};
use super::{Answer, Request, SOCKET};

/// Whoever answers nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug)]
pub enum Unheard {
    /// No build runs, or it has just ended.
    Nobody,
    /// It speaks another version of this, as it says.
    Version(String),
    /// It is not to be understood, or cannot be heard.
    Other(io::Error),
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Unheard {
        Unheard::Other(error)
    }
}

impl From<Wrong> for Unheard {
    fn from(wrong: Wrong) -> Unheard {
        match wrong {
            Wrong::Version(version) => Unheard::Version(String::from_utf8_lossy(&version).into_owned()),
            Wrong::Stranger | Wrong::TooLong | Wrong::Nonsense => Unheard::Other(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Unheard {
    /// For the user.
    pub fn told(&self) -> String {
        match self {
            Unheard::Nobody => "no bulk build is running".into(),
            Unheard::Version(theirs) => {
                let ours = frames::VERSION;
                format!("the build that runs is another Tanto's: it speaks version {theirs}, and this one {ours}")
            }
            Unheard::Other(error) => format!("the build that runs does not answer: {error}"),
        }
    }
}

/// Asks the build that has this state directory.
pub fn ask(state: &Path, request: &Request) -> Result<Answer, Unheard> {
    let mut stream = match unix_socket::connect(state, SOCKET) {
        Ok(stream) => stream,
        Err(error) if is_gone(&error) => return Err(Unheard::Nobody),
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let heard = greet(&mut stream)?;
    let said = [frames::greeting(), request.bytes()].concat();
    match say(&stream, &said) {
        // It may have answered nevertheless: that it wants to hear no more.
        Err(error) if !is_gone(&error) => return Err(error.into()),
        _ => {}
    }
    answer(&mut stream, heard)
}

/// Hears the greeting; what came behind it.
fn greet(stream: &mut UnixStream) -> Result<Vec<u8>, Unheard> {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = frames::greeted(&heard)? {
            return Ok(heard.split_off(end));
        }
        more(stream, &mut heard, frames::LONGEST_GREETING)?;
    }
}

fn answer(stream: &mut UnixStream, mut heard: Vec<u8>) -> Result<Answer, Unheard> {
    loop {
        if let Some(words) = frames::frame(&heard)? {
            return Ok(Answer::of(&words)?);
        }
        more(stream, &mut heard, 64 << 10)?;
    }
}

fn say(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match unix_socket::send(stream, bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn more(stream: &mut UnixStream, heard: &mut Vec<u8>, most: usize) -> Result<(), Unheard> {
    let mut buffer = vec![0; most];
    match stream.read(&mut buffer) {
        Ok(0) => Err(Unheard::Nobody),
        Ok(length) => {
            heard.extend_from_slice(&buffer[..length]);
            Ok(())
        }
        Err(error) if is_gone(&error) => Err(Unheard::Nobody),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Nobody is there, or not any more.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe)
}
