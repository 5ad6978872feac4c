//! HTTP requests: to the server with a token, over TLS with the authority of the join file; and to a cache of blobs.

use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tanto_protocol::{Digest, Refusal, RefusalCode};
use ureq::http::{StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, RequestBuilder, SendBody};

use super::ClientError;
use super::resolver::SystemResolver;

/// Where systems keep the certificates of public authorities.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/openssl/certs/ca-certificates.crt",
];
/// How long a connection may be idle. The server ends it after 60 s.
const IDLE: Duration = Duration::from_secs(50);
/// Idle connections. A client has some threads that send requests at the same time.
const IDLE_CONNECTIONS: usize = 8;
/// Longest refusal, in bytes.
const MAX_REFUSAL: u64 = 128 << 10;
/// How long a transfer may stand still.
const STALL: Duration = Duration::from_secs(60);
/// How long the server may take to answer a request for a blob, or to verify one.
const ANSWER: Duration = Duration::from_secs(300);
/// How long a connection may take, and the resolution of a name.
const CONNECT: Duration = Duration::from_secs(20);
/// The same of a cache, whose blobs the server has, too.
const CACHE_STALL: Duration = Duration::from_secs(30);
const CACHE_CONNECT: Duration = Duration::from_secs(5);
/// The least speed of a cache, in bytes per second.
const CACHE_SPEED: u64 = 64 << 10;

pub(super) struct Transport {
    agent: Agent,
    /// PEM; empty: the authorities of the system.
    authorities: String,
    /// Without a slash at its end.
    base: String,
    authorization: String,
}

/// Reads blobs from a cache. It has no token.
pub(super) struct CacheTransport {
    agent: Agent,
    /// Without a slash at its end.
    base: String,
}

impl CacheTransport {
    /// Certificates are verified with the authorities of the system.
    pub(super) fn new(url: &str) -> Result<CacheTransport, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let tls = match base.starts_with("https://") {
            true => tls_config("")?,
            false => TlsConfig::default(),
        };
        Ok(CacheTransport { agent: agent(tls, CACHE_CONNECT), base })
    }

    /// Reads a blob of a size from an offset, like `Transport::get`.
    pub(super) fn get(&self, digest: &Digest, size: u64, from: u64) -> Result<(Body, bool), ClientError> {
        let request = self.agent.get(format!("{}/{digest}", self.base));
        let longest = CACHE_STALL + Duration::from_secs(size / CACHE_SPEED);
        let request = request.config().timeout_global(Some(longest)).build();
        blob_body(request, from, (CACHE_STALL, CACHE_STALL), |status, body| match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                ClientError::Refused(Refusal { code: RefusalCode::NotFound, message: format!("status {status}") })
            }
            status => refused(status, body),
        })
    }
}

fn agent(tls: TlsConfig, connect: Duration) -> Agent {
    let config = Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("tanto/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_per_write(Some(Duration::from_secs(60)))
        .max_response_header_size(16 << 10)
        // A new connection takes processor time here and at the server, and two more round trips.
        .max_idle_age(IDLE)
        .max_idle_connections_per_host(IDLE_CONNECTIONS)
        .build();
    Agent::with_parts(config, DefaultConnector::default(), SystemResolver)
}

/// Asks for a blob from an offset. Returns the body and whether it begins at the offset, rather than at the begin.
fn blob_body(
    request: RequestBuilder<WithoutBody>,
    from: u64,
    (answer, stall): (Duration, Duration),
    refused: impl FnOnce(StatusCode, &mut Body) -> ClientError,
) -> Result<(Body, bool), ClientError> {
    let request = if from > 0 { request.header("Range", format!("bytes={from}-")) } else { request };
    let request = request.config().timeout_per_read(Some(stall)).timeout_recv_response(Some(answer)).build();
    let mut answer = request.call()?;
    match answer.status() {
        StatusCode::OK => Ok((answer.into_body(), false)),
        StatusCode::PARTIAL_CONTENT => Ok((answer.into_body(), true)),
        status => Err(refused(status, answer.body_mut())),
    }
}

impl Transport {
    /// `authorities` are PEM; empty: those of the system.
    pub(super) fn new(url: &str, authorities: &str, token: &str) -> Result<Transport, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let agent = server_agent(&base, authorities)?;
        let authorization = format!("Bearer {token}");
        Ok(Transport { agent, authorities: authorities.to_owned(), base, authorization })
    }

    pub(super) fn authorities(&self) -> &str {
        &self.authorities
    }

    /// The same with other authorities, and new connections.
    pub(super) fn with_authorities(&self, authorities: &str) -> Result<Transport, ClientError> {
        let (base, authorization) = (self.base.clone(), self.authorization.clone());
        Ok(Transport {
            agent: server_agent(&base, authorities)?,
            authorities: authorities.to_owned(),
            base,
            authorization,
        })
    }

    /// Returns a text of at most `max` bytes.
    pub(super) fn get_text(&self, path: &str, max: usize) -> Result<String, ClientError> {
        let request = self.agent.get(self.url(path)).header("Authorization", &self.authorization);
        let mut answer = request.config().timeout_global(Some(ANSWER)).build().call()?;
        if answer.status() != StatusCode::OK {
            return Err(refused(answer.status(), answer.body_mut()));
        }
        Ok(answer.body_mut().with_config().limit(max as u64).read_to_string()?)
    }

    /// Returns the body of the answer, of at most `max` bytes.
    pub(super) fn post(&self, path: &str, body: &[u8], max: usize, patience: Duration) -> Result<Vec<u8>, ClientError> {
        let request = self.agent.post(self.url(path)).header("Authorization", &self.authorization);
        let request = request.config().timeout_global(Some(patience)).build();
        let mut answer = request.content_type("application/json").send(body)?;
        if answer.status() != StatusCode::OK {
            return Err(refused(answer.status(), answer.body_mut()));
        }
        Ok(answer.body_mut().with_config().limit(max as u64).read_to_vec()?)
    }
}

