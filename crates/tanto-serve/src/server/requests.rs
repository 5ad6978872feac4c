//! Answers requests: verifies the token and the role, reads the body, and relays or answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tanto_protocol::{ClientAnswer, ClientRequest, JoinRequest, Message, RefusalCode, Role};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Options;
use super::addresses::Addresses;
use super::answer::{self, Answer, Refused};
use super::builds::Builds;
use super::connection::Peer;
use super::metrics::Metrics;
use super::packs;
use super::route::{BlobMethod, Route, RouteError};
use super::transfers::{self, blocking};
use super::trees;
use super::uploads::{self, Uploads};
use crate::blobs::Blobs;
use crate::server_dir;
use crate::tokens::{self, Identity, TokenError, TokenTable};

/// The roles of clients that take part in a build.
const CLIENT_ROLES: [Role; 2] = [Role::Build, Role::Scan];
/// The roles that read and write blobs.
pub(super) const BLOB_ROLES: [Role; 3] = [Role::Build, Role::Scan, Role::Tree];
/// The roles that read single blobs.
pub(super) const READ_ROLES: [Role; 4] = [Role::Build, Role::Scan, Role::Tree, Role::Read];

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) tokens: Arc<TokenTable>,
    pub(super) builds: Builds,
    pub(super) addresses: Arc<Addresses>,
    pub(super) metrics: Metrics,
    pub(super) blobs: Arc<Blobs>,
    pub(super) uploads: Uploads,
    /// Free memory for bodies, in bytes.
    pub(super) bodies: Arc<Semaphore>,
}

pub(super) async fn answer(shared: &Arc<Shared>, peer: &Peer, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let (name, answered) = match Route::of(request.method(), &path) {
        Ok((build, route)) => (route.name(), answer_route(shared, peer, build, route, request).await),
        Err(RouteError::NotFound) => ("other", Err(refuse_path(shared, peer))),
        Err(RouteError::Method(only)) => ("other", Ok(refuse_method(only))),
    };
    let answer = answered.unwrap_or_else(|refused| refused.answer());
    shared.metrics.count(name, answer.status().as_u16());
    answer
}

/// Unknown paths count as failed logins, so that an address cannot search for paths.
fn refuse_path(shared: &Shared, peer: &Peer) -> Refused {
    failed_login(shared, peer, Refused::new(RefusalCode::NotFound, "no such path"))
}

fn refuse_method(only: &'static str) -> Answer {
    let refused = Refused::new(RefusalCode::Invalid, format!("permitted: {only}"));
    let mut answer = refused.with_status(StatusCode::METHOD_NOT_ALLOWED).answer();
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(only));
    answer
}

async fn answer_route(
    shared: &Arc<Shared>,
    peer: &Peer,
    build: &str,
    route: Route,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    match route {
        Route::Join => join(shared, peer, build, request).await,
        Route::Relay(name) => relay(shared, peer, build, name, request).await,
        Route::Missing => transfers::missing(shared, peer, build, request).await,
        Route::GetPack => packs::get(shared, peer, build, request).await,
        Route::PutPack => packs::put(shared, peer, build, request).await,
        Route::Blob(digest, BlobMethod::Get) => transfers::get(shared, peer, build, digest, request).await,
        Route::Blob(digest, BlobMethod::Head) => uploads::head(shared, peer, build, digest, request).await,
        Route::Blob(digest, BlobMethod::Put) => uploads::put(shared, peer, build, digest, request).await,
        Route::Blob(digest, BlobMethod::Patch) => uploads::patch(shared, peer, build, digest, request).await,
        Route::Tree => trees::push(shared, peer, build, request).await,
        Route::Authority => {
            permit(&verify(shared, peer, build, &request)?, &READ_ROLES)?;
            let trusted = server_dir::trusted_authorities(&shared.options.dir);
            let trusted = trusted.map_err(|error| storage_failed(shared, &error))?;
            let mut answer = Response::new(answer::whole(trusted.into_bytes()));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-pem-file"));
            Ok(answer)
        }
        Route::Metrics => {
            let identity = verify(shared, peer, build, &request)?;
            permit(&identity, &[Role::Watch])?;
            let link = shared.builds.link(build);
            let text = shared.metrics.text(build, link.as_deref());
            let mut answer = Response::new(answer::whole(text.into_bytes()));
            let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            Ok(answer)
        }
    }
}

