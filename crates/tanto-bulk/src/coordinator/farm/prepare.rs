//! Prepares a build for clients: describes it, and makes blobs of the tree, the bootstrap kit and existing packages.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tanto_cas::store::{Durability, StoreLimits};
use tanto_cas::tree::{DigestCache, ScanOptions, scan};
use tanto_cas::{BlobInfo, Manifest, Store};
use tanto_protocol::{BuildDescription, Digest, Environment, PackageBlob};
use tanto_record::database::Database;

use super::Farm;
use super::distfiles::FarmDistfiles;
use super::place::Places;
use super::restart::EarlierLeases;
use super::tree::{FarmTree, TreeSource};
use super::trust::TrustRule;
use super::verification::Verifications;
use crate::config::Config;
use crate::coordinator::acceptance::Acceptance;
use crate::coordinator::dispatch::LeaseTimes;
use crate::coordinator::plan::Plan;
use crate::coordinator::pushed_tree::{DIGESTS, pinned};
use crate::error::BulkError;
use crate::machine_environment::build_environment;
use crate::package::ALL;

/// How long the server keeps what clients fetch, if it cannot ask.
const PINNED: Duration = Duration::from_secs(24 * 3_600);
/// The speed of clients is that in the last runs.
const RUNS: i64 = 5;

/// What clients get before their first lease.
pub(in crate::coordinator) struct Description {
    pub build: BuildDescription,
    /// The store of the server.
    pub store: Store,
    pub source: TreeSource,
    pub manifest: Digest,
}

/// Describes a build, and makes blobs of the files that clients need.
pub(in crate::coordinator) fn describe(config: &Config, run: i64) -> Result<Description, BulkError> {
    if Path::new(&config.bootstrapkit).is_dir() {
        return Err("with 'listen', 'bootstrapkit' has to be an archive: clients download it".into());
    }
    let blobs = config.server_dir().join("blobs");
    let store = Store::open(&blobs, StoreLimits::default()).map_err(|error| failed(&blobs, &error))?;
    let source = TreeSource {
        root: PathBuf::from(&config.pkgsrc),
        cache: Path::new(&config.state).join(DIGESTS),
        blobs: blobs.clone(),
        pinned: pinned(config)?,
    };
    let manifest = source.scan(&store)?;
    let mut build = BuildDescription {
        build: config.build_name.clone(),
        run,
        environment: Environment::new(),
        settings: config.shared(),
        tree: Some(manifest),
        kit: file_blob(&store, Path::new(&config.bootstrapkit))?,
        makeconf: config.makeconf().map_or(Ok(None), |path| file_blob(&store, &path))?,
        blobs: config.blobs.clone(),
        scan: None,
    };
    let fetched: Vec<_> = build.blobs().collect();
    pin(&store, &blobs, &fetched)?;
    build.environment = build_environment(config, &build);
    Ok(Description { build, store, source, manifest })
}

/// Prepares the farm of a build, if its configuration has `listen`.
pub fn prepare(config: &Config, database: &Database, run: i64, plan: &Plan) -> Result<Option<Farm>, BulkError> {
    if config.listen.is_empty() {
        return Ok(None);
    }
    let Description { build, store, source, manifest } = describe(config, run)?;
    let files = (package_blobs(config, plan)?, FarmDistfiles::new(config));
    let earlier = EarlierLeases { leases: database.leases(run)?, work: database.client_work(run, RUNS)? };
    let (places, trust) = (Places::new(config, plan), TrustRule::new(config, plan));
    let times = LeaseTimes::of(config);
    let tree = FarmTree::new(source, manifest);
    let acceptance = || Acceptance::of_this_program().map_err(BulkError::of("accepting results"));
    let verifications = Verifications::new(config).restored(database, run)?;
    let farm = Farm::new(build, store, tree, files, [acceptance()?, acceptance()?]);
    Ok(Some(Farm { places, trust, times, earlier, verifications, ..farm }))
}

/// Keeps blobs until the server asks which ones are needed.
pub(super) fn pin(store: &Store, path: &Path, digests: &[Digest]) -> Result<(), BulkError> {
    let digests: Vec<_> = digests.iter().map(|digest| tanto_cas::Digest(digest.0)).collect();
    store.pin(&digests, SystemTime::now() + PINNED).map(drop).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> BulkError {
    BulkError::Invalid(format!("{}: {error}", path.display()))
}

/// Hashes the files of a directory that have changed since the cache was written.
pub(super) fn scanned(dir: &Path, cache_file: &Path) -> Result<Manifest, BulkError> {
    let mut cache = DigestCache::load(cache_file);
    let manifest = scan(dir, &ScanOptions::default(), &mut cache).map_err(|error| failed(dir, &error))?;
    cache.save(cache_file).map_err(BulkError::io("writing ", cache_file))?;
    Ok(manifest)
}

/// Stores a file; `None` if it does not exist.
fn file_blob(store: &Store, path: &Path) -> Result<Option<Digest>, BulkError> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = fs::read(path).map_err(BulkError::io("reading ", path))?;
    put(store, path, &bytes).map(Some)
}

pub(super) fn put(store: &Store, path: &Path, bytes: &[u8]) -> Result<Digest, BulkError> {
    let stored = store.add(&mut &bytes[..], bytes.len() as u64, Durability::Process);
    stored.map(|BlobInfo { digest, .. }| Digest(digest.0)).map_err(|error| failed(path, &error))
}

/// Determines the digests of existing packages.
fn package_blobs(config: &Config, plan: &Plan) -> Result<HashMap<String, PackageBlob>, BulkError> {
    let dir = Path::new(&config.packages).join(ALL);
    fs::create_dir_all(&dir).map_err(BulkError::io("opening ", &dir))?;
    let manifest = scanned(&dir, &Path::new(&config.state).join("package-digests"))?;
    let files = manifest.entries().iter().filter(|entry| entry.mode.is_file());
    let files: HashMap<&[u8], BlobInfo> = files.map(|entry| (&*entry.path, entry.blob())).collect();
    let blob = |name: &String| {
        let BlobInfo { digest, size } = *files.get(format!("{name}{}", config.pkg_sufx).as_bytes())?;
        Some((name.clone(), PackageBlob { name: name.clone(), digest: Digest(digest.0), size }))
    };
    Ok(plan.packages.iter().filter_map(|it| blob(&it.name)).collect())
}
