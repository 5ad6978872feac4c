//! Uploads results until the coordinator has settled them. Results are on the disk before that, so that a client that was
//! killed uploads them when it runs again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tanto_cas::BlobInfo;
use tanto_protocol::{
    AttemptOutcome, AttemptResult, ClientAnswer, ClientRequest, ConnectionId, Digest, Distfile, LeaseId, LogBlob,
    MAX_DIGESTS, Message, PackageBlob, ResultAnswer, ResultReport,
};
use tanto_sys::fs::file;

use super::distfiles::FetchedDistfile;
use super::session::{ClientSession, unexpected};
use super::transport::TransportError;
use super::workspace::Workspace;

/// The result of an attempt, with the directory of its files.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldResult {
    pub lease: LeaseId,
    pub result: AttemptResult,
    pub dir: PathBuf,
    /// Not saved: the next process forgets them.
    pub distfiles: Vec<FetchedDistfile>,
}

/// The path and the size of each blob.
type BlobFiles = BTreeMap<Digest, (PathBuf, u64)>;

/// Between two questions about a result that is being accepted.
const PENDING_PAUSE: Duration = Duration::from_millis(100);
/// The file with the result, in the directory of an attempt.
const RESULT: &str = "result.json";
pub(super) const LEASE: &str = "lease";
/// Size of a file that is uploaded together with others, in bytes.
const SMALL: u64 = 256 << 10;
/// Size of the files that are uploaded together, in bytes. If the connection breaks, all are sent again.
const PACK: u64 = 1 << 20;
/// Size of a result that is uploaded without asking what the server has of it, in bytes. A question takes as long.
const UNASKED: u64 = 64 << 10;
/// Most files of an attempt that are uploaded besides packages.
const MAX_LOGS: usize = 1_000;

impl HeldResult {
    /// Writes the result beside its files.
    pub fn save(&self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let encoded = self.result.encode().map_err(io::Error::other)?;
        file::write_atomically(&self.dir.join(RESULT), |to| io::Write::write_all(to, &encoded))?;
        file::write_atomically(&self.dir.join(LEASE), |to| io::Write::write_all(to, self.lease.to_string().as_bytes()))
    }

    /// Reads a result that an earlier process has saved.
    pub fn read(dir: &Path) -> Option<HeldResult> {
        let lease = fs::read_to_string(dir.join(LEASE)).ok()?.parse().ok()?;
        let result = AttemptResult::decode(&fs::read(dir.join(RESULT)).ok()?).ok()?;
        Some(HeldResult { lease, result, dir: dir.to_owned(), distfiles: Vec::new() })
    }

    /// The number of its attempt, if its directory has that name.
    pub fn attempt(&self) -> Option<u32> {
        self.dir.file_name()?.to_str()?.parse().ok()
    }

    /// The result of an attempt whose files cannot be read.
    fn unreadable(&self, error: &io::Error) -> HeldResult {
        let why = format!("its files cannot be read: {error}");
        let stages = self.result.stages.clone();
        let result = AttemptResult { stages, ..AttemptResult::of(AttemptOutcome::MachineFailed { why }) };
        HeldResult { result, ..self.clone() }
    }

    /// Hashes the files.
    fn report(&self) -> io::Result<(ResultReport, BlobFiles)> {
        let mut blobs = BTreeMap::new();
        let mut add = |name: &str| {
            let path = self.dir.join(name);
            let (digest, size) = digest_of(&path)?;
            blobs.insert(digest, (path, size));
            Ok::<_, io::Error>((digest, size))
        };
        let mut packages = Vec::new();
        for package in &self.result.packages {
            let (digest, size) = add(&package.file)?;
            packages.push(PackageBlob { name: package.name.clone(), digest, size });
        }
        let mut logs = Vec::new();
        // The coordinator keeps no logs of packages that were built.
        let names = if self.result.outcome == AttemptOutcome::Built { Vec::new() } else { self.log_names()? };
        for name in names {
            let (digest, size) = add(&name)?;
            logs.push(LogBlob { file: name, digest, size });
        }
        let distfiles = add_distfiles(&self.distfiles, &mut blobs);
        let (connection, lease, result) = (ConnectionId([0; 16]), self.lease, self.result.clone());
        let report = ResultReport { connection, lease, result, packages, logs, distfiles };
        Ok((report, blobs))
    }

    /// Regular files with plain names, except the packages and our own.
    fn log_names(&self) -> io::Result<Vec<String>> {
        let is_package = |name: &str| self.result.packages.iter().any(|package| package.file == name);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_plain = tanto_protocol::is_safe_name(name.as_bytes(), false);
            if is_plain && entry.file_type()?.is_file() && ![RESULT, LEASE].contains(&&*name) && !is_package(&name) {
                names.push(name);
            }
        }
        names.sort();
        names.truncate(MAX_LOGS);
        Ok(names)
    }
}