fn bearer(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Returns the client if its token is valid for the build.
pub(super) fn verify(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: &Request<Incoming>,
) -> Result<Identity, Refused> {
    let token = bearer(request).unwrap_or_default();
    let refused = || Refused::new(RefusalCode::Token, "the token is missing, unknown, expired or revoked");
    let found = shared.tokens.verify(&token).map_err(|error| storage_failed(shared, &error))?;
    let identity = found.filter(|identity| identity.build == build);
    let identity = identity.ok_or_else(|| failed_login(shared, peer, refused()))?;
    peer.set_verified();
    if peer.paced() { Ok(identity) } else { Err(Refused::new(RefusalCode::Busy, "too many requests")) }
}

fn failed_login(shared: &Shared, peer: &Peer, refused: Refused) -> Refused {
    match shared.addresses.failed(peer.ip, Instant::now()) {
        true => refused,
        false => Refused::new(RefusalCode::Busy, "too many failed logins from this address").closing(),
    }
}

/// Failures of the server's files are for its operator, not for clients.
pub(super) fn storage_failed(shared: &Shared, error: &dyn std::error::Error) -> Refused {
    (shared.options.log)(&error.to_string());
    Refused::new(RefusalCode::Unavailable, "the server cannot read or write its files")
}

pub(super) fn permit(identity: &Identity, roles: &[Role]) -> Result<(), Refused> {
    if roles.iter().any(|role| identity.roles.permit(*role)) {
        return Ok(());
    }
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    let has = &identity.roles;
    let message = format!("this needs the role {}; the token of '{}' has: {has}", names.join(" or "), identity.name);
    Err(Refused::new(RefusalCode::Role, message))
}

/// Waits for memory for bodies.
pub(super) async fn memory(shared: &Shared, bytes: u64) -> Result<OwnedSemaphorePermit, Refused> {
    let memory = shared.bodies.clone().acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
    match tokio::time::timeout(shared.options.limits.stall, memory).await {
        Ok(Ok(share)) => Ok(share),
        _ => Err(Refused::new(RefusalCode::Busy, "the server is busy").closing()),
    }
}

/// Reads a body of at most `max` bytes, whose length is announced. The second value is its share of the memory.
pub(super) async fn read_body(
    shared: &Shared,
    request: Request<Incoming>,
    max: usize,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), Refused> {
    read_compressed(shared, request, max, 0).await
}

/// Like `read_body`. The share includes memory for the content. Taking both at once cannot block others who have half.
pub(super) async fn read_compressed(
    shared: &Shared,
    request: Request<Incoming>,
    max: usize,
    content: u64,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), Refused> {
    let stall = shared.options.limits.stall;
    let mut body = request.into_body();
    let Some(length) = body.size_hint().exact() else {
        let refused = Refused::new(RefusalCode::Invalid, "Content-Length is missing");
        return Err(refused.with_status(StatusCode::LENGTH_REQUIRED).closing());
    };
    if length > max as u64 {
        let refused = Refused::new(RefusalCode::Invalid, format!("the body has more than {max} bytes"));
        return Err(refused.with_status(StatusCode::PAYLOAD_TOO_LARGE).closing());
    }
    let share = memory(shared, length + content).await?;
    let mut bytes = Vec::with_capacity(length as usize);
    loop {
        match tokio::time::timeout(stall, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Ok(Some(Err(_))) => return Err(Refused::new(RefusalCode::Invalid, "the body is incomplete").closing()),
            Err(_) => {
                let refused = Refused::new(RefusalCode::Busy, "the body does not arrive");
                return Err(refused.with_status(StatusCode::REQUEST_TIMEOUT).closing());
            }
        }
    }
    shared.metrics.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok((bytes, share))
}

async fn join(shared: &Shared, peer: &Peer, build: &str, request: Request<Incoming>) -> Result<Answer, Refused> {
    let secret = bearer(&request).unwrap_or_default();
    let (body, _share) = read_body(shared, request, JoinRequest::MAX_BYTES).await?;
    let asked: JoinRequest = serde_json::from_slice(&body).map_err(|error| invalid(&error))?;
    let key = asked.key.parse().map_err(|error| invalid(&error))?;
    let (dir, name) = (shared.options.dir.clone(), build.to_owned());
    let joined = tokio::task::spawn_blocking(move || tokens::join(&dir, &name, &secret, key)).await;
    match joined.map_err(|error| storage_failed(shared, &error))? {
        Ok(answer) => {
            peer.set_verified();
            (shared.options.log)(&format!("build '{build}': client '{}' has joined from {}", answer.name, peer.ip));
            Ok(answer::json(StatusCode::OK, serde_json::to_vec(&answer).map_err(|error| invalid(&error))?))
        }
        Err(error @ (TokenError::Secret | TokenError::Used(_))) => {
            Err(failed_login(shared, peer, Refused::new(RefusalCode::Token, error.to_string())))
        }
        Err(error) => Err(storage_failed(shared, &error)),
    }
}

pub(super) fn invalid(error: &dyn std::error::Error) -> Refused {
    Refused::new(RefusalCode::Invalid, error.to_string())
}

/// Most bytes of a request by its name: only results and heartbeats of many leases are long.
fn max_body(name: &str) -> usize {
    match name {
        "heartbeat" | "result" => ClientRequest::MAX_BYTES,
        "hello" => 2 << 20,
        _ => 4_096,
    }
}

async fn relay(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    name: &'static str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let token = bearer(&request).unwrap_or_default();
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, if name == "scan" { &[Role::Scan] } else { &CLIENT_ROLES })?;
    if name == "work" && is_short(shared, build).await? {
        let message = "the server has no room for results: it hands out no packages";
        return Err(Refused::new(RefusalCode::DiskFull, message).closing());
    }
    let (body, share) = read_body(shared, request, max_body(name)).await?;
    let parsed = ClientRequest::from_body(name, &body);
    let mut asked =
        parsed.ok_or_else(|| Refused::new(RefusalCode::NotFound, "no such path"))?.map_err(|error| invalid(&error))?;
    drop((body, share));
    let patience = prepare(shared, &identity, &mut asked)?;
    let no_link = || Refused::new(RefusalCode::Unavailable, "no coordinator of this build is known");
    let link = shared.builds.link(build).ok_or_else(no_link)?;
    let answer = link.ask(identity.token(), asked, patience).await?;
    // It may have been revoked during a long wait.
    if shared.tokens.verify(&token).map_err(|error| storage_failed(shared, &error))?.is_none() {
        return Err(Refused::new(RefusalCode::Token, "the token was revoked"));
    }
    if let ClientAnswer::Refused(refusal) = answer {
        return Err(refusal.into());
    }
    Ok(answer::json(StatusCode::OK, answer.to_body().map_err(|error| invalid(&error))?))
}

async fn is_short(shared: &Shared, build: &str) -> Result<bool, Refused> {
    let had_plenty = shared.blobs.had_plenty_of_room(0);
    Ok(!had_plenty && blocking(shared, build, |blobs, _| Ok::<_, Infallible>(blobs.is_short())).await?)
}

/// Checks the name of a new client, and limits its waits. Returns how long the coordinator may take.
fn prepare(shared: &Shared, identity: &Identity, request: &mut ClientRequest) -> Result<Duration, Refused> {
    let limits = &shared.options.limits;
    match request {
        ClientRequest::Hello(hello) if hello.name != identity.name => {
            let message = format!("the token belongs to '{}', not to '{}'", identity.name, hello.name);
            Err(Refused::new(RefusalCode::Role, message))
        }
        ClientRequest::Work(work) => {
            work.wait_ms = work.wait_ms.min(limits.wait.as_millis() as u64);
            Ok(Duration::from_millis(work.wait_ms) + limits.answer)
        }
        ClientRequest::Scan(scan) => {
            scan.wait_ms = scan.wait_ms.min(limits.wait.as_millis() as u64);
            Ok(Duration::from_millis(scan.wait_ms) + limits.answer)
        }
        _ => Ok(limits.answer),
    }
}
