//! Package trees that are pushed.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tanto_protocol::{Digest, Message, PushedTree, RefusalCode, Role, TreeAnswer, TreeRequest};

use super::answer::{self, Answer, Refused};
use super::connection::Peer;
use super::requests::{Shared, invalid, permit, read_body, storage_failed, verify};
use super::uploads::store_refused;
use crate::blobs::PushedTreeError;

/// Makes a tree that of the build, if all its blobs are there.
pub(super) async fn push(
    shared: &Shared,
    peer: &Peer,
    build: &str,
    request: Request<Incoming>,
) -> Result<Answer, Refused> {
    let identity = verify(shared, peer, build, &request)?;
    permit(&identity, &[Role::Tree])?;
    let (body, _share) = read_body(shared, request, TreeRequest::MAX_BYTES).await?;
    let TreeRequest { manifest } = serde_json::from_slice(&body).map_err(|error| invalid(&error))?;
    let tree = PushedTree { manifest, name: identity.name };
    let line = format!("build '{build}': '{}' has pushed the package tree {manifest}", tree.name);
    let (blobs, build) = (shared.blobs.clone(), build.to_owned());
    let pushed = tokio::task::spawn_blocking(move || blobs.push_tree(&build, &tree)).await;
    let missing = pushed.map_err(|error| storage_failed(shared, &error))?.map_err(|error| refused(shared, error))?;
    let answer = match missing.is_empty() {
        true => {
            (shared.options.log)(&line);
            TreeAnswer::Accepted
        }
        false => TreeAnswer::Missing { digests: missing.into_iter().map(|digest| Digest(digest.0)).collect() },
    };
    Ok(answer::json(StatusCode::OK, serde_json::to_vec(&answer).map_err(|error| invalid(&error))?))
}

fn refused(shared: &Shared, error: PushedTreeError) -> Refused {
    match error {
        PushedTreeError::Manifest(error) => {
            Refused::new(RefusalCode::Invalid, format!("this is no manifest of a package tree: {error}"))
        }
        PushedTreeError::Store(error) => store_refused(shared, &error),
        PushedTreeError::File(error) => storage_failed(shared, &error),
    }
}
