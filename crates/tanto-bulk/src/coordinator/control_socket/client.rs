//! The client's side of the socket.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tanto_sys::ipc::unix_socket;

use super::frames::{self, FrameError};
use super::{Request, Response, SOCKET};

/// The time limit for a read or a write.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug)]
pub enum AskError {
    NoBuild,
    /// The build has this version of the protocol.
    Version(String),
    Other(io::Error),
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> AskError {
        AskError::Other(error)
    }
}

impl From<FrameError> for AskError {
    fn from(wrong: FrameError) -> AskError {
        match wrong {
            FrameError::Version(version) => AskError::Version(String::from_utf8_lossy(&version).into_owned()),
            FrameError::NoGreeting | FrameError::TooLong | FrameError::Malformed => {
                AskError::Other(io::ErrorKind::InvalidData.into())
            }
        }
    }
}

impl AskError {
    /// The message for the user.
    pub fn message(&self) -> String {
        match self {
            AskError::NoBuild => "no bulk build is running".into(),
            AskError::Version(theirs) => {
                let ours = frames::VERSION;
                format!("the running build uses another version of Tanto: protocol {theirs}, not {ours}")
            }
            AskError::Other(error) => format!("the running build does not answer: {error}"),
        }
    }
}

/// Sends a request to the build that uses this state directory.
pub fn ask(state: &Path, request: &Request) -> Result<Response, AskError> {
    let mut stream = match unix_socket::connect(state, SOCKET) {
        Ok(stream) => stream,
        Err(error) if is_gone(&error) => return Err(AskError::NoBuild),
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let rest = read_greeting(&mut stream)?;
    let request = [frames::greeting(), request.bytes()].concat();
    match send(&stream, &request) {
        // It may have refused the request before it read all of it.
        Err(error) if !is_gone(&error) => return Err(error.into()),
        _ => {}
    }
    read_answer(&mut stream, rest)
}

/// Reads the greeting. Returns the bytes after it.
fn read_greeting(stream: &mut UnixStream) -> Result<Vec<u8>, AskError> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = frames::greeting_end(&bytes)? {
            return Ok(bytes.split_off(end));
        }
        read_more(stream, &mut bytes, frames::MAX_GREETING)?;
    }
}

fn read_answer(stream: &mut UnixStream, mut bytes: Vec<u8>) -> Result<Response, AskError> {
    loop {
        if let Some(words) = frames::frame(&bytes)? {
            return Ok(Response::of(&words)?);
        }
        read_more(stream, &mut bytes, 64 << 10)?;
    }
}

fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match unix_socket::send(stream, bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_more(stream: &mut UnixStream, bytes: &mut Vec<u8>, most: usize) -> Result<(), AskError> {
    let mut buffer = vec![0; most];
    match stream.read(&mut buffer) {
        Ok(0) => Err(AskError::NoBuild),
        Ok(length) => {
            bytes.extend_from_slice(&buffer[..length]);
            Ok(())
        }
        Err(error) if is_gone(&error) => Err(AskError::NoBuild),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// NoControl is there, or not any more.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe)
}