impl Transport {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Reads a blob from an offset. Returns the body and whether it begins at the offset, rather than at the begin.
    pub(super) fn get(&self, path: &str, from: u64) -> Result<(Body, bool), ClientError> {
        let request = self.agent.get(self.url(path)).header("Authorization", &self.authorization);
        blob_body(request, from, (ANSWER, STALL), refused)
    }

    /// Returns whether a blob is there and, if not, how much of its upload has arrived.
    pub(super) fn head(&self, path: &str) -> Result<Arrived, ClientError> {
        let request = self.agent.head(self.url(path)).header("Authorization", &self.authorization);
        let answer = request.config().timeout_global(Some(ANSWER)).build().call()?;
        let number = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        match (answer.status(), number("upload-offset")) {
            (StatusCode::OK, _) => Ok(Arrived::Whole { size: number("content-length") }),
            (StatusCode::NOT_FOUND, Some(offset)) => Ok(Arrived::Until(offset)),
            // The answer to HEAD has no body that would say more.
            (status, _) => {
                Err(ClientError::Refused(Refusal { code: code_of(status), message: format!("status {status}") }))
            }
        }
    }

    /// Sends bytes of a blob.
    pub(super) fn patch(&self, path: &str, length: u64, body: &mut dyn Read) -> Result<(), ClientError> {
        self.send(self.agent.patch(self.url(path)), length, body)
    }

    /// Sends bytes of a blob, compressed.
    pub(super) fn patch_compressed(&self, path: &str, length: u64, body: &mut dyn Read) -> Result<(), ClientError> {
        self.send(self.agent.patch(self.url(path)).header("Content-Encoding", "zstd"), length, body)
    }

    /// Sends a pack.
    pub(super) fn put(&self, path: &str, length: u64, body: &mut dyn Read) -> Result<(), ClientError> {
        self.send(self.agent.put(self.url(path)), length, body)
    }

    fn send(&self, request: RequestBuilder<WithBody>, length: u64, body: &mut dyn Read) -> Result<(), ClientError> {
        let request = request.header("Authorization", &self.authorization);
        let request = request.header("Content-Length", length.to_string()).content_type("application/octet-stream");
        let request = request.config().timeout_recv_response(Some(ANSWER)).build();
        let mut answer = request.send(SendBody::from_reader(body))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(refused(answer.status(), answer.body_mut())),
        }
    }
}

/// How much of a blob the server has.
pub(super) enum Arrived {
    Whole {
        /// If the server tells it.
        size: Option<u64>,
    },
    Until(u64),
}

fn code_of(status: StatusCode) -> RefusalCode {
    match status.as_u16() {
        401 => RefusalCode::Token,
        403 => RefusalCode::Role,
        404 => RefusalCode::NotFound,
        429 => RefusalCode::Busy,
        507 => RefusalCode::DiskFull,
        400..500 => RefusalCode::Invalid,
        _ => RefusalCode::Unavailable,
    }
}

/// Returns whether the address is one without TLS, which only a loopback address may be.
fn check_url(url: &str) -> Result<bool, ClientError> {
    let bad = |reason: &str| ClientError::JoinFile(format!("'{url}': {reason}"));
    let uri: Uri = url.parse().map_err(|_| bad("not a URL"))?;
    let host = uri.host().ok_or_else(|| bad("no host"))?;
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match uri.scheme_str() {
        Some("https") => Ok(false),
        Some("http") if ip.is_ok_and(|ip| ip.is_loopback()) => Ok(true),
        _ => Err(bad("only https://, or http:// with a loopback address")),
    }
}

fn server_agent(base: &str, authorities: &str) -> Result<Agent, ClientError> {
    let is_plain = check_url(base)?;
    let tls = if is_plain { TlsConfig::default() } else { tls_config(authorities)? };
    Ok(agent(tls, CONNECT))
}

fn tls_config(authority: &str) -> Result<TlsConfig, ClientError> {
    let text = match authority {
        "" => system_authorities()?,
        authority => authority.as_bytes().to_vec(),
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| ClientError::JoinFile(error.to_string()))?;
    if certificates.is_empty() {
        return Err(ClientError::JoinFile("it has no certificate".to_owned()));
    }
    let roots: Vec<_> = certificates.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

fn system_authorities() -> Result<Vec<u8>, ClientError> {
    let chosen = std::env::var("SSL_CERT_FILE").ok();
    let mut paths = chosen.as_deref().into_iter().chain(SYSTEM_AUTHORITIES);
    let found = paths.find_map(|path| std::fs::read(path).ok());
    found.ok_or_else(|| ClientError::JoinFile("no certificates of public authorities are installed".to_owned()))
}

/// Reads a refusal. Anything that is not the server's own answer comes from something between, or from a cache.
fn refused(status: StatusCode, body: &mut Body) -> ClientError {
    let bytes = body.with_config().limit(MAX_REFUSAL).read_to_vec().unwrap_or_default();
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(&bytes) {
        return ClientError::Refused(refusal);
    }
    let message = format!("status {status}");
    match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        true => ClientError::Refused(Refusal { code: RefusalCode::Unavailable, message }),
        false => ClientError::Protocol(message),
    }
}
