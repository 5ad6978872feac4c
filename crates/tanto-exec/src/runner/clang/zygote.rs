//! The worker's process, of which each command gets a fork. Does not know which commands may have one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use tanto_sys::packets::Packets;
use tanto_sys::poll::Watch;
use tanto_sys::process::{Child, Environment, Launcher, Program, Words};

use super::frames::{self, MOST_BYTES, PROTOCOL, Said};

/// One that runs and has said what it stands for.
pub(super) struct Zygote {
    process: Child,
    socket: Packets,
    /// The first line of its `clang --version`.
    pub(super) clang: Vec<u8>,
    /// The beginning of its `ld.lld --version`.
    pub(super) lld: Vec<u8>,
    /// Said of other commands while we waited for a word on one.
    unheard: VecDeque<Said>,
    room: Vec<u8>,
}

/// One that says nothing for so long never will, on whatever machine; then its commands run without it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to end, before it is killed.
const LAST_MOMENT: Duration = Duration::from_secs(10);
const SIGKILL: i32 = 9;

impl Zygote {
    /// Starts this program, and waits until it is ready.
    pub(super) fn start(program: &Path) -> io::Result<Zygote> {
        let (socket, its) = Packets::pair()?;
        let process = {
            let mut launcher = Launcher::new(Environment::ours_and(&[]));
            launcher.hand_on([its.as_raw_fd(), -1]);
            let words =
                words(&[program.as_os_str().as_encoded_bytes(), b"--serve", its.as_raw_fd().to_string().as_bytes()]);
            launcher.piped(Program::Words(&words))?
        };
        drop(its);
        let (unheard, room) = (VecDeque::new(), vec![0; MOST_BYTES + 1]);
        let mut zygote = Zygote { process, socket, clang: Vec::new(), lld: Vec::new(), unheard, room };
        let Said::Hello { version: PROTOCOL, clang, lld } = zygote.hear(Instant::now() + PATIENCE)? else {
            return Err(io::Error::other("it speaks another protocol"));
        };
        (zygote.clang, zygote.lld) = (clang, lld);
        Ok(zygote)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ready when it has something to say, or is gone.
    pub(super) fn watch(&self) -> Watch {
        Watch::new(&self.socket)
    }

    /// Hands it a command, and waits until that has a process, whose number this is. None: it wants none of it.
    pub(super) fn run(&mut self, id: u64, frame: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<Option<u32>> {
        self.socket.send(frame, with)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.hear(until)? {
                Said::Started { id: its, pid } if its == id => return Ok(Some(pid)),
                Said::Declined { id: its } if its == id => return Ok(None),
                other => self.unheard.push_back(other),
            }
        }
    }

    /// The next thing that it has said, if it has said any. An error: it is gone.
    pub(super) fn said(&mut self) -> io::Result<Option<Said>> {
        match self.unheard.pop_front() {
            None => self.receive(),
            said => Ok(said),
        }
    }

    /// Waits a while for something that `said` can tell.
    pub(super) fn wait(&self) -> io::Result<()> {
        self.socket.wait(Some(PATIENCE))
    }

    /// Waits for the next thing that comes over the socket.
    fn hear(&mut self, until: Instant) -> io::Result<Said> {
        loop {
            if let Some(said) = self.receive()? {
                return Ok(said);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.wait(Some(left))?;
        }
    }

    fn receive(&mut self) -> io::Result<Option<Said>> {
        match self.socket.receive(&mut self.room)? {
            None => Ok(None),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(length) => {
                let said = frames::decode(&self.room[..length]);
                said.map(Some).ok_or_else(|| io::Error::other("it said what nobody understands"))
            }
        }
    }
}

impl Drop for Zygote {
    /// It ends, and its forks with it, when nobody holds our end of the socket. One that no longer hears is killed.
    fn drop(&mut self) {
        if let Ok((gone, _)) = Packets::pair() {
            self.socket = gone;
        }
        self.process.close_output();
        let until = Instant::now() + LAST_MOMENT;
        let mut pause = Duration::from_micros(100);
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                self.process.signal_group(SIGKILL);
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(10));
        }
    }
}

/// Words for a command of our own.
pub(super) fn words(texts: &[&[u8]]) -> Words {
    let mut words = Words::default();
    for text in texts {
        words.begin();
        text.iter().filter(|&&byte| byte != 0).for_each(|&byte| words.push(byte));
        words.end();
    }
    words
}
