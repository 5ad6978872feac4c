//! The coordinator's side of acceptance. It never blocks.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use tanto_sys::ipc::epoll::{Epoll, Interest};
use tanto_sys::ipc::unix_socket;

use super::messages::{self, AcceptAnswer, AcceptorRequest};
use crate::coordinator::control_socket::is_later;
use crate::error::cause;

/// Sends results to the process that accepts them, which is started for the first one and after it ended.
pub struct Acceptance {
    command: Box<dyn FnMut() -> Command>,
    set: Epoll,
    process: Option<AcceptorProcess>,
    /// Encoded requests without an answer, with their numbers, in order. The first one is being handled.
    pending: VecDeque<(u64, Vec<u8>)>,
    /// Answers for requests that no process can handle.
    refused: VecDeque<AcceptAnswer>,
    /// Processes that were started (`true`) and have ended.
    changes: Vec<(u32, bool)>,
}

struct AcceptorProcess {
    child: Child,
    stream: UnixStream,
    received: Vec<u8>,
    unsent: VecDeque<u8>,
}

/// The number of the process in the set.
const PROCESS: u64 = 0;
/// The maximum read at a time, in bytes.
const MAX_READ: u64 = 1 << 20;

impl Acceptance {
    /// `command` runs `accept`, with a socket as standard input.
    pub fn new(command: impl FnMut() -> Command + 'static) -> io::Result<Acceptance> {
        Ok(Acceptance {
            command: Box::new(command),
            set: Epoll::new()?,
            process: None,
            pending: VecDeque::new(),
            refused: VecDeque::new(),
            changes: Vec::new(),
        })
    }

    /// Runs this program.
    pub fn of_this_program() -> io::Result<Acceptance> {
        Acceptance::new(|| {
            let mut command = Command::new("/proc/self/exe");
            command.args(["bulk", "accept"]).env_clear().current_dir("/");
            command
        })
    }

    /// Returns a descriptor that is readable when there may be an answer.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.set.try_clone_fd()
    }

    /// Takes the processes that were started (`true`) or have ended since the last call.
    pub fn take_changes(&mut self) -> Vec<(u32, bool)> {
        std::mem::take(&mut self.changes)
    }

    /// Has a result accepted, or packages compared. `answers` returns the answer.
    pub fn submit(&mut self, request: &AcceptorRequest) {
        let bytes = match messages::encoded(request) {
            Ok(bytes) => bytes,
            Err(error) => return self.refuse(request.number(), &cause(&error)),
        };
        if let Some(process) = &mut self.process {
            process.unsent.extend(&bytes);
        }
        self.pending.push_back((request.number(), bytes));
        if self.process.is_none() {
            self.start();
        }
        // `answers` sees the error too.
        let _ = self.send();
    }

    /// Returns the answers that have arrived. The result that the process was handling when it ended is refused.
    pub fn answers(&mut self) -> Vec<AcceptAnswer> {
        let mut answers: Vec<AcceptAnswer> = self.refused.drain(..).collect();
        loop {
            match self.receive() {
                Ok(received) => {
                    self.pending.retain(|(number, _)| received.iter().all(|answer| answer.number != *number));
                    answers.extend(received);
                    return answers;
                }
                Err(error) => self.process_ended(&error),
            }
            answers.extend(self.refused.drain(..));
        }
    }

    fn receive(&mut self) -> io::Result<Vec<AcceptAnswer>> {
        self.send()?;
        self.process.as_mut().map_or(Ok(Vec::new()), AcceptorProcess::receive)
    }

    /// Sends as much as possible.
    fn send(&mut self) -> io::Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.send()?;
        self.set.modify(&process.stream, PROCESS, process.interest())
    }

    fn process_ended(&mut self, error: &io::Error) {
        let why = self.process.take().map_or_else(String::new, |process| self.end(process, error));
        if let Some((number, _)) = self.pending.pop_front() {
            self.refuse(number, &why);
        }
        if !self.pending.is_empty() {
            self.start();
        }
    }

    fn end(&mut self, AcceptorProcess { mut child, .. }: AcceptorProcess, error: &io::Error) -> String {
        // It may have ended already.
        let _ = child.kill();
        let ended = child.wait();
        self.changes.push((child.id(), false));
        match ended {
            Ok(status) => format!("the process that accepts results ended ({status}): {}", cause(error)),
            Err(error) => format!("the process that accepts results is lost: {}", cause(&error)),
        }
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.refused.push_back(AcceptAnswer { number, notes: Vec::new(), result: Err(why.to_owned()) });
    }

    /// Starts the process and sends it all requests.
    fn start(&mut self) {
        match AcceptorProcess::start((self.command)(), &self.set) {
            Ok(mut process) => {
                self.changes.push((process.child.id(), true));
                process.unsent.extend(self.pending.iter().flat_map(|(_, bytes)| bytes));
                self.process = Some(process);
            }
            Err(error) => {
                let why = format!("the process that accepts results cannot be started: {}", cause(&error));
                for (number, _) in std::mem::take(&mut self.pending) {
                    self.refuse(number, &why);
                }
            }
        }
    }
}

impl AcceptorProcess {
    fn start(mut command: Command, set: &Epoll) -> io::Result<AcceptorProcess> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        set.add(&ours, PROCESS, Interest::Read)?;
        let child = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(AcceptorProcess { child, stream: ours, received: Vec::new(), unsent: VecDeque::new() })
    }

    fn interest(&self) -> Interest {
        if self.unsent.is_empty() { Interest::Read } else { Interest::ReadAndWrite }
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match unix_socket::send(&self.stream, self.unsent.as_slices().0) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<AcceptAnswer>> {
        let read = (&self.stream).take(MAX_READ).read_to_end(&mut self.received);
        let mut answers = Vec::new();
        while let Some(answer) = messages::take(&mut self.received)? {
            answers.push(answer);
        }
        match read {
            Ok(length) if (length as u64) < MAX_READ && answers.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if !is_later(&error) && answers.is_empty() => Err(error),
            _ => Ok(answers),
        }
    }
}

impl Drop for Acceptance {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            self.end(process, &io::ErrorKind::Interrupted.into());
        }
    }
}
