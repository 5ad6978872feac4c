//! Uploads of blobs, whole or in parts. What has arrived is kept when a connection breaks.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tanto_cas::store::UploadOwner;
use tanto_cas::{BlobInfo, StoreError};
use tanto_protocol::{Digest, MAX_PART, RefusalCode};

use super::answer::{self, Answer, Refused};
use super::connection::Peer;
use super::requests::{BLOB_ROLES, Shared, invalid, permit, read_compressed, storage_failed, verify};
use super::route::query_number;
use super::transfers::{blocking, header};
use crate::blobs::{MAX_WINDOW, decompress};
use crate::tokens::Identity;

/// Bytes that are written at a time.
const CHUNK: usize = 1 << 20;
/// Longest compressed part: zstd makes what cannot be compressed slightly longer.
const MAX_COMPRESSED: usize = MAX_PART as usize + (1 << 20);
/// The header with the bytes of an upload that have arrived.
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");

/// Running uploads by token.
#[derive(Default)]
pub(super) struct Uploads {
    running: Arc<Mutex<HashMap<String, usize>>>,
}

/// A running upload.
pub(super) struct Running {
    running: Arc<Mutex<HashMap<String, usize>>>,
    token: String,
}

impl Uploads {
    /// `None` if the client has too many.
    fn start(&self, token: &str, most: usize) -> Option<Running> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let count = running.entry(token.to_owned()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Running { running: self.running.clone(), token: token.to_owned() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.token);
            }
        }
    }
}

/// Partial uploads belong to a token.
fn owner(identity: &Identity) -> UploadOwner {
    let digest: [u8; 32] = Sha256::digest(&identity.id).into();
    *digest.first_chunk().unwrap_or(&[0; 16])
}

fn number(request: &Request<Incoming>, name: &str) -> Result<Option<u64>, Refused> {
    let number = query_number(request.uri().query().unwrap_or_default(), name);
    number.map_err(|()| Refused::new(RefusalCode::Invalid, format!("'{name}' is not a number")))
}

fn info(shared: &Shared, digest: Digest, size: u64) -> Result<BlobInfo, Refused> {
    if size > shared.options.limits.blob {
        let refused = Refused::new(RefusalCode::Invalid, format!("larger than {} bytes", shared.options.limits.blob));
        return Err(refused.with_status(StatusCode::PAYLOAD_TOO_LARGE).closing());
    }
    Ok(BlobInfo { digest: tanto_cas::Digest(digest.0), size })
}

/// Whether a blob is there. With `size`, how much of its upload has arrived.
pub(super) async fn head(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    digest: Digest,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, &BLOB_ROLES)?;
    let size = number(&request, "size")?.map(|size| info(shared, digest, size)).transpose()?;
    let found = blocking(shared, build, move |blobs, build| {
        let reader = blobs.read(build, tanto_cas::Digest(digest.0), 0)?;
        Ok::<_, StoreError>(reader.map(|reader| reader.size()))
    });
    let mut answer = Response::new(answer::whole(Vec::new()));
    if let Some(length) = found.await? {
        answer.headers_mut().insert(CONTENT_LENGTH, length.into());
        return Ok(answer);
    }
    *answer.status_mut() = StatusCode::NOT_FOUND;
    if let Some(size) = size {
        let arrived = store(shared, move |blobs| blobs.uploaded(&owner(&identity), &size)).await?;
        answer.headers_mut().insert(OFFSET, header(arrived.to_string()));
    }
    Ok(answer)
}

/// Receives a whole blob. What arrived in an earlier upload is skipped.
pub(super) async fn put(
    shared: &Arc<Shared>,
    peer: &Peer,
    build: &str,
    digest: Digest,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, &BLOB_ROLES)?;
    let blob = info(shared, digest, length(&request)?)?;
    if encoding(&request)? != Encoding::Identity {
        return Err(unknown_encoding("a whole blob cannot be compressed"));
    }
    receive(shared, &identity, blob, None, request).await
}

