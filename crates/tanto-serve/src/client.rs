//! A client's connection to a server. All calls block, and one connection serves several threads.

mod authorities;
mod blob_cache;
mod blobs;
mod error;
pub mod membership;
pub mod provision;
pub mod push;
mod resolver;
mod transport;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tanto_protocol::{
    BuildDescription, Bye, ClientAnswer, ClientRequest, Digest, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer,
    JoinAnswer, JoinFile, JoinRequest, Message, ResultAnswer, ResultReport, TreeAnswer, TreeRequest, VERSION,
    WorkAnswer, WorkRequest,
};

use self::authorities::StoredAuthorities;
use self::blob_cache::BlobCache;
use self::membership::MembershipError;
use self::transport::Transport;

pub use self::error::ClientError;

/// How long a request may take beside its own wait.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long the server may take to look for the blobs of a tree.
const TREE_PATIENCE: Duration = Duration::from_secs(600);

/// Returns a random key, the secret part of a new token. A client stores it before it joins.
pub fn random_key() -> std::io::Result<Digest> {
    tanto_sys::random::bytes().map(Digest)
}

/// Exchanges the secret of a join file for a token. A repeat with the same key gets the same token.
pub fn join(file: &JoinFile, key: Digest) -> Result<JoinAnswer, ClientError> {
    let transport = Transport::new(&file.url, &file.authority, &file.secret)?;
    let body = serde_json::to_vec(&JoinRequest { key: key.to_string() }).map_err(ClientError::protocol)?;
    let path = format!("/v{VERSION}/{}/join", file.build);
    let answer = transport.post(&path, &body, JoinAnswer::MAX_BYTES, PATIENCE)?;
    let answer: JoinAnswer = serde_json::from_slice(&answer).map_err(ClientError::protocol)?;
    answer.check().map(|()| answer).map_err(ClientError::protocol)
}

/// A client with its token.
pub struct Connection {
    /// Replaced with the authorities.
    transport: RwLock<Arc<Transport>>,
    build: String,
    authorities: Option<StoredAuthorities>,
    /// That of the last description or hello.
    cache: Mutex<Option<Arc<BlobCache>>>,
}

impl Connection {
    /// Connects with the first request.
    pub fn new(file: &JoinFile, token: &str) -> Result<Connection, ClientError> {
        let transport = RwLock::new(Arc::new(Transport::new(&file.url, &file.authority, token)?));
        Ok(Connection { transport, build: file.build.clone(), authorities: None, cache: Mutex::default() })
    }

    /// The same for a client that stays: it trusts other authorities once the server announces them, and keeps the list in
    /// its directory.
    pub fn lasting(file: &JoinFile, token: &str, dir: &Path) -> Result<Connection, MembershipError> {
        let (authority, authorities) = StoredAuthorities::open(file, dir)?;
        let connection =
            Connection::new(&JoinFile { authority, ..file.clone() }, token).map_err(|error| match &authorities {
                Some(stored) => membership::failed(stored.path())(std::io::Error::other(error)),
                None => error.into(),
            })?;
        Ok(Connection { authorities, ..connection })
    }

