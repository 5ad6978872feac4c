//! Distfiles for clients: those that the coordinator has are offered with leases, and those that it lacks are taken from the
//! clients that have fetched them. A thread hashes and copies; only files that are as listed in the tree count.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use sha2::{Digest as _, Sha256, Sha512};
use tanto_protocol::{Digest, Distfile, LeaseProgress, ProvidedFile, ToServer};
use tanto_sys::fs::file::open_no_follow;
use tanto_sys::fs::file_stamp::FileStamp;

use super::fetch_claims::FetchClaims;
use crate::attempt::distfiles::atomic_move::{NewFile, temp_name};
use crate::config::{Config, Stage};
use crate::coordinator::dispatch::lease::LeaseState;
use crate::coordinator::dispatch::{ClientIndex, Dispatch};
use crate::coordinator::frontend::Coordinator;
use crate::package::distinfo::{self, ListedDistfile};
use crate::resolve::PackageId;

/// See the module.
pub struct FarmDistfiles {
    /// DISTDIR.
    dir: PathBuf,
    pkgsrc: PathBuf,
    /// Whether files of clients are taken. A hook of the user has to see each file that this machine fetches.
    takes: bool,
    /// Files in `dir` by name, as they were hashed.
    hashed: HashMap<String, HashedFile>,
    /// Names of files that the server may hand out.
    provided: HashSet<String>,
    /// Those that were not announced to the server yet.
    unannounced: Vec<ProvidedFile>,
    /// Names of files that the thread has.
    busy: HashSet<String>,
    /// Those that a directory of the tree last waited for.
    awaited: HashMap<String, Vec<String>>,
    claims: FetchClaims,
    /// Runs from the first job on.
    worker: Option<Worker>,
}

struct HashedFile {
    stamp: FileStamp,
    /// `None`: it cannot be read.
    digests: Option<Digests>,
}

struct Digests {
    sha256: Digest,
    sha512: String,
}

struct Worker {
    jobs: Sender<DistfileJob>,
    ended: Receiver<(String, Option<HashedFile>)>,
}

/// Work of the thread.
enum DistfileJob {
    Hash {
        name: String,
        stamp: FileStamp,
    },
    /// Copies a blob, if it is the listed file.
    Take {
        file: ListedDistfile,
        blob: PathBuf,
    },
}

/// A listed file.
enum Availability {
    /// Not known yet.
    Checking,
    Present(Digest),
    Absent,
    /// Another file has its name.
    Different,
}

/// Between two looks whether the thread has finished a file.
const INTERVAL: Duration = Duration::from_millis(100);
const CHUNK: usize = 256 << 10;

impl FarmDistfiles {
    pub fn new(config: &Config) -> FarmDistfiles {
        FarmDistfiles {
            dir: PathBuf::from(&config.distdir),
            pkgsrc: PathBuf::from(&config.pkgsrc),
            takes: config.post_fetch_hook.is_empty(),
            hashed: HashMap::new(),
            provided: HashSet::new(),
            unannounced: Vec::new(),
            busy: HashSet::new(),
            awaited: HashMap::new(),
            claims: FetchClaims::default(),
            worker: None,
        }
    }

    /// Returns the distfiles for the lease of a package in a directory of the tree: those that are here, and those that are
    /// taken from the client. `None` while some are checked, or fetched by another attempt.
    fn of_lease(
        &mut self,
        now_ms: i64,
        package: PackageId,
        location: &str,
        is_active: impl Fn(PackageId) -> bool,
    ) -> Option<Vec<Distfile>> {
        let is_busy = |name: &String| self.busy.contains(name);
        if self.awaited.get(location).is_some_and(|names| names.iter().any(is_busy)) {
            return None;
        }
        let (mut distfiles, mut awaited) = (Vec::new(), Vec::new());
        for file in distinfo::distfiles(&self.pkgsrc.join(location)) {
            let digest = match self.availability(&file) {
                Availability::Checking => {
                    awaited.push(file.name);
                    continue;
                }
                Availability::Present(digest) => Some(digest),
                Availability::Absent if self.takes => match self.claims.wait(now_ms, package, &file.name, &is_active) {
                    true => return None,
                    false => None,
                },
                Availability::Absent | Availability::Different => continue,
            };
            distfiles.push(Distfile { name: file.name, size: file.size, digest });
        }
        let is_ready = awaited.is_empty();
        self.awaited.insert(location.to_owned(), awaited);
        if !is_ready {
            return None;
        }
        let absent = distfiles.iter().filter(|file| file.digest.is_none()).map(|file| &*file.name);
        self.claims.claim(now_ms, package, absent);
        Some(distfiles)
    }

