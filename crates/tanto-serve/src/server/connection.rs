//! One connection of a client: handshake, HTTP/1.1 or HTTP/2, and its limits.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::addresses::{Budget, Pass};
use super::requests::{self, Shared};
use super::stalls::StallGuard;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest headers, in bytes.
const MAX_HEADERS: usize = 16 << 10;

/// A connection's own state.
pub(super) struct Peer {
    pub(super) ip: IpAddr,
    pace: Mutex<Budget>,
    /// Until a token was verified.
    pass: Mutex<Option<Pass>>,
    verified: Notify,
}

impl Peer {
    /// Counts a request; returns false if there are too many.
    pub(super) fn paced(&self) -> bool {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }

    pub(super) fn set_verified(&self) {
        if self.pass.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.verified.notify_one();
        }
    }

    /// Ends if no token is verified in time.
    async fn unverified(&self, limit: Duration) {
        if tokio::time::timeout(limit, self.verified.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

pub(super) async fn run(shared: Arc<Shared>, acceptor: Option<TlsAcceptor>, stream: TcpStream, from: SocketAddr) {
    // Without it, small answers are slower.
    let _ = stream.set_nodelay(true);
    accept(shared, acceptor, stream, from.ip()).await;
}

/// Serves a stream until it ends.
pub(super) async fn accept(
    shared: Arc<Shared>,
    acceptor: Option<TlsAcceptor>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ip: IpAddr,
) {
    let now = Instant::now();
    let Some(pass) = shared.addresses.admit(ip, now) else { return };
    let limits = &shared.options.limits;
    let peer = Arc::new(Peer {
        ip,
        pace: Mutex::new(Budget::new(limits.requests_at_once, limits.requests_per_second, now)),
        pass: Mutex::new(Some(pass)),
        verified: Notify::new(),
    });
    let stream = StallGuard::new(stream, limits.stall);
    let Some(acceptor) = acceptor else { return serve(shared, peer, stream).await };
    match tokio::time::timeout(HANDSHAKE.min(limits.unverified_time), acceptor.accept(stream)).await {
        Ok(Ok(stream)) => serve(shared, peer, stream).await,
        Ok(Err(_)) | Err(_) => {
            shared.metrics.failed_handshakes.fetch_add(1, Ordering::Relaxed);
            shared.addresses.failed(peer.ip, Instant::now());
        }
    }
}

async fn serve(shared: Arc<Shared>, peer: Arc<Peer>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let limits = shared.options.limits.clone();
    let service = {
        let peer = peer.clone();
        service_fn(move |request| {
            let (shared, peer) = (shared.clone(), peer.clone());
            async move { Ok::<_, Infallible>(requests::answer(&shared, &peer, request).await) }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.stall).max_buf_size(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(MAX_HEADERS as u32)
        .max_send_buf_size(256 << 10)
        .keep_alive_interval(limits.stall / 2)
        .keep_alive_timeout(limits.stall / 2);
    tokio::select! {
        // The client sees an error, too.
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = peer.unverified(limits.unverified_time) => {}
    }
}
