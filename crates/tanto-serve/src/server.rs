//! The server: accepts clients, verifies their tokens and relays their requests.

mod addresses;
mod answer;
mod builds;
mod collection;
mod connection;
mod fuzzing;
mod limits;
mod metrics;
mod packs;
mod renewal;
mod requests;
mod route;
mod stalls;
mod tls;
mod transfers;
mod trees;
mod uploads;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use tanto_cas::StoreError;
use tanto_cas::store::StoreLimits;
use tanto_sys::fs::private_files;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use self::addresses::Addresses;
use self::builds::Builds;
use self::metrics::Metrics;
use self::requests::Shared;
use self::tls::Leaf;
use self::uploads::Uploads;
use crate::blobs::Blobs;
use crate::tokens::{TokenError, TokenTable};

pub use self::fuzzing::HttpFuzzer;
pub use self::limits::Limits;
pub use self::renewal::Renewal;
pub use self::route::fuzz_route;

#[derive(Clone, Debug)]
pub struct Options {
    /// The server's directory: `builds/`, `tokens.json`, `tls/leaf.pem`, `blobs/`, `roots/`, `trees/`.
    pub dir: PathBuf,
    pub listen: SocketAddr,
    /// Without TLS, which only a loopback address permits.
    pub plain: bool,
    pub limits: Limits,
    /// `None`: nothing renews the certificate while the server runs.
    pub renewal: Option<Renewal>,
    /// Gets a line for each event.
    pub log: fn(&str),
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("without TLS, listen on a loopback address such as 127.0.0.1, not on {0}")]
    PlainAddress(SocketAddr),
    #[error("{}: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

/// Serves until SIGTERM or SIGINT. Calls `ready` with the address once clients can connect.
pub fn serve(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
        let server = Server::bind(options).await?;
        ready(server.address());
        server
            .run_until(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            })
            .await;
        Ok(())
    });
    // Reads of files that still run are not waited for.
    runtime.shutdown_background();
    served
}

fn open_blobs(options: &Options) -> Result<Blobs, ServeError> {
    let limits = StoreLimits {
        max_bytes: options.limits.store,
        keep_used: options.limits.keep_blobs,
        upload_bytes_per_owner: options.limits.blob.saturating_mul(2),
        ..StoreLimits::default()
    };
    Ok(Blobs::open(&options.dir, limits, options.limits.disk_reserve)?)
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    leaf: Option<Arc<Leaf>>,
}

impl Server {
    pub async fn bind(options: Options) -> Result<Server, ServeError> {
        if options.plain && !options.listen.ip().is_loopback() {
            return Err(ServeError::PlainAddress(options.listen));
        }
        for dir in [options.dir.clone(), options.dir.join("builds"), options.dir.join("tls")] {
            private_files::create_dir(&dir).map_err(|source| ServeError::File { path: dir, source })?;
        }
        let leaf = match options.plain {
            true => None,
            false => Some(Arc::new(Leaf::read(options.dir.join("tls/leaf.pem"), options.log)?)),
        };
        let failed = |source| ServeError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            tokens: Arc::new(TokenTable::new(&options.dir)?),
            builds: Builds::default(),
            addresses: Arc::new(Addresses::new(&options.limits)),
            metrics: Metrics::default(),
            blobs: Arc::new(open_blobs(&options)?),
            uploads: Uploads::default(),
            bodies: Arc::new(tokio::sync::Semaphore::new(options.limits.body_memory)),
            options,
        });
        Ok(Server { listener, address, shared, leaf })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the future ends. All connections are cut then: clients try again.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let acceptor = self.leaf.map(tls::acceptor);
        let mut stop = pin!(stop);
        let mut connections = JoinSet::new();
        let builds = tokio::spawn(builds::follow(self.shared.clone()));
        let collection = tokio::spawn(collection::run(self.shared.clone()));
        let Options { renewal, log, .. } = self.shared.options.clone();
        let renewal = renewal.map(|renewal| tokio::spawn(renewal::run(renewal, log)));
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) if connections.len() < self.shared.options.limits.connections => {
                        connections.spawn(connection::run(self.shared.clone(), acceptor.clone(), stream, peer));
                    }
                    Ok(_) => self.shared.metrics.count("too-many-connections", 0),
                    // Descriptors are short, or the client has gone already.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                },
            }
        }
        builds.abort();
        collection.abort();
        if let Some(renewal) = renewal {
            renewal.abort();
        }
        connections.shutdown().await;
    }
}
