//! `tanto bulk serve`, and its start before a build.

mod keeper;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use self::keeper::Keeper;
use tanto_bulk::config::Config;
use tanto_bulk::error::BulkError;
use tanto_serve::server_dir::{self, ServedBuild, ServerLock, ServerState};
use tanto_serve::{Limits, Options, Renewal};
use tanto_sys::fs::private_files;
use tanto_sys::machine::system::SystemName;
use tanto_sys::process::detach;
use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::signals;

/// How long a server may take to start.
const START: Duration = Duration::from_secs(20);
const START_INTERVAL: Duration = Duration::from_millis(10);
/// Between two looks at the age of the certificate.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(6 * 3_600);

/// The server of a build, as configured.
pub(super) struct ConfiguredServer {
    pub dir: PathBuf,
    listen: SocketAddr,
    host: String,
    /// As configured.
    url: String,
    build: String,
    state: PathBuf,
}

impl ConfiguredServer {
    pub fn new(config: &Config) -> Result<ConfiguredServer, BulkError> {
        let missing = "set 'listen' in the configuration to an address for other machines, such as \"0.0.0.0:8443\"";
        Ok(ConfiguredServer {
            dir: config.server_dir(),
            listen: config.listen.parse().map_err(|_| missing)?,
            host: SystemName::query().host,
            url: config.server_url.clone(),
            build: config.build_name.clone(),
            state: PathBuf::from(&config.state),
        })
    }

    /// Prepares its directory for the build, and renews an old certificate. The server itself does not read the authority's
    /// key while it serves.
    pub fn prepare(&self) -> Result<(), BulkError> {
        let failed = |error| BulkError::io("opening ", &self.state)(error);
        fs::create_dir_all(self.state.parent().unwrap_or(&self.state)).map_err(failed)?;
        private_files::create_dir(&self.state).map_err(failed)?;
        let hosts = server_dir::certificate_names(&self.url(self.listen), self.listen, &self.host);
        let authority = self.state.join(server_dir::AUTHORITY);
        let build = ServedBuild { name: &self.build, state: &self.state, authority: &authority, hosts: &hosts };
        server_dir::prepare(&self.dir, &build).map_err(invalid)
    }

    fn url(&self, address: SocketAddr) -> String {
        server_dir::url(&self.url, address, &self.host)
    }

    /// The URL for clients. A port that the system chose is known while a server runs.
    pub fn client_url(&self) -> Result<String, BulkError> {
        match server_dir::server_state(&self.dir).map_err(invalid)? {
            ServerState::Listening(address) if self.listen.port() == 0 => Ok(self.url(address)),
            _ if self.listen.port() == 0 && self.url.is_empty() => {
                Err("start 'tanto bulk serve' first, or set another port than 0 in 'listen'".into())
            }
            _ => Ok(self.url(self.listen)),
        }
    }
}

pub(super) fn invalid(error: impl std::error::Error) -> BulkError {
    BulkError::Invalid(error.to_string())
}

/// Serves until a signal ends it.
pub fn serve(config: &Config) -> Result<(), BulkError> {
    signals::ignore_sigpipe().map_err(BulkError::of("ignoring SIGPIPE"))?;
    let server = ConfiguredServer::new(config)?;
    server.prepare()?;
    let lock = ServerLock::take(&server.dir).map_err(invalid)?;
    let program = std::env::current_exe().map_err(BulkError::of("finding this program"))?;
    let dir = std::path::absolute(&server.dir).map_err(BulkError::io("opening ", &server.dir))?;
    let arguments = ["bulk".into(), "renew".into(), dir.into_os_string()].to_vec();
    let renewal = Some(Renewal { program, arguments, interval: RENEWAL_INTERVAL });
    let (dir, limits) = (server.dir.clone(), limits(config));
    let options = Options { dir, listen: server.listen, plain: false, limits, renewal, log };
    let ready = |address| {
        if let Err(error) = lock.announce(address) {
            log(&format!("{}: {error}", server.dir.display()));
        }
        let _ = writeln!(io::stdout(), "listening on {}", server.url(address));
    };
    tanto_serve::serve(options, ready).map_err(invalid)
}

/// Prints a line, unless the reader is gone.
fn log(line: &str) {
    let _ = writeln!(io::stderr(), "tanto: {line}");
}

fn limits(config: &Config) -> Limits {
    let keep_ms = config.blob_keep.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
    Limits {
        store: config.blob_space.unwrap_or(u64::MAX),
        keep_blobs: Duration::from_millis(keep_ms),
        ..Limits::default()
    }
}

/// Starts the server of a build in the background, unless one runs already or none is wanted. It is no child of this
/// process, does not end with the build, and serves other builds too. A server that a build has started is started again
/// if it ends before the build. The process must have one thread.
pub fn start(config: &Config, file: &Path) -> Result<(), BulkError> {
    if config.listen.is_empty() {
        return Ok(());
    }
    let server = ConfiguredServer::new(config)?;
    server.prepare()?;
    if is_listening(&server)? && !keeper::has_started(&server.dir) {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(BulkError::of("starting the server"))?;
    let file = std::path::absolute(file).map_err(BulkError::io("reading ", file))?;
    let log = server.dir.join("server.log");
    let build = ProcessId::current().map_err(BulkError::of("starting the server"))?;
    let keeper = Keeper { program, config: file, dir: server.dir.clone(), log: log.clone(), build };
    detach::spawn_detached(|| keeper.run()).map_err(BulkError::of("starting the server"))?;
    let started = Instant::now();
    while !is_listening(&server)? {
        if started.elapsed() > START {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().last().unwrap_or_default();
            return Err(format!("the server for other machines does not start; {} ends: {last}", log.display()).into());
        }
        thread::sleep(START_INTERVAL);
    }
    Ok(())
}

fn is_listening(server: &ConfiguredServer) -> Result<bool, BulkError> {
    let state = server_dir::server_state(&server.dir).map_err(invalid)?;
    Ok(matches!(state, ServerState::Listening(_)))
}
