//! A process that serves commands over a socket: a fork server.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use tanto_sys::ipc::seqpacket::SeqpacketSocket;
use tanto_sys::process::{Argv, Child, Environment, Launcher, Program};

use super::connection::WorkerConnection;

pub(super) struct ServerProcess {
    process: Child,
    pub(super) connection: WorkerConnection,
}

/// Time to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const SIGKILL: i32 = 9;

impl ServerProcess {
    /// Starts the program with one end of a socket and another descriptor, whose numbers are passed to `variables`.
    /// All replies have this timeout.
    pub(super) fn start(
        program: &Path,
        timeout: Duration,
        inherited: RawFd,
        variables: impl FnOnce(RawFd) -> Environment,
    ) -> io::Result<ServerProcess> {
        let (socket, its) = SeqpacketSocket::pair()?;
        let mut launcher = Launcher::new(variables(its.as_raw_fd()));
        launcher.set_inherited_descriptors([its.as_raw_fd(), inherited]);
        let process = launcher.spawn_piped(Program::Argv(&words(&[program.as_os_str().as_encoded_bytes()])))?;
        Ok(ServerProcess { process, connection: WorkerConnection::new(socket, timeout) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for ServerProcess {
    /// It exits with its forks when this end of the socket is closed. A hung one is killed.
    fn drop(&mut self) {
        self.connection.close();
        wait_for_exit(&mut self.process);
    }
}

/// Waits until it has exited.
fn wait_for_exit(process: &mut Child) {
    process.close_output();
    let until = Instant::now() + EXIT_TIMEOUT;
    let mut pause = Duration::from_micros(100);
    while matches!(process.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            process.signal_group(SIGKILL);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(10));
    }
}

pub(super) fn words(texts: &[&[u8]]) -> Argv {
    let mut words = Argv::default();
    for text in texts {
        words.begin();
        text.iter().filter(|&&byte| byte != 0).for_each(|&byte| words.push(byte));
        words.end();
    }
    words
}