    fn transport(&self) -> Arc<Transport> {
        self.transport.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests the list of authorities if that is due. It does not matter when one of the requests fails.
    fn update_authorities(&self) {
        let now = Instant::now();
        let Some(stored) = self.authorities.as_ref().filter(|stored| stored.take_due(now)) else { return };
        let current = self.transport();
        let list = current.get_text(&format!("/v{VERSION}/{}/authority", self.build), authorities::MAX_LIST);
        let Some(list) = list.ok().filter(|list| !list.is_empty()) else { return };
        if list != current.authorities() {
            let Ok(transport) = current.with_authorities(&list) else { return };
            if stored.store(&list).is_err() {
                return;
            }
            *self.transport.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(transport);
        }
        stored.received(now);
    }

    /// Returns what the user has to know of the transfers since the last call.
    pub fn take_warning(&self) -> Option<String> {
        self.cache()?.take_warning()
    }

    fn cache(&self) -> Option<Arc<BlobCache>> {
        self.lock_cache().clone()
    }

    /// Notes the cache that an answer names. A description is that of another build.
    fn note_cache(&self, answer: &ClientAnswer) {
        let (url, is_new) = match answer {
            ClientAnswer::Describe(description) => (&description.blobs, true),
            ClientAnswer::Hello(hello) => (&hello.blobs, false),
            _ => return,
        };
        let mut cache = self.lock_cache();
        if is_new || cache.as_ref().map_or("", |cache| cache.url()) != url {
            *cache = (!url.is_empty()).then(|| Arc::new(BlobCache::new(url)));
        }
    }

    fn lock_cache(&self) -> MutexGuard<'_, Option<Arc<BlobCache>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and returns its answer.
    pub fn request(&self, request: &ClientRequest) -> Result<ClientAnswer, ClientError> {
        let wait = match request {
            ClientRequest::Work(work) => Duration::from_millis(work.wait_ms),
            ClientRequest::Scan(scan) => Duration::from_millis(scan.wait_ms),
            _ => Duration::ZERO,
        };
        self.ask(request, wait)
    }

    pub fn describe(&self) -> Result<BuildDescription, ClientError> {
        match self.ask(&ClientRequest::Describe, Duration::ZERO)? {
            ClientAnswer::Describe(description) => Ok(description),
            other => Err(unexpected(&other)),
        }
    }

    pub fn hello(&self, hello: Hello) -> Result<HelloAnswer, ClientError> {
        match self.ask(&ClientRequest::Hello(Box::new(hello)), Duration::ZERO)? {
            ClientAnswer::Hello(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits for leases, as long as the request says.
    pub fn work(&self, request: WorkRequest) -> Result<WorkAnswer, ClientError> {
        let wait = Duration::from_millis(request.wait_ms);
        match self.ask(&ClientRequest::Work(request), wait)? {
            ClientAnswer::Work(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    pub fn heartbeat(&self, heartbeat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        match self.ask(&ClientRequest::Heartbeat(heartbeat), Duration::ZERO)? {
            ClientAnswer::Heartbeat(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    pub fn result(&self, report: ResultReport) -> Result<ResultAnswer, ClientError> {
        match self.ask(&ClientRequest::Result(Box::new(report)), Duration::ZERO)? {
            ClientAnswer::Result(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    pub fn bye(&self, bye: Bye) -> Result<(), ClientError> {
        self.ask(&ClientRequest::Bye(bye), Duration::ZERO).map(drop)
    }

    /// Makes a tree that of the build.
    pub fn tree(&self, request: TreeRequest) -> Result<TreeAnswer, ClientError> {
        let body = serde_json::to_vec(&request).map_err(ClientError::protocol)?;
        let path = format!("/v{VERSION}/{}/tree", self.build);
        let answer = self.transport().post(&path, &body, TreeAnswer::MAX_BYTES, TREE_PATIENCE)?;
        self.update_authorities();
        let answer: TreeAnswer = serde_json::from_slice(&answer).map_err(ClientError::protocol)?;
        answer.check().map(|()| answer).map_err(ClientError::protocol)
    }

    fn ask(&self, request: &ClientRequest, wait: Duration) -> Result<ClientAnswer, ClientError> {
        let body = request.to_body().map_err(ClientError::protocol)?;
        let patience = PATIENCE.saturating_add(wait);
        let answer = self.transport().post(&request.path(&self.build), &body, ClientAnswer::MAX_BYTES, patience)?;
        let answer = ClientAnswer::from_body(request, &answer).map_err(ClientError::protocol)?;
        self.note_cache(&answer);
        self.update_authorities();
        Ok(answer)
    }
}

/// `from_body` returns the kind of the request.
fn unexpected(answer: &ClientAnswer) -> ClientError {
    ClientError::Protocol(format!("unexpected answer {answer:?}"))
}
