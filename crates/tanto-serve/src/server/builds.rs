//! The builds that are served: the entries of `builds/`, and a link to the coordinator of each.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tanto_protocol::{ToServer, is_client_name};
use tokio::task::JoinHandle;

use super::requests::Shared;
use crate::link::Link;

/// Most builds of a server.
const MAX_BUILDS: usize = 64;
/// How often the entries are read.
const INTERVAL: Duration = Duration::from_millis(500);

/// How often abandoned uploads are removed.
const CLEAN_INTERVAL: Duration = Duration::from_secs(3_600);

#[derive(Default)]
pub(super) struct Builds {
    links: Mutex<HashMap<String, Arc<Link>>>,
}

impl Builds {
    pub(super) fn link(&self, build: &str) -> Option<Arc<Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).get(build).cloned()
    }

    /// Returns all links by build.
    pub(super) fn links(&self) -> HashMap<String, Arc<Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Ends its task when dropped.
struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps a link for each entry.
pub(super) async fn follow(shared: Arc<Shared>) {
    let dir = shared.options.dir.join("builds");
    let mut tasks: HashMap<String, Following> = HashMap::new();
    let mut cleaned: Option<Instant> = None;
    loop {
        if cleaned.is_none_or(|at| at.elapsed() >= CLEAN_INTERVAL) {
            cleaned = Some(Instant::now());
            clean(&shared);
        }
        if let Ok(names) = names(&dir) {
            tasks.retain(|name, _| names.contains(name));
            for name in names {
                tasks.entry(name).or_insert_with_key(|name| Following(start(&shared, name)));
            }
            let mut links = shared.builds.links.lock().unwrap_or_else(PoisonError::into_inner);
            links.retain(|name, _| tasks.contains_key(name));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Removes abandoned uploads.
fn clean(shared: &Arc<Shared>) {
    let (blobs, log) = (shared.blobs.clone(), shared.options.log);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = blobs.remove_stale_uploads() {
            log(&format!("cannot remove abandoned uploads: {error}"));
        }
    });
}

fn start(shared: &Arc<Shared>, name: &str) -> JoinHandle<()> {
    let link = Arc::new(Link::new(name.to_owned()));
    let entry = shared.options.dir.join("builds").join(name);
    shared.builds.links.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), link.clone());
    let log = shared.options.log;
    let (shared, build) = (shared.clone(), name.to_owned());
    let received = move |message: ToServer| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (shared, build) = (shared.clone(), build.clone());
        Box::pin(async move {
            let blobs = shared.blobs.clone();
            let provided = tokio::task::spawn_blocking({
                let build = build.clone();
                move || blobs.provide(&build, message)
            });
            if let Ok(Err(error)) = provided.await {
                log(&format!("build '{build}': {error}"));
            }
        })
    };
    tokio::spawn(async move { link.run(entry, &received, log).await })
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let names = std::fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_client_name(name)).collect();
    names.sort();
    names.truncate(MAX_BUILDS);
    Ok(names)
}