    /// Notes the progress of an attempt of a client.
    pub(super) fn progressed(&mut self, now_ms: i64, package: PackageId, progress: &LeaseProgress) {
        if Stage::ALL.into_iter().any(|stage| stage.name() == progress.stage && stage > Stage::Checksum) {
            self.claims.fetched(now_ms, package);
        }
    }

    fn availability(&mut self, file: &ListedDistfile) -> Availability {
        if self.busy.contains(&file.name) {
            return Availability::Checking;
        }
        let path = self.dir.join(&file.name);
        let Ok(stamp) = FileStamp::at(path.as_os_str().as_bytes()) else { return Availability::Absent };
        if !stamp.is_regular || stamp.size != file.size {
            return Availability::Different;
        }
        let Some(hashed) = self.hashed.get(&file.name).filter(|hashed| hashed.stamp == stamp) else {
            self.provided.remove(&file.name);
            let job = DistfileJob::Hash { name: file.name.clone(), stamp };
            return if self.submit(&file.name, job) { Availability::Checking } else { Availability::Different };
        };
        match &hashed.digests {
            Some(digests) if digests.sha512 == file.sha512 => {
                let digest = digests.sha256;
                if self.provided.insert(file.name.clone()) {
                    self.unannounced.push(ProvidedFile { digest, size: file.size, path });
                }
                Availability::Present(digest)
            }
            Some(_) | None => Availability::Different,
        }
    }

    /// Drops files of a result that the build does not need from a package in this directory, or that it has.
    pub(super) fn retain_wanted(&self, location: &str, distfiles: &mut Vec<Distfile>) {
        if distfiles.is_empty() {
            return;
        }
        let wanted = self.wanted(location);
        distfiles.retain(|it| it.digest.is_some() && wanted.iter().any(|file| is_same(file, it)));
    }

    fn wanted(&self, location: &str) -> Vec<ListedDistfile> {
        if !self.takes {
            return Vec::new();
        }
        let mut listed = distinfo::distfiles(&self.pkgsrc.join(location));
        let is_absent = |name: &String| !self.busy.contains(name) && fs::symlink_metadata(self.dir.join(name)).is_err();
        listed.retain(|file| is_absent(&file.name));
        listed
    }

    /// Takes the wanted files that a client has uploaded. `blob` returns the path of a blob.
    pub(super) fn take(&mut self, location: &str, distfiles: &[Distfile], blob: impl Fn(Digest) -> PathBuf) {
        if distfiles.is_empty() {
            return;
        }
        for file in self.wanted(location) {
            if let Some(digest) = distfiles.iter().find(|it| is_same(&file, it)).and_then(|it| it.digest) {
                let name = file.name.clone();
                self.submit(&name, DistfileJob::Take { file, blob: blob(digest) });
            }
        }
    }

    /// Returns whether there is a thread that does it.
    fn submit(&mut self, name: &str, job: DistfileJob) -> bool {
        let worker = self.worker.get_or_insert_with(|| Worker::start(self.dir.clone()));
        let is_sent = worker.jobs.send(job).is_ok();
        if is_sent {
            self.busy.insert(name.to_owned());
        }
        is_sent
    }

    /// Notes the files that the thread has finished.
    pub(super) fn poll(&mut self) {
        let Some(worker) = &self.worker else { return };
        for (name, hashed) in worker.ended.try_iter() {
            self.busy.remove(&name);
            self.claims.arrived(&name);
            match hashed {
                Some(hashed) => self.hashed.insert(name, hashed),
                None => self.hashed.remove(&name),
            };
        }
    }

    pub(super) fn poll_interval(&self) -> Option<Duration> {
        (!self.busy.is_empty()).then_some(INTERVAL)
    }

    /// All files that the server may hand out, for one that has just started.
    pub(super) fn all_provided(&self) -> impl Iterator<Item = ProvidedFile> + '_ {
        self.provided.iter().filter_map(|name| {
            let HashedFile { stamp, digests } = self.hashed.get(name)?;
            let digest = digests.as_ref()?.sha256;
            Some(ProvidedFile { digest, size: stamp.size, path: self.dir.join(name) })
        })
    }
}

fn is_same(file: &ListedDistfile, distfile: &Distfile) -> bool {
    (&file.name, file.size) == (&distfile.name, distfile.size)
}

impl Worker {
    fn start(dir: PathBuf) -> Worker {
        let (jobs, received) = channel();
        let (finished, ended) = channel();
        let work = move || {
            for job in received {
                let (name, hashed) = run(&dir, job);
                if finished.send((name, hashed)).is_err() {
                    return;
                }
            }
        };
        // If there is no thread, the sender has no receiver.
        let _ = thread::Builder::new().name("distfiles".into()).spawn(work);
        Worker { jobs, ended }
    }
}

