//! Packs: many small blobs in one stream, compressed with zstd, in both directions.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tanto_cas::pack::PackError;
use tanto_protocol::{MAX_PACK, RefusalCode};
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{self, Answer, Refused};
use super::connection::Peer;
use super::requests::{BLOB_ROLES, Shared, memory, permit, read_compressed, storage_failed, verify};
use super::transfers::{blocking, digests};
use super::uploads::{has_room, start, store_refused};
use crate::blobs::MAX_WINDOW;

/// Longest compressed pack: zstd makes what cannot be compressed slightly longer.
const MAX_COMPRESSED: usize = MAX_PACK as usize + (1 << 20);

/// Sends the blobs of a list.
pub(super) async fn get(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let digests = digests(shared, peer, build, request).await?;
    let share = memory(shared, MAX_PACK).await?;
    let bytes = blocking(shared, build, move |blobs, build| blobs.pack(build, &digests)).await?;
    shared.metrics.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let mut answer = Response::new(Held { body: answer::whole(bytes), _share: share }.boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/zstd"));
    Ok(answer)
}

/// Adds the blobs of a pack. Those before a broken one stay.
pub(super) async fn put(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, &BLOB_ROLES)?;
    let running = start(shared, &identity)?;
    has_room(shared, MAX_PACK).await?;
    let (body, share) = read_compressed(shared, request, MAX_COMPRESSED, MAX_WINDOW).await?;
    let blobs = shared.blobs.clone();
    // The work continues if the client goes away.
    let unpack = move || (blobs.unpack(&body), drop((running, share))).0;
    let added = tokio::task::spawn_blocking(unpack).await;
    added.map_err(|error| storage_failed(shared, &error))?.map_err(|error| refused(shared, error))?;
    let mut answer = Response::new(answer::whole(Vec::new()));
    *answer.status_mut() = StatusCode::CREATED;
    Ok(answer)
}

fn refused(shared: &Shared, error: PackError) -> Refused {
    let status = match error {
        PackError::Store(error) => return store_refused(shared, &error),
        PackError::Mismatch(_) => StatusCode::UNPROCESSABLE_ENTITY,
        PackError::TooManyBlobs(_) | PackError::BlobTooLarge { .. } | PackError::TooLarge(_) => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        // The pack is in memory: zstd does not understand it.
        PackError::Malformed(_) | PackError::Truncated | PackError::Io(_) | PackError::Changed(_) => {
            StatusCode::BAD_REQUEST
        }
    };
    Refused::new(RefusalCode::Invalid, error.to_string()).with_status(status)
}

/// A body with its share of the memory, until it is sent.
struct Held {
    body: answer::Body,
    _share: OwnedSemaphorePermit,
}

impl Body for Held {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
