//! The worker's main process, which forks for each command.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tanto_sys::ipc::seqpacket::SeqpacketSocket;
use tanto_sys::process::{Argv, Child, Environment, Launcher, Program};

use super::connection::WorkerConnection;

pub(super) struct Zygote {
    process: Child,
    pub(super) connection: WorkerConnection,
}

/// Timeout of its greeting.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const SIGKILL: i32 = 9;

impl Zygote {
    /// Starts the program, and waits until it is ready.
    pub(super) fn start(program: &Path) -> io::Result<Zygote> {
        let (socket, its) = SeqpacketSocket::pair()?;
        let mut process = {
            let mut launcher = Launcher::new(Environment::inherit_with(&[]));
            launcher.set_inherited_descriptors([its.as_raw_fd(), -1]);
            let words =
                words(&[program.as_os_str().as_encoded_bytes(), b"--serve", its.as_raw_fd().to_string().as_bytes()]);
            launcher.spawn_piped(Program::Argv(&words))?
        };
        drop(its);
        match WorkerConnection::connect(socket, TIMEOUT) {
            Ok(connection) => Ok(Zygote { process, connection }),
            Err(error) => {
                wait_for_exit(&mut process);
                Err(error)
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Zygote {
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