/// Returns the name of the file, and what was found or written.
fn run(dir: &Path, job: DistfileJob) -> (String, Option<HashedFile>) {
    match job {
        DistfileJob::Hash { name, stamp } => {
            let hashed = hash(&dir.join(&name)).unwrap_or(HashedFile { stamp, digests: None });
            (name, Some(hashed))
        }
        DistfileJob::Take { file, blob } => {
            let taken = take(&dir.join(&file.name), &file, &blob).ok();
            (file.name, taken)
        }
    }
}

fn hash(path: &Path) -> io::Result<HashedFile> {
    let mut file = open_no_follow(path)?;
    let stamp = FileStamp::of(&file)?;
    let digests = copy(&mut file, &mut io::sink())?;
    Ok(HashedFile { stamp, digests: Some(digests) })
}

/// Copies a blob to its place, unless a file is there.
fn take(to: &Path, file: &ListedDistfile, blob: &Path) -> io::Result<HashedFile> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut new = NewFile::create(to.with_file_name(temp_name(&format!("{}-farm", std::process::id()))))?;
    let digests = copy(&mut open_no_follow(blob)?.take(file.size), &mut new.file)?;
    if digests.sha512 != file.sha512 || fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let copied = new.publish(to, true)?;
    Ok(HashedFile { stamp: FileStamp::of(&copied)?, digests: Some(digests) })
}

fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<Digests> {
    let (mut sha256, mut sha512, mut buffer) = (Sha256::new(), Sha512::new(), vec![0; CHUNK]);
    while let length @ 1.. = from.read(&mut buffer)? {
        sha256.update(&buffer[..length]);
        sha512.update(&buffer[..length]);
        to.write_all(&buffer[..length])?;
    }
    let sha512 = sha512.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Digests { sha256: Digest(sha256.finalize().into()), sha512 })
}

/// The client that is building a package, as far as is known.
fn builder(dispatch: &Dispatch, package: PackageId) -> Option<ClientIndex> {
    let lease = dispatch.current(package).and_then(|lease| dispatch.lease(lease))?;
    let is_active = matches!(lease.state(), LeaseState::Offered { .. } | LeaseState::Running);
    is_active.then_some(ClientIndex::Remote(lease.client))
}