/// Receives the bytes of a blob from an offset on.
pub(super) async fn patch(
    shared: &Arc<Shared>,
    peer: &Peer,
    build: &str,
    digest: Digest,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, &BLOB_ROLES)?;
    let needed = |name| Refused::new(RefusalCode::Invalid, format!("'{name}' is missing"));
    let at = number(&request, "at")?.ok_or_else(|| needed("at"))?;
    let size = number(&request, "size")?.ok_or_else(|| needed("size"))?;
    let blob = info(shared, digest, size)?;
    let is_plain = encoding(&request)? == Encoding::Identity;
    if is_plain && at.checked_add(length(&request)?).is_none_or(|end| end > size) {
        return Err(Refused::new(RefusalCode::Invalid, "the bytes end after the blob").closing());
    }
    receive(shared, &identity, blob, Some(at), request).await
}

/// How the bytes of a body are encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Zstd,
}

fn encoding(request: &Request<Incoming>) -> Result<Encoding, Refused> {
    match request.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"zstd") => Ok(Encoding::Zstd),
        Some(_) => Err(unknown_encoding("the only Content-Encoding is zstd")),
    }
}

fn unknown_encoding(message: &str) -> Refused {
    Refused::new(RefusalCode::Invalid, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE).closing()
}

fn length(request: &Request<Incoming>) -> Result<u64, Refused> {
    request.body().size_hint().exact().ok_or_else(|| {
        let refused = Refused::new(RefusalCode::Invalid, "Content-Length is missing");
        refused.with_status(StatusCode::LENGTH_REQUIRED).closing()
    })
}

async fn receive(
    shared: &Arc<Shared>,
    identity: &Identity,
    blob: BlobInfo,
    at: Option<u64>,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let running = start(shared, identity)?;
    if store(shared, move |blobs| blobs.contains(&blob.digest)).await? {
        return Ok(accepted(StatusCode::OK, blob.size));
    }
    has_room(shared, blob.size).await?;
    let owner = owner(identity);
    let encoding = encoding(&request)?;
    // In a task of its own, what has arrived is written also if the client goes away.
    let received = tokio::spawn({
        let shared = shared.clone();
        async move {
            let _running = running;
            match encoding {
                Encoding::Identity => receive_body(&shared, owner, blob, at, request.into_body()).await,
                Encoding::Zstd => receive_compressed(&shared, owner, blob, at.unwrap_or(0), request).await,
            }
        }
    });
    let arrived = received.await.map_err(|error| storage_failed(shared, &error))??;
    Ok(accepted(if arrived == blob.size { StatusCode::CREATED } else { StatusCode::ACCEPTED }, arrived))
}

/// Counts a running upload.
pub(super) fn start(shared: &Shared, identity: &Identity) -> Result<Running, Refused> {
    let most = shared.options.limits.uploads;
    let too_many = || Refused::new(RefusalCode::Busy, format!("more than {most} uploads")).closing();
    shared.uploads.start(&identity.id, most).ok_or_else(too_many)
}

pub(super) async fn has_room(shared: &Shared, bytes: u64) -> Result<(), Refused> {
    let has_room =
        shared.blobs.had_plenty_of_room(bytes) || store(shared, move |blobs| Ok(blobs.has_room(bytes))).await?;
    match has_room {
        true => Ok(()),
        false => Err(Refused::new(RefusalCode::DiskFull, "the server's disk is full").closing()),
    }
}

/// Receives a compressed part of a blob. It is added as a whole.
async fn receive_compressed(
    shared: &Shared,
    owner: UploadOwner,
    blob: BlobInfo,
    at: u64,
    request: Request<Incoming>,
) -> Result<u64, Refused> {
    let (body, _share) = read_compressed(shared, request, MAX_COMPRESSED, MAX_PART + MAX_WINDOW).await?;
    let limit = MAX_PART.min(blob.size.saturating_sub(at));
    let bytes = tokio::task::spawn_blocking(move || decompress(&body, limit)).await;
    let bytes = bytes.map_err(|error| storage_failed(shared, &error))?.map_err(|error| invalid(&error))?;
    store(shared, move |blobs| blobs.append(&owner, &blob, at, &bytes)).await
}

