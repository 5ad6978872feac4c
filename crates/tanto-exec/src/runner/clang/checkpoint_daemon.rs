//! The checkpoint daemon: a background process that keeps checkpoints, one per build directory.

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

use super::connection::WorkerConnection;
use super::frames::{PROTOCOL, Reply, STOP, Without};
use super::identity::Stamp;
use super::server_process::words;

/// File with the address of its socket, in its directory.
const ADDRESS: &str = "address";
/// Longer addresses are invalid.
const LONGEST_ADDRESS: u64 = 100;
/// File with its process ID, in its directory.
const NUMBER: &str = "pid";
/// Poll interval for a daemon that is starting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of all replies.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds without a build after which it exits.
const IDLE_SECONDS: &[u8] = b"1800";

/// A running daemon, and its state when it was found.
pub(super) struct DaemonConnection {
    pub(super) connection: WorkerConnection,
    pub(super) pid: u32,
    pub(super) held: Held,
}

/// State of a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub pid: u32,
    /// Maximum number of checkpoints.
    pub most: u32,
    /// Number of checkpoints still to be made.
    pub wanted: u32,
    /// Memory of all checkpoints.
    pub memory_kib: u64,
    /// Source files with a checkpoint.
    pub files: Vec<Vec<u8>>,
    pub without: Vec<Without>,
}

impl Held {
    /// Lists the files with and without a checkpoint.
    pub fn text(&self) -> Vec<u8> {
        let mut text = [b"checkpoints: ", &self.brief()[..], b"\n"].concat();
        for file in &self.files {
            text.extend_from_slice(&[b"  ", &file[..], b"\n"].concat());
        }
        if !self.without.is_empty() {
            text.extend_from_slice(b"without one:\n");
        }
        for Without { file, why } in &self.without {
            text.extend_from_slice(&[b"  ", &file[..], b": ", why, b"\n"].concat());
        }
        text
    }

    /// One line about the checkpoints.
    pub fn brief(&self) -> Vec<u8> {
        let Held { pid, most, wanted, memory_kib, files, .. } = self;
        let more = if *wanted > 0 { format!(", {wanted} yet to be made") } else { String::new() };
        let (count, mib) = (files.len(), memory_kib >> 10);
        format!("{count} of at most {most}, {mib} MiB, in process {pid}{more}").into()
    }
}

impl DaemonConnection {
    /// Connects to the daemon of this directory. Fails if there is none, or it belongs to another user.
    pub(super) fn find(place: &Path) -> io::Result<DaemonConnection> {
        let mut address = Vec::new();
        File::open(place.join(ADDRESS))?.take(LONGEST_ADDRESS).read_to_end(&mut address)?;
        let socket = SeqpacketSocket::connect(address.trim_ascii_end())?;
        let peer = unix_socket::peer_credentials(&socket)?;
        if peer.user != user::effective() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut connection = WorkerConnection::new(socket, TIMEOUT);
        let Reply::Hello { version: PROTOCOL, .. } = connection.next()? else {
            return Err(io::Error::other("unsupported protocol version"));
        };
        let Reply::Holding { most, wanted, memory_kib, files, without } = connection.next()? else {
            return Err(io::Error::other("unexpected message"));
        };
        let held = Held { pid: peer.pid, most, wanted, memory_kib, files, without };
        Ok(DaemonConnection { connection, pid: peer.pid, held })
    }

    /// Returns whether the daemon runs this program in its current version.
    pub(super) fn is(&self, program: &Path) -> bool {
        let own = Stamp::of(Path::new(&format!("/proc/{}/exe", self.pid)));
        own.is_some() && own == Stamp::of(program)
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        self.connection.socket().send(&STOP, &[])
    }

    /// Starts a daemon, and returns a socket to which requests can be written at once.
    pub(super) fn start(program: &Path, place: &Path) -> io::Result<SeqpacketSocket> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let place = place.canonicalize()?;
        let it = fs::metadata(&place)?;
        if it.uid() != user::effective() || it.mode() & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (socket, its) = SeqpacketSocket::pair()?;
        let number = its.as_raw_fd().to_string();
        let line =
            [program.as_os_str().as_bytes(), b"--keep", place.as_os_str().as_bytes(), number.as_bytes(), IDLE_SECONDS];
        let mut launcher = Launcher::new(Environment::inherit_with(&[]));
        launcher.set_inherited_descriptors([its.as_raw_fd(), -1]);
        let mut child = launcher.spawn_piped(Program::Argv(&words(&line)))?;
        // The started process only forks the daemon.
        child.close_output();
        child.wait()?;
        Ok(socket)
    }
}

/// Returns the state of this directory's daemon; `None` if there is none.
pub fn held(place: &Path) -> Option<Held> {
    find_started(place).map(|daemon| daemon.held)
}

/// Stops the daemon of this directory. Returns false if there is none.
pub fn stop(place: &Path) -> bool {
    find_started(place).is_some_and(|daemon| daemon.stop().is_ok())
}

/// Connects to the daemon of this directory. One that was just started listens a moment later.
fn find_started(place: &Path) -> Option<DaemonConnection> {
    let until = Instant::now() + TIMEOUT;
    loop {
        match DaemonConnection::find(place) {
            Ok(daemon) => return Some(daemon),
            Err(error)
                if is_not_listening(&error)
                    && Instant::now() < until
                    && number(place).is_some_and(is_checkpoint_daemon) =>
            {
                thread::sleep(POLL_INTERVAL);
            }
            Err(_) => return None,
        }
    }
}

fn is_not_listening(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Returns the process ID in the daemon's directory.
fn number(place: &Path) -> Option<u32> {
    fs::read_to_string(place.join(NUMBER)).ok()?.trim_end().parse().ok()
}

/// Returns whether this process is a checkpoint daemon, according to its command line and the file with its process ID.
pub fn is_checkpoint_daemon(pid: u32) -> bool {
    let Some(line) = tanto_sys::process::procs::command_line(pid) else { return false };
    // The directory may contain blanks; two numbers follow it.
    let word = b" --keep ";
    let from = line.windows(word.len()).position(|part| part == word).map(|at| at + word.len());
    let Some(place) = from.and_then(|from| line[from..].rsplitn(3, |&byte| byte == b' ').nth(2)) else { return false };
    number(Path::new(OsStr::from_bytes(place))) == Some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lists_files_with_and_without_checkpoints() {
        let without = vec![Without { file: b"b.c".to_vec(), why: b"its includes print warnings".to_vec() }];
        let held = Held { pid: 7, most: 8, wanted: 1, memory_kib: 123_456, files: vec![b"a.c".to_vec()], without };
        let text = String::from_utf8(held.text()).unwrap();
        let first = "checkpoints: 1 of at most 8, 120 MiB, in process 7, 1 yet to be made\n  a.c\n";
        assert_eq!(text, format!("{first}without one:\n  b.c: its includes print warnings\n"));
    }
}