fn lost(error: io::Error) -> TransportError {
    TransportError::Failed(error.to_string())
}

/// Hashes distfiles, and adds them to the blobs.
fn add_distfiles(files: &[FetchedDistfile], blobs: &mut BlobFiles) -> Vec<Distfile> {
    let mut distfiles = Vec::new();
    for FetchedDistfile { name, path } in files {
        // Without it, another client fetches the file.
        let Ok((digest, size)) = digest_of(path) else { continue };
        blobs.insert(digest, (path.clone(), size));
        distfiles.push(Distfile { name: name.clone(), size, digest: Some(digest) });
    }
    distfiles
}

fn digest_of(path: &Path) -> io::Result<(Digest, u64)> {
    let BlobInfo { digest, size } = BlobInfo::of_file(path)?;
    Ok((Digest(digest.0), size))
}

/// What is uploaded.
pub enum Upload {
    Result(Box<HeldResult>),
    /// Those of a running attempt. Its result has them, too.
    Distfiles(LeaseId, Vec<FetchedDistfile>),
}

/// A thread's work.
pub struct Uploads {
    pub session: Arc<ClientSession>,
    /// Keeps the packages.
    pub workspace: Arc<Workspace>,
    pub queue: Arc<Mutex<Receiver<Upload>>>,
}

impl Uploads {
    pub fn run(self) {
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(Upload::Distfiles(lease, files)) => self.upload_distfiles(lease, &files),
                Ok(Upload::Result(held)) if self.deliver(&held) => self.session.settled(held.lease),
                // The next process uploads it.
                Ok(Upload::Result(_)) | Err(_) => return,
            }
        }
    }

    /// Returns false if the client stops before the coordinator has settled the result.
    fn deliver(&self, held: &HeldResult) -> bool {
        match self.upload(held) {
            Ok(false) => return false,
            // What cannot be removed is uploaded again, and refused.
            Ok(true) => drop(fs::remove_dir_all(&held.dir)),
            Err(error) => eprintln!("tanto: the result in {} is lost: {error}", held.dir.display()),
        }
        true
    }

    /// Returns whether the coordinator needs nothing more.
    fn upload(&self, held: &HeldResult) -> Result<bool, TransportError> {
        let (report, blobs) = held.report().or_else(|error| held.unreadable(&error).report()).map_err(lost)?;
        // Before the result is sent: a package that needs it may be offered at once.
        self.keep_packages(held, &report);
        let bytes: u64 = blobs.values().map(|(_, size)| size).sum();
        let is_new = held.distfiles.is_empty() && bytes <= UNASKED;
        let mut missing = if is_new { blobs.keys().copied().collect() } else { self.missing(&blobs) };
        loop {
            self.upload_blobs(&blobs, &std::mem::take(&mut missing), &|bytes| self.session.sent(held.lease, bytes))?;
            let request = |connection| ClientRequest::Result(Box::new(ResultReport { connection, ..report.clone() }));
            match self.session.call(request)? {
                None => return Ok(false),
                Some(ClientAnswer::Result(answer)) => match answer {
                    ResultAnswer::Settled | ResultAnswer::Superseded => return Ok(true),
                    ResultAnswer::Pending => self.session.sleep(PENDING_PAUSE),
                    ResultAnswer::Missing { digests } => missing = digests,
                },
                Some(other) => return Err(unexpected(&other)),
            }
        }
    }

    /// If this fails, they come with the result.
    fn upload_distfiles(&self, lease: LeaseId, files: &[FetchedDistfile]) {
        let mut blobs = BlobFiles::new();
        let distfiles = add_distfiles(files, &mut blobs);
        let missing = self.missing(&blobs);
        if self.upload_blobs(&blobs, &missing, &|_| ()).is_ok() {
            self.session.update(lease, |progress| progress.distfiles.extend(distfiles));
        }
    }

    /// Other packages may need those that were built.
    fn keep_packages(&self, held: &HeldResult, report: &ResultReport) {
        for (built, blob) in held.result.packages.iter().zip(&report.packages) {
            self.workspace.keep(blob, &held.dir.join(&built.file));
        }
    }

    /// Uploads small files together, and each large one alone.
    fn upload_blobs(&self, blobs: &BlobFiles, missing: &[Digest], sent: &dyn Fn(u64)) -> Result<(), TransportError> {
        let files = missing.iter().filter_map(|digest| blobs.get(digest).map(|(path, size)| (*digest, &**path, *size)));
        let (small, large): (Vec<_>, Vec<_>) = files.partition(|(_, _, size)| *size <= SMALL);
        for pack in packs(&small) {
            self.repeat(|| self.session.transport().upload_pack(&pack, sent))?;
        }
        for (digest, path, _) in large {
            self.repeat(|| self.session.transport().upload(digest, path, sent))?;
        }
        Ok(())
    }

    /// Returns the blobs that the server lacks; all of them without an answer.
    fn missing(&self, blobs: &BlobFiles) -> Vec<Digest> {
        let digests: Vec<Digest> = blobs.keys().copied().collect();
        self.session.transport().missing(&digests).unwrap_or(digests)
    }

    /// Repeats a transfer while that may help and the client lives.
    fn repeat(&self, transfer: impl Fn() -> Result<(), TransportError>) -> Result<(), TransportError> {
        super::workspace::repeat(&self.session, transfer)
    }
}