async fn receive_body(
    shared: &Shared,
    owner: UploadOwner,
    blob: BlobInfo,
    at: Option<u64>,
    mut body: Incoming,
) -> Result<u64, Refused> {
    let arrived = store(shared, move |blobs| blobs.uploaded(&owner, &blob)).await?;
    let mut at = at.unwrap_or(arrived);
    // Of a whole blob, the bytes that arrived before.
    let mut skip = if at == arrived && body.size_hint().exact() == Some(blob.size) { arrived } else { 0 };
    if at != arrived {
        return Err(store_refused(shared, &StoreError::Offset { length: arrived }));
    }
    loop {
        let (chunk, ended) = next_chunk(shared, &mut body, &mut skip).await;
        // All bytes may have arrived before, without being accepted.
        if !chunk.is_empty() || at == blob.size {
            shared.metrics.received_bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            at = store(shared, move |blobs| blobs.append(&owner, &blob, at, &chunk)).await?;
        }
        if at == blob.size || ended? {
            return Ok(at);
        }
    }
}

/// Reads up to a chunk. Returns whether the body has ended, or why it has not arrived.
async fn next_chunk(shared: &Shared, body: &mut Incoming, skip: &mut u64) -> (Vec<u8>, Result<bool, Refused>) {
    let mut chunk = Vec::new();
    while chunk.len() < CHUNK {
        let frame = match tokio::time::timeout(shared.options.limits.stall, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return (chunk, Ok(true)),
            Ok(Some(Err(_))) => {
                return (chunk, Err(Refused::new(RefusalCode::Invalid, "the body is incomplete").closing()));
            }
            Err(_) => {
                let refused = Refused::new(RefusalCode::Busy, "the body does not arrive");
                return (chunk, Err(refused.with_status(StatusCode::REQUEST_TIMEOUT).closing()));
            }
        };
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let skipped = data.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
        *skip -= skipped as u64;
        chunk.extend_from_slice(&data[skipped..]);
    }
    (chunk, Ok(false))
}

fn accepted(status: StatusCode, arrived: u64) -> Answer {
    let mut answer = Response::new(answer::whole(Vec::new()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(OFFSET, header(arrived.to_string()));
    answer
}

/// Works with the store in another thread, and words its errors for clients.
async fn store<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&crate::blobs::Blobs) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refused> {
    let blobs = shared.blobs.clone();
    let done = tokio::task::spawn_blocking(move || work(&blobs)).await;
    done.map_err(|error| storage_failed(shared, &error))?.map_err(|error| store_refused(shared, &error))
}

pub(super) fn store_refused(shared: &Shared, error: &StoreError) -> Refused {
    let with = |code| Refused::new(code, error.to_string());
    match error {
        StoreError::Offset { length } => {
            let refused = with(RefusalCode::Invalid).with_status(StatusCode::CONFLICT).closing();
            Refused { offset: Some(*length), ..refused }
        }
        StoreError::Mismatch { .. } => with(RefusalCode::Invalid).with_status(StatusCode::UNPROCESSABLE_ENTITY),
        StoreError::TooLarge { .. } => with(RefusalCode::Invalid).with_status(StatusCode::PAYLOAD_TOO_LARGE).closing(),
        StoreError::Busy(_) | StoreError::Uploads { .. } | StoreError::UploadQuota { .. } => {
            with(RefusalCode::Busy).closing()
        }
        StoreError::Quota { .. } | StoreError::NoSpace(_) => with(RefusalCode::DiskFull).closing(),
        _ => storage_failed(shared, error),
    }
}
