//! Starts the server of a build again when it has gone. That is done by a process of its own: the build is in a mount
//! namespace that must vanish with it, and a server outlives the build.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tanto_serve::server_dir::{self, ServerState};
use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs;

/// The file in the server's directory that names the last server that a build has started.
const STARTED: &str = "started";
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// After the end of a server that has run for this long, the next one starts without a longer delay.
const STABLE: Duration = Duration::from_secs(5);

/// How the server of a build is started.
pub(super) struct Keeper {
    /// This program.
    pub program: PathBuf,
    /// The configuration of the build.
    pub config: PathBuf,
    /// The server's directory.
    pub dir: PathBuf,
    pub log: PathBuf,
    /// While this process runs, a server does.
    pub build: ProcessId,
}

impl Keeper {
    /// Runs until the build has ended. The server continues.
    pub fn run(&self) {
        let mut server: Option<(Child, Instant)> = None;
        let mut delay = FIRST_DELAY;
        while is_running(self.build) {
            if let Some((_, began)) = server.take_if(|(child, _)| !matches!(child.try_wait(), Ok(None))) {
                delay = if began.elapsed() >= STABLE { FIRST_DELAY } else { (delay * 2).min(LONGEST_DELAY) };
                thread::sleep(delay);
            }
            if server.is_none() && matches!(server_dir::server_state(&self.dir), Ok(ServerState::Stopped)) {
                // A failure is reported by the build, which waits for the server, or is tried again.
                server = self.start().ok().map(|child| (child, Instant::now()));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn start(&self) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.log)?;
        let mut command = Command::new(&self.program);
        command.args(["bulk", "serve", "--config"]).arg(&self.config).current_dir("/");
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        if let Some(process) = ProcessId::of(child.id()) {
            fs::write(self.dir.join(STARTED), format!("{process}\n"))?;
        }
        Ok(child)
    }
}

/// Whether the running server was started by a build, so that nobody else starts it again.
pub(super) fn has_started(dir: &Path) -> bool {
    let text = fs::read(dir.join(STARTED)).unwrap_or_default();
    ProcessId::parse(text.trim_ascii_end()).is_some_and(is_running)
}

fn is_running(process: ProcessId) -> bool {
    procs::stat(process.pid()).is_some_and(|it| it.process == process && !it.is_gone())
}
