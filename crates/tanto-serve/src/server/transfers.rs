//! Reads of blobs: which are missing, and single ones.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE};
use hyper::{Request, Response, StatusCode};
use tanto_protocol::{Digest, MAX_DIGESTS, RefusalCode};
use tokio::task::JoinHandle;

use super::answer::{self, Answer, Refused};
use super::connection::Peer;
use super::requests::{BLOB_ROLES, READ_ROLES, Shared, invalid, permit, read_body, storage_failed, verify};
use super::route::byte_range;
use crate::blobs::{BlobReader, Blobs};

/// Longest list of them as JSON, with spaces.
const MAX_LIST: usize = MAX_DIGESTS * 72;
/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Reads a list of digests.
pub(super) async fn digests(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: Request<Incoming>,
) -> Result<Vec<tanto_cas::Digest>, Refused> {
    permit(&verify(shared, peer, build, &request)?, &BLOB_ROLES)?;
    let (body, _share) = read_body(shared, request, MAX_LIST).await?;
    let digests: Vec<Digest> = serde_json::from_slice(&body).map_err(|error| invalid(&error))?;
    if digests.len() > MAX_DIGESTS {
        return Err(Refused::new(RefusalCode::Invalid, format!("more than {MAX_DIGESTS} digests")));
    }
    Ok(digests.into_iter().map(|digest| tanto_cas::Digest(digest.0)).collect())
}

pub(super) async fn missing(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let digests = digests(shared, peer, build, request).await?;
    let missing = blocking(shared, build, move |blobs, build| blobs.missing(build, &digests)).await?;
    let missing: Vec<Digest> = missing.into_iter().map(|digest| Digest(digest.0)).collect();
    Ok(answer::json(StatusCode::OK, serde_json::to_vec(&missing).map_err(|error| invalid(&error))?))
}

/// Runs work on files in another thread.
pub(super) async fn blocking<T: Send + 'static, E: std::error::Error + Send + 'static>(
    shared: &Shared,
    build: &str,
    work: impl FnOnce(&Blobs, &str) -> Result<T, E> + Send + 'static,
) -> Result<T, Refused> {
    let (blobs, build) = (shared.blobs.clone(), build.to_owned());
    let done = tokio::task::spawn_blocking(move || work(&blobs, &build)).await;
    done.map_err(|error| storage_failed(shared, &error))?.map_err(|error| storage_failed(shared, &error))
}

pub(super) async fn get(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    digest: Digest,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    permit(&verify(shared, peer, build, &request)?, &READ_ROLES)?;
    let range = request.headers().get(RANGE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let opened = blocking(shared, build, move |blobs, build| {
        let digest = tanto_cas::Digest(digest.0);
        let Some(reader) = blobs.read(build, digest, 0)? else { return Ok(None) };
        let size = reader.size();
        Ok::<_, tanto_cas::StoreError>(match byte_range(&range, size) {
            Ok(Some((first, last))) if first > 0 => {
                blobs.read(build, digest, first)?.map(|reader| (reader, size, Ok(Some((first, last)))))
            }
            range => Some((reader, size, range)),
        })
    });
    let not_found = || Refused::new(RefusalCode::NotFound, format!("there is no blob {digest}"));
    let (reader, size, range) = opened.await?.ok_or_else(not_found)?;
    let Ok(range) = range else {
        let mut answer = Response::new(answer::whole(Vec::new()));
        *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
        answer.headers_mut().insert(CONTENT_RANGE, header(format!("bytes */{size}")));
        return Ok(answer);
    };
    let left = range.map_or(size, |(first, last)| last - first + 1);
    shared.metrics.sent_bytes.fetch_add(left, Ordering::Relaxed);
    let body = BlobBody { blobs: shared.blobs.clone(), left, state: ReadState::Idle(Box::new(reader)) };
    let mut answer = Response::new(body.boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, left.into());
    if let Some((first, last)) = range {
        headers.insert(CONTENT_RANGE, header(format!("bytes {first}-{last}/{size}")));
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(answer)
}

pub(super) fn header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

type Read = (Box<BlobReader>, std::io::Result<Vec<u8>>);

enum ReadState {
    Idle(Box<BlobReader>),
    Reading(JoinHandle<Read>),
    Over,
}

/// The bytes of a blob, read in pieces by other threads. An error cuts the connection, so that the client notices.
struct BlobBody {
    blobs: Arc<Blobs>,
    left: u64,
    state: ReadState,
}

impl BlobBody {
    fn start(&self, mut reader: Box<BlobReader>) -> JoinHandle<Read> {
        let blobs = self.blobs.clone();
        tokio::task::spawn_blocking(move || {
            let read = blobs.read_next(&mut reader, CHUNK);
            (reader, read)
        })
    }
}

impl Body for BlobBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.state = match std::mem::replace(&mut self.state, ReadState::Over) {
            ReadState::Idle(reader) => ReadState::Reading(self.start(reader)),
            other => other,
        };
        let ReadState::Reading(reading) = &mut self.state else { return Poll::Ready(None) };
        let (reader, read) = match ready!(Pin::new(reading).poll(context)) {
            Ok(done) => done,
            Err(error) => return Poll::Ready(Some(Err(std::io::Error::other(error)))),
        };
        self.state = ReadState::Idle(reader);
        let mut chunk = Bytes::from(read?);
        chunk.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= chunk.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