/// Distributes files over packs.
fn packs<'a>(files: &[(Digest, &'a Path, u64)]) -> Vec<Vec<(Digest, &'a Path)>> {
    let mut packs: Vec<Vec<_>> = Vec::new();
    let mut bytes = 0;
    for (digest, path, size) in files {
        bytes += size;
        match packs.last_mut() {
            Some(pack) if bytes <= PACK && pack.len() < MAX_DIGESTS => pack.push((*digest, *path)),
            _ => {
                bytes = *size;
                packs.push(vec![(*digest, *path)]);
            }
        }
    }
    packs
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use tanto_protocol::{BuiltPackage, HelloAnswer};
    use tanto_testing::Scratch;

    use super::*;
    use crate::client::session::tests::hello;
    use crate::client::transport::Transport;
    use crate::client::trees::{NewTree, TreePlace};

    /// Settles a result when it comes for the second time.
    #[derive(Default)]
    struct Slow {
        results: AtomicUsize,
        packs: AtomicUsize,
    }

    impl Transport for Slow {
        fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError> {
            match request {
                ClientRequest::Hello(_) => Ok(ClientAnswer::Hello(HelloAnswer {
                    connection: ConnectionId([1; 16]),
                    heartbeat_ms: 1,
                    missing_ms: 1,
                    warnings: Vec::new(),
                    blobs: String::new(),
                })),
                ClientRequest::Result(_) => {
                    Ok(ClientAnswer::Result(match self.results.fetch_add(1, Ordering::Relaxed) {
                        0 => ResultAnswer::Pending,
                        _ => ResultAnswer::Settled,
                    }))
                }
                other => Err(TransportError::Failed(format!("{other:?}"))),
            }
        }

        fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError> {
            Ok(digests.to_vec())
        }

        fn take_warning(&self) -> Option<String> {
            None
        }

        fn download(&self, _: Digest, _: u64, _: &Path) -> Result<(), TransportError> {
            Ok(())
        }

        fn fetch_blobs(&self, _: &[Digest], _: &tanto_cas::Store, _: &Path) -> Result<(), TransportError> {
            Ok(())
        }

        fn fetch_tree(&self, _: &NewTree) -> Result<(), TransportError> {
            Ok(())
        }

        fn upload(&self, _: Digest, _: &Path, _: &dyn Fn(u64)) -> Result<(), TransportError> {
            Ok(())
        }

        fn upload_pack(&self, _: &[(Digest, &Path)], _: &dyn Fn(u64)) -> Result<(), TransportError> {
            self.packs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn files_are_not_uploaded_again_while_a_result_is_accepted() {
        let (place, transport) = (Scratch::new("client-uploads"), Arc::new(Slow::default()));
        let session =
            ClientSession::new(Arc::clone(&transport) as Arc<dyn Transport>, hello(), [], Box::new(|| (1, 1)));
        let trees = TreePlace::Many(place.at("trees"));
        let workspace = Workspace::open(&place.at("packages"), &place.at("blobs"), u64::MAX, trees).unwrap();
        place.write("a-1/1/a-1.tgz", "the package");
        let packages = vec![BuiltPackage { name: "a-1".into(), file: "a-1.tgz".into() }];
        let result = AttemptResult { packages, ..AttemptResult::of(AttemptOutcome::Built) };
        let held = HeldResult { lease: LeaseId([1; 16]), result, dir: place.at("a-1/1"), distfiles: Vec::new() };
        let queue = Arc::new(Mutex::new(channel().1));
        let uploads = Uploads { session: Arc::new(session), workspace: Arc::new(workspace), queue };
        assert!(uploads.upload(&held).unwrap());
        let counts = [&transport.results, &transport.packs].map(|it| it.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 1], "results, packs");
        assert_eq!(fs::read_dir(place.at("blobs")).unwrap().count(), 1, "the package is kept");
    }

    #[test]
    fn packs_are_within_their_limits() {
        let files =
            |sizes: &[u64]| sizes.iter().map(|&size| (Digest([0; 32]), Path::new("x"), size)).collect::<Vec<_>>();
        let lengths = |sizes: &[u64]| packs(&files(sizes)).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1, 2, 3]), [3]);
        assert_eq!(lengths(&[PACK - 1, 1, 1, PACK]), [2, 1, 1]);
        assert_eq!(lengths(&[0; MAX_DIGESTS + 1]), [MAX_DIGESTS, 1]);
    }
}