impl Coordinator<'_> {
    /// Returns the distfile for which a package waits, and the client that fetches it.
    pub(super) fn awaited_distfile(&self, package: PackageId) -> Option<(&str, ClientIndex)> {
        let claims = &self.farm.as_ref()?.distfiles.claims;
        let builder = |it| builder(&self.dispatch, it);
        let (name, holder) = claims.awaited(self.clock.now_ms(), package, |it| builder(it).is_some())?;
        Some((name, builder(holder)?))
    }

    /// Returns the distfiles for the lease of a package, and has the server hand out those that are here. `None` while some
    /// are checked, or fetched by another attempt.
    pub(super) fn lease_distfiles(&mut self, package: PackageId) -> Option<Vec<Distfile>> {
        let (now_ms, location) = (self.clock.now_ms(), &self.plan.package(package).location);
        let farm = self.farm.as_mut()?;
        let distfiles = farm.distfiles.of_lease(now_ms, package, location, |it| builder(&self.dispatch, it).is_some());
        let files = std::mem::take(&mut farm.distfiles.unannounced);
        if !files.is_empty() {
            self.control.send_to_server(&ToServer::Provide { files });
        }
        distfiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    const CONTENT: &str = "the distfile\n";

    fn farm(place: &Scratch, hook: &str) -> FarmDistfiles {
        let Digests { sha512, .. } = copy(&mut CONTENT.as_bytes(), &mut io::sink()).unwrap();
        let size = CONTENT.len();
        place.write(
            "tree/cat/pkg/distinfo",
            format!("SHA512 (sub/a.tgz) = {sha512}\nSize (sub/a.tgz) = {size} bytes\n"),
        );
        let path = |name: &str| place.at(name).to_string_lossy().into_owned();
        let config = Config {
            distdir: path("distfiles"),
            pkgsrc: path("tree"),
            post_fetch_hook: hook.to_owned(),
            ..Config::default()
        };
        FarmDistfiles::new(&config)
    }

    fn of_lease(farm: &mut FarmDistfiles, location: &str) -> Option<Vec<Distfile>> {
        farm.of_lease(0, 1, location, |_| false)
    }

    fn wait(farm: &mut FarmDistfiles) -> Vec<Distfile> {
        loop {
            farm.poll();
            match of_lease(farm, "cat/pkg") {
                Some(distfiles) => return distfiles,
                None => assert_eq!(farm.poll_interval(), Some(INTERVAL)),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn distfile(content: Option<&str>) -> Distfile {
        let digest = content.map(|content| Digest(tanto_cas::Digest::of(content.as_bytes()).0));
        Distfile { name: "sub/a.tgz".to_owned(), size: CONTENT.len() as u64, digest }
    }

    #[test]
    fn files_that_are_as_listed_are_offered() {
        let place = Scratch::new("farm-distfiles");
        let mut farm = farm(&place, "");
        assert_eq!(of_lease(&mut farm, "cat/pkg"), Some(vec![distfile(None)]), "it is wanted");
        assert_eq!(of_lease(&mut farm, "cat/none"), Some(Vec::new()));
        place.write("distfiles/sub/a.tgz", CONTENT);
        assert_eq!(of_lease(&mut farm, "cat/pkg"), None);
        assert_eq!(wait(&mut farm), [distfile(Some(CONTENT))]);
        assert_eq!((farm.unannounced.len(), farm.all_provided().count(), farm.poll_interval()), (1, 1, None));
        // It has the size, but another content.
        fs::remove_file(place.at("distfiles/sub/a.tgz")).unwrap();
        place.write("distfiles/sub/a.tgz", CONTENT.replace('t', "T"));
        assert_eq!((wait(&mut farm), farm.all_provided().count()), (Vec::new(), 0));
        place.write("distfiles/sub/a.tgz", "short");
        assert_eq!(of_lease(&mut farm, "cat/pkg"), Some(Vec::new()));
        // It cannot be read: it might lead elsewhere.
        fs::remove_file(place.at("distfiles/sub/a.tgz")).unwrap();
        place.write("elsewhere", CONTENT);
        std::os::unix::fs::symlink(place.at("elsewhere"), place.at("distfiles/sub/a.tgz")).unwrap();
        assert_eq!(wait(&mut farm), []);
    }

    #[test]
    fn only_listed_files_are_taken_from_clients() {
        let place = Scratch::new("farm-distfiles-taken");
        let mut farm = farm(&place, "");
        let blob = |content: &str| {
            place.write("blob", content);
            let path = place.at("blob");
            move |_| path.clone()
        };
        let other = Distfile { name: "sub/b.tgz".to_owned(), ..distfile(Some(CONTENT)) };
        let long = Distfile { size: 1 << 40, ..distfile(Some(CONTENT)) };
        let mut report = vec![distfile(Some("x")), distfile(None), other, long];
        farm.retain_wanted("cat/pkg", &mut report);
        assert_eq!(report, [distfile(Some("x"))]);
        // The digest is that of the blob, but not of the distfile.
        farm.take("cat/pkg", &report, blob(&CONTENT.replace('t', "T")));
        assert_eq!(wait(&mut farm), [distfile(None)], "it is still wanted");
        assert_eq!(fs::read_dir(place.at("distfiles/sub")).unwrap().count(), 0);
        farm.take("cat/pkg", &[distfile(Some(CONTENT))], blob(CONTENT));
        assert_eq!(wait(&mut farm), [distfile(Some(CONTENT))]);
        assert_eq!(fs::read_to_string(place.at("distfiles/sub/a.tgz")).unwrap(), CONTENT);
        farm.retain_wanted("cat/pkg", &mut report);
        assert_eq!(report, [], "it is here");
    }

    #[test]
    fn packages_wait_for_files_that_others_fetch() {
        let place = Scratch::new("farm-distfiles-wait");
        let mut farm = farm(&place, "");
        let mut of = |package: PackageId, is_active: bool| farm.of_lease(0, package, "cat/pkg", |_| is_active);
        assert_eq!(of(1, true), Some(vec![distfile(None)]));
        assert_eq!(of(2, true), None, "the first one fetches it");
        assert_eq!(of(2, false), Some(vec![distfile(None)]), "the first one has ended");
        assert_eq!(of(1, true), None);
        place.write("blob", CONTENT);
        farm.take("cat/pkg", &[distfile(Some(CONTENT))], |_| place.at("blob"));
        assert_eq!(wait(&mut farm), [distfile(Some(CONTENT))]);
        assert_eq!(farm.claims.awaited(0, 1, |_| true), None);
    }

    #[test]
    fn files_that_a_hook_has_to_see_are_not_taken() {
        let place = Scratch::new("farm-distfiles-hook");
        let mut farm = farm(&place, "true");
        let mut report = vec![distfile(Some(CONTENT))];
        farm.retain_wanted("cat/pkg", &mut report);
        assert_eq!((of_lease(&mut farm, "cat/pkg"), report), (Some(Vec::new()), Vec::new()));
        place.write("distfiles/sub/a.tgz", CONTENT);
        assert_eq!(wait(&mut farm), [distfile(Some(CONTENT))], "it was seen");
    }
}
