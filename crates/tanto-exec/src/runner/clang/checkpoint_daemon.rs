//! Who keeps checkpoints: a process in the background, one for each build directory. Does not know which commands there
//! may be one for.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tanto_sys::ipc::seqpacket::SeqpacketSocket;
use tanto_sys::ipc::unix_socket;
use tanto_sys::process::{Environment, Launcher, Program};
use tanto_sys::user;

use super::connection::Link;
use super::frames::{STOP, Said, Without};
use super::identity::Stamp;
use super::zygote::words;

/// Where it leaves the address at which it listens, in its directory.
const ADDRESS: &str = "address";
/// A longer address is none of ours.
const LONGEST_ADDRESS: u64 = 100;
/// Where it leaves its number, in its directory.
const NUMBER: &str = "pid";
/// How often one that is about to listen is looked for.
const MOMENT: Duration = Duration::from_millis(20);
/// Who does not answer by then is left alone.
const PATIENCE: Duration = Duration::from_secs(10);
/// It ends when no build has used it for so long, in seconds.
const IDLE: &[u8] = b"1800";

/// One that runs, and what it held when we came.
pub(super) struct Keeper {
    pub(super) link: Link,
    pub(super) pid: u32,
    pub(super) held: Held,
}

/// What it keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its process.
    pub pid: u32,
    /// So many checkpoints at most.
    pub most: u32,
    /// So many are yet to be made.
    pub wanted: u32,
    /// The memory that they have together.
    pub memory_kib: u64,
    /// Of these files.
    pub files: Vec<Vec<u8>>,
    /// And of these there is none.
    pub without: Vec<Without>,
}

impl Keeper {
    /// Speaks to the one of this directory. An error: there is none, or none of ours.
    pub(super) fn find(place: &Path) -> io::Result<Keeper> {
        let mut address = Vec::new();
        File::open(place.join(ADDRESS))?.take(LONGEST_ADDRESS).read_to_end(&mut address)?;
        let socket = SeqpacketSocket::connect(address.trim_ascii_end())?;
        let who = unix_socket::peer_credentials(&socket)?;
        if who.user != user::effective() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut link = Link::greeted(socket, PATIENCE)?;
        let Said::Holding { most, wanted, memory_kib, files, without } = link.next()? else {
            return Err(io::Error::other("it does not say what it holds"));
        };
        let held = Held { pid: who.pid, most, wanted, memory_kib, files, without };
        Ok(Keeper { link, pid: who.pid, held })
    }

    /// Is it this program, as it is now?
    pub(super) fn is(&self, program: &Path) -> bool {
        let own = Stamp::of(Path::new(&format!("/proc/{}/exe", self.pid)));
        own.is_some() && own == Stamp::of(program)
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        self.link.socket().send(&STOP, &[])
    }

    /// Starts one, and gives the other end of a socket of its own, into which can be said at once what it is to hear.
    pub(super) fn start(program: &Path, place: &Path) -> io::Result<SeqpacketSocket> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let place = place.canonicalize()?;
        let it = fs::metadata(&place)?;
        if it.uid() != user::effective() || it.mode() & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (socket, its) = SeqpacketSocket::pair()?;
        let number = its.as_raw_fd().to_string();
        let line = [program.as_os_str().as_bytes(), b"--keep", place.as_os_str().as_bytes(), number.as_bytes(), IDLE];
        let mut launcher = Launcher::new(Environment::inherit_with(&[]));
        launcher.set_inherited_descriptors([its.as_raw_fd(), -1]);
        let mut child = launcher.spawn_piped(Program::Argv(&words(&line)))?;
        // What we have started only begins another.
        child.close_output();
        child.wait()?;
        Ok(socket)
    }
}

/// What is kept for this directory; none if nobody keeps anything.
pub fn held(place: &Path) -> Option<Held> {
    awaited(place).map(|keeper| keeper.held)
}

/// Ends whoever keeps checkpoints for this directory. False: there is nobody.
pub fn stop(place: &Path) -> bool {
    awaited(place).is_some_and(|keeper| keeper.stop().is_ok())
}

/// Who keeps checkpoints for this directory. One that a build has just started listens a moment later.
fn awaited(place: &Path) -> Option<Keeper> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Keeper::find(place) {
            Ok(keeper) => return Some(keeper),
            Err(error)
                if listens_not(&error) && Instant::now() < until && number(place).is_some_and(is_checkpoint_daemon) =>
            {
                thread::sleep(MOMENT);
            }
            Err(_) => return None,
        }
    }
}

fn listens_not(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The process that has left its number in this directory.
fn number(place: &Path) -> Option<u32> {
    fs::read_to_string(place.join(NUMBER)).ok()?.trim_end().parse().ok()
}

/// Is this process one that keeps checkpoints? The number that it has left in its directory says so.
pub fn is_checkpoint_daemon(pid: u32) -> bool {
    let Some(line) = tanto_sys::process::procs::command_line(pid) else { return false };
    // Behind the directory, which may have blanks in its name, are two numbers.
    let word = b" --keep ";
    let from = line.windows(word.len()).position(|part| part == word).map(|at| at + word.len());
    let Some(place) = from.and_then(|from| line[from..].rsplitn(3, |&byte| byte == b' ').nth(2)) else { return false };
    number(Path::new(OsStr::from_bytes(place))) == Some(pid)
}
