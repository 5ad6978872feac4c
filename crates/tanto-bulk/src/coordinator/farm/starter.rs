//! Runs `client_start`, the user's command that starts clients, in a process outside of the build's namespaces: what the
//! command starts is no part of the build, and outlives it.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tanto_protocol::{JoinFile, Message};
use tanto_sys::ipc::unix_socket;
use tanto_sys::process::detach;
use tanto_sys::user;

use crate::config::Config;
use crate::error::{BulkError, cause};

/// The socket of the process in the state directory, and the file with the output of the command.
const SOCKET: &str = "client-start";
const LOG: &str = "client-start.log";
/// How long both processes wait for each other at the start.
const START: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);
/// How soon the end of a running command is noticed.
const POLL_MS: i64 = 1_000;
/// The longest answer.
const MAX_ANSWER: usize = 4_096;

/// The coordinator's end of the process.
#[derive(Debug)]
pub struct ClientStarter {
    stream: UnixStream,
    interval_ms: i64,
    /// No client is started while so many are connected.
    max_clients: usize,
    /// The command does not run before.
    next_ms: i64,
    is_running: bool,
    /// Packages wait for more clients.
    is_wanted: bool,
    /// The last run failed, and the user knows.
    has_failed: bool,
    answer: Vec<u8>,
}

impl ClientStarter {
    /// Starts the process, if the configuration has a command. Call it outside of namespaces, with one thread.
    pub fn start(config: &Config) -> Result<Option<ClientStarter>, BulkError> {
        if config.client_start.is_empty() {
            return Ok(None);
        }
        check(config)?;
        let failed = BulkError::of("client_start");
        let arguments = [&config.state, &config.client_start_join, &config.client_start];
        detach::spawn_detached(|| {
            // Without it, the wait below fails.
            let _ = Command::new("/proc/self/exe").args(["bulk", "starter"]).args(arguments).current_dir("/").spawn();
        })
        .map_err(BulkError::of("client_start"))?;
        let stream = connect(Path::new(&config.state)).map_err(failed)?;
        stream.set_nonblocking(true).map_err(BulkError::of("client_start"))?;
        Ok(Some(ClientStarter {
            stream,
            interval_ms: config.client_start_interval.unwrap_or(0),
            max_clients: config.client_start_max,
            next_ms: i64::MIN,
            is_running: false,
            is_wanted: false,
            has_failed: false,
            answer: Vec::new(),
        }))
    }

    /// Runs the command for so many packages, if it is time. `clients` are connected.
    pub(super) fn want(&mut self, now_ms: i64, packages: usize, clients: usize) {
        let more = self.max_clients.saturating_sub(clients);
        self.is_wanted = packages > 0 && more > 0;
        if self.is_running || !self.is_wanted || now_ms < self.next_ms {
            return;
        }
        self.next_ms = now_ms.saturating_add(self.interval_ms);
        // A line is shorter than any buffer. If the process is gone, `poll` says so.
        self.is_running = writeln!(self.stream, "{packages} {}", more.min(packages)).is_ok();
    }

    /// Returns why the command has failed, once until it succeeds.
    pub(super) fn poll(&mut self) -> Option<String> {
        if !self.is_running {
            return None;
        }
        let mut buffer = [0; 512];
        let why = match self.stream.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
            Err(error) => cause(&error).to_string(),
            Ok(0) => "its process was killed".to_owned(),
            Ok(length) => {
                self.answer.extend_from_slice(&buffer[..length]);
                if !self.answer.ends_with(b"\n") && self.answer.len() < MAX_ANSWER {
                    return None;
                }
                String::from_utf8_lossy(&std::mem::take(&mut self.answer)).trim_end().to_owned()
            }
        };
        self.is_running = false;
        let had_failed = std::mem::replace(&mut self.has_failed, !why.is_empty());
        (self.has_failed && !had_failed).then_some(why)
    }

    /// When there may be something to do.
    pub(super) fn deadline_ms(&self, now_ms: i64) -> Option<i64> {
        match self.is_running {
            true => Some(now_ms + POLL_MS),
            false => self.is_wanted.then_some(self.next_ms.max(now_ms + POLL_MS)),
        }
    }
}

/// The join file has to be one of this build.
fn check(config: &Config) -> Result<(), BulkError> {
    if config.listen.is_empty() {
        return Err("client_start needs 'listen': without it, no client can connect".into());
    }
    let join = join_file(Path::new(&config.client_start_join))?;
    match join.build == config.build_name {
        true => Ok(()),
        false => Err(format!("{}: it is a join file of build '{}'", config.client_start_join, join.build).into()),
    }
}

fn join_file(path: &Path) -> Result<JoinFile, BulkError> {
    let hint =
        "client_start_join, a file that 'tanto bulk token add NAME --pool --max-clients N --output FILE' writes: ";
    let bytes = std::fs::read(path).map_err(BulkError::io(hint, path))?;
    JoinFile::decode(&bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn connect(state: &Path) -> io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match unix_socket::connect(state, SOCKET) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > START => return Err(error),
            Err(_) => thread::sleep(STEP),
        }
    }
}

