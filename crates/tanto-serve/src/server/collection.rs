//! Removes blobs that no build needs, from time to time.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tanto_cas::StoreError;
use tanto_cas::store::Collected;

use super::requests::Shared;
use crate::link::Link;

/// Longest and shortest time between two collections.
const INTERVAL: Duration = Duration::from_secs(600);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks whether all coordinators have answered.
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
enum CollectionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the coordinator of build '{0}' does not say which blobs it needs")]
    Silent(String),
    #[error("the work was canceled")]
    Canceled,
}

/// Collects until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    let interval = INTERVAL.min(shared.options.limits.keep_blobs / 2).max(SHORTEST_INTERVAL);
    let mut last = String::new();
    for epoch in 1.. {
        tokio::time::sleep(interval).await;
        match collect(&shared, epoch).await {
            Ok(Collected { removed_blobs: 0, .. }) => last.clear(),
            Ok(removed) => {
                last.clear();
                let mib = removed.removed_bytes.div_ceil(1 << 20);
                (shared.options.log)(&format!(
                    "removed {} blobs that no build needs, {mib} MiB",
                    removed.removed_blobs
                ));
            }
            Err(error) if error.to_string() == last => {}
            Err(error) => {
                last = error.to_string();
                (shared.options.log)(&format!("blobs are not removed: {last}"));
            }
        }
    }
}

/// Asks all coordinators that are linked which blobs they need, and removes others. Without an answer, nothing is removed.
async fn collect(shared: &Shared, number: u64) -> Result<Collected, CollectionError> {
    let blobs = shared.blobs.clone();
    let begun = tokio::task::spawn_blocking(move || blobs.begin_epoch()).await;
    let epoch = begun.map_err(|_| CollectionError::Canceled)??;
    let links = shared.builds.links();
    let asked = links.iter().filter(|(_, link)| link.ask_roots(number));
    wait(shared, number, &asked.collect()).await?;
    let entries = shared.options.dir.join("builds");
    let blobs = shared.blobs.clone();
    let removed = tokio::task::spawn_blocking(move || blobs.collect(epoch, &builds(&entries)?));
    Ok(removed.await.map_err(|_| CollectionError::Canceled)??)
}

/// The builds whose state directories exist.
fn builds(entries: &Path) -> std::io::Result<HashSet<String>> {
    let mut builds = HashSet::new();
    for entry in std::fs::read_dir(entries)? {
        let entry = entry?;
        if entry.path().try_exists()?
            && let Ok(name) = entry.file_name().into_string()
        {
            builds.insert(name);
        }
    }
    Ok(builds)
}

/// Waits until all have answered. Fails if one does not, or if its link ends.
async fn wait(shared: &Shared, number: u64, asked: &HashMap<&String, &Arc<Link>>) -> Result<(), CollectionError> {
    let begun = Instant::now();
    for (build, link) in asked {
        while !shared.blobs.has_roots(build, number) {
            if !link.is_up() || begun.elapsed() > shared.options.limits.answer {
                return Err(CollectionError::Silent((*build).clone()));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}
