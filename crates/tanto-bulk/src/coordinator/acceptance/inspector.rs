//! Opens packages in a confined process, and restarts it when it ends.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tanto_sys::ipc::unix_socket;
use tanto_sys::process::confine::confine;
use tanto_sys::process::lifecycle;

use super::compare::{MemberList, differences};
use super::inspect::{ArchiveLimits, ExpectedPackage, inspect};
use super::messages::{self, CompareAnswer, InspectAnswer, InspectRequest, InspectorRequest};
use crate::error::cause;

/// The memory that the confined process may have.
const MEMORY: u64 = 2 << 30;
const CHUNK: usize = 1 << 16;

/// The process, started when it is needed.
pub(super) struct Inspector {
    command: Box<dyn FnMut() -> Command>,
    process: Option<InspectorProcess>,
}

struct InspectorProcess {
    child: Child,
    stream: UnixStream,
}

impl Drop for InspectorProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Inspector {
    /// `command` runs `serve`, with a socket as standard input.
    pub fn new(command: impl FnMut() -> Command + 'static) -> Inspector {
        Inspector { command: Box::new(command), process: None }
    }

    /// Has a package opened. An error is a sentence about the package or the process.
    pub fn inspect(&mut self, request: &InspectRequest, package: &mut dyn Read, most: Duration) -> Result<(), String> {
        self.ask::<InspectAnswer>(&InspectorRequest::Inspect(request.clone()), request.size, package, most)?
    }

    /// Has two packages compared, which follow each other. Returns the members that differ.
    pub fn compare(&mut self, sizes: [u64; 2], packages: &mut dyn Read, most: Duration) -> Result<Vec<String>, String> {
        self.ask::<CompareAnswer>(&InspectorRequest::Compare(sizes), sizes.iter().sum(), packages, most)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &InspectorRequest,
        size: u64,
        content: &mut dyn Read,
        most: Duration,
    ) -> Result<T, String> {
        let end = Instant::now() + most;
        let process = self.started(end)?;
        process.ask(request, size, content, end).map_err(|error| self.stop(&error, most))
    }

    fn started(&mut self, end: Instant) -> Result<&mut InspectorProcess, String> {
        let cannot = |error: io::Error| format!("the process that opens packages cannot be started: {}", cause(&error));
        if self.process.is_none() {
            let mut process = InspectorProcess::start((self.command)()).map_err(cannot)?;
            process.receive::<InspectAnswer>(end).map_err(cannot)?.map_err(io::Error::other).map_err(cannot)?;
            self.process = Some(process);
        }
        self.process.as_mut().ok_or_else(|| "there is no process that opens packages".into())
    }

    /// Ends the process. Returns the reason.
    fn stop(&mut self, error: &io::Error, most: Duration) -> String {
        let Some(mut process) = self.process.take() else { return cause(error) };
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("opening it takes longer than {} s", most.as_secs_f32())
            }
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                let ended = process.child.wait().map_or_else(|error| cause(&error), |status| status.to_string());
                format!("the process that opens packages ended: {ended}")
            }
            _ => cause(error),
        }
    }
}

impl InspectorProcess {
    fn start(mut command: Command) -> io::Result<InspectorProcess> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(InspectorProcess { child, stream: ours })
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &InspectorRequest,
        size: u64,
        content: &mut dyn Read,
        end: Instant,
    ) -> io::Result<T> {
        self.send(&messages::encoded(request)?, end)?;
        let mut chunk = vec![0; CHUNK];
        let mut left = size;
        while left > 0 {
            let length = content.read(&mut chunk[..left.min(CHUNK as u64) as usize])?;
            if length == 0 {
                return Err(io::Error::other("its file is truncated"));
            }
            self.send(&chunk[..length], end)?;
            left -= length as u64;
        }
        self.receive(end)
    }

    fn send(&mut self, mut bytes: &[u8], end: Instant) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(end)?))?;
        while !bytes.is_empty() {
            let sent = unix_socket::send(&self.stream, bytes)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn receive<T: DeserializeOwned>(&mut self, end: Instant) -> io::Result<T> {
        self.stream.set_read_timeout(Some(left(end)?))?;
        messages::read(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Runs the process, with its requests on standard input.
pub fn serve() -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    lifecycle::obey_termination_signals(false);
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let confined = confine(MEMORY).map_err(|error| format!("it cannot be confined: {}", cause(&error)));
    messages::write(&mut stream, &confined)?;
    match confined {
        Ok(()) => answer_requests(&mut stream, ArchiveLimits::default()),
        Err(_) => Ok(()),
    }
}

pub(super) fn answer_requests(stream: &mut UnixStream, limits: ArchiveLimits) -> io::Result<()> {
    while let Some(request) = messages::read::<InspectorRequest>(stream)? {
        match request {
            InspectorRequest::Inspect(InspectRequest { name, size, dependencies }) => {
                let expected = ExpectedPackage { name: &name, size, dependencies: &dependencies };
                let answer = with_package(stream, size, |package| inspect(package, expected, limits))?;
                messages::write::<InspectAnswer>(stream, &answer.map_err(|why| why.to_string()))?;
            }
            InspectorRequest::Compare([first, second]) => {
                let read = |size| with_package(stream, size, |package| MemberList::read(package, size, limits));
                let answer = differences(&[read(first)?, read(second)?]);
                messages::write::<CompareAnswer>(stream, &answer)?;
            }
        }
    }
    Ok(())
}

/// Reads a package from the stream, up to its end whatever `read` leaves: more follows.
fn with_package<T>(stream: &UnixStream, size: u64, read: impl FnOnce(&mut dyn Read) -> T) -> io::Result<T> {
    let mut package = stream.take(size);
    let result = read(&mut package);
    io::copy(&mut package, &mut io::sink())?;
    Ok(result)
}