/// The process: runs the command for each line from the coordinator, and answers with an empty line or the reason of its
/// failure. Ends with the coordinator.
pub fn serve(state: &Path, join: &Path, command: &str) -> Result<(), BulkError> {
    let failed = |error| BulkError::of("client_start")(error);
    let description = join_file(join)?;
    let Some(mut stream) = accept(state).map_err(failed)? else { return Ok(()) };
    let lines = BufReader::new(stream.try_clone().map_err(failed)?).lines();
    for line in lines.map_while(Result::ok) {
        let (packages, clients) = line.split_once(' ').unwrap_or((&line, "0"));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).stdin(Stdio::null());
        shell.env("TANTO_PACKAGES", packages).env("TANTO_CLIENTS", clients).env("TANTO_JOIN", join);
        shell.env("TANTO_BUILD", &description.build).env("TANTO_URL", &description.url);
        let answer = run(shell, &state.join(LOG)).unwrap_or_else(|error| cause(&error).to_string());
        if writeln!(stream, "{}", answer.replace('\n', " ")).is_err() {
            break;
        }
    }
    Ok(())
}

/// Accepts the coordinator's connection; `None` if it does not come.
fn accept(state: &Path) -> io::Result<Option<UnixStream>> {
    let listener = unix_socket::listen(state, SOCKET)?;
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    while began.elapsed() < START {
        match listener.accept() {
            Ok((stream, _)) if unix_socket::peer_user(&stream).is_ok_and(user::is_trusted) => {
                stream.set_nonblocking(false)?;
                let _ = std::fs::remove_file(state.join(SOCKET));
                return Ok(Some(stream));
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => thread::sleep(STEP),
        }
    }
    Ok(None)
}

/// Returns why a command failed; empty if it did not. Its output is appended to a file: what it has started may print more.
fn run(mut command: Command, log: &Path) -> io::Result<String> {
    let output = OpenOptions::new().create(true).append(true).open(log)?;
    let status = command.stdout(output.try_clone()?).stderr(output).status()?;
    let log: PathBuf = log.to_owned();
    Ok(if status.success() { String::new() } else { format!("{status}; its output is in {}", log.display()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starter() -> (ClientStarter, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (next_ms, is_running, is_wanted, has_failed, answer) = (i64::MIN, false, false, false, Vec::new());
        (
            ClientStarter {
                stream,
                interval_ms: 60_000,
                max_clients: 3,
                next_ms,
                is_running,
                is_wanted,
                has_failed,
                answer,
            },
            theirs,
        )
    }

    fn asked(theirs: &mut UnixStream) -> String {
        let mut text = String::new();
        let _ = theirs.read_to_string(&mut text);
        text
    }

    #[test]
    fn the_command_runs_at_most_once_in_an_interval() {
        let (mut starter, mut theirs) = starter();
        starter.want(0, 0, 0);
        starter.want(0, 7, 3);
        assert_eq!(asked(&mut theirs), "", "nothing waits, or there are enough clients");
        starter.want(0, 7, 1);
        assert_eq!(asked(&mut theirs), "7 2\n");
        starter.want(120_000, 7, 1);
        assert_eq!(asked(&mut theirs), "", "it still runs");
        theirs.write_all(b"\n").unwrap();
        assert_eq!(starter.poll(), None);
        starter.want(59_999, 7, 1);
        assert_eq!(asked(&mut theirs), "");
        starter.want(60_000, 7, 1);
        assert_eq!(asked(&mut theirs), "7 2\n");
    }

    #[test]
    fn a_failure_is_reported_once() {
        let (mut starter, mut theirs) = starter();
        let mut run = |at: i64, answer: &[u8]| {
            starter.want(at, 1, 0);
            theirs.write_all(answer).unwrap();
            starter.poll()
        };
        assert_eq!(run(0, b"exit status: 1\n"), Some("exit status: 1".into()));
        assert_eq!(run(60_000, b"exit status: 1\n"), None);
        assert_eq!(run(120_000, b"\n"), None);
        assert_eq!(run(180_000, b"exit status: 2\n"), Some("exit status: 2".into()));
        drop(theirs);
        starter.want(240_000, 1, 0);
        assert_eq!(starter.poll(), None, "it is known to fail");
    }

    #[test]
    fn output_and_status_of_the_command_are_kept() {
        let place = tanto_testing::Scratch::new("client-start");
        let shell = |line: &str| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", line]);
            shell
        };
        assert_eq!(run(shell("echo started"), &place.at("log")).unwrap(), "");
        let why = run(shell("echo no queue >&2; exit 3"), &place.at("log")).unwrap();
        assert!(why.starts_with("exit status: 3; its output is in "), "{why}");
        assert_eq!(std::fs::read_to_string(place.at("log")).unwrap(), "started\nno queue\n");
    }
}
