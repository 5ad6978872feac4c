//! The process that accepts results: copies logs, has packages opened, installs and compares them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tanto_sys::process::lifecycle;

use super::copies::{DigestReader, LogLimits, copy_logs, create_dir};
use super::inspector::Inspector;
use super::messages::{
    self, AcceptAnswer, AcceptRequest, AcceptedPackage, AcceptorRequest, CompareRequest, Destination, IncomingPackage,
    InspectRequest, StoredPackage, Taken,
};
use crate::attempt::distfiles::atomic_move::NewFile;
use crate::coordinator::install_artifact;
use crate::error::cause;

/// The time for opening any package.
const LEAST_TIME: Duration = Duration::from_secs(60);
/// A large package has a second more for each of these bytes.
const BYTES_PER_SECOND: u64 = 1 << 20;

pub(super) struct Acceptor {
    pub inspector: Inspector,
    pub logs: LogLimits,
    pub least_time: Duration,
}

impl Acceptor {
    fn handle(&mut self, request: &AcceptorRequest) -> AcceptAnswer {
        match request {
            AcceptorRequest::Accept(request) => self.accept(request),
            AcceptorRequest::Compare(request) => {
                let result = self.compare(request).map(Taken::Differences);
                AcceptAnswer { number: request.number, notes: Vec::new(), result }
            }
        }
    }

    /// Returns the members that differ from those of each other package.
    pub fn compare(&mut self, request: &CompareRequest) -> Result<Vec<Vec<String>>, String> {
        request.others.iter().map(|other| self.compare_two(&request.package, other)).collect()
    }

    fn compare_two(&mut self, package: &StoredPackage, other: &StoredPackage) -> Result<Vec<String>, String> {
        let (mut first, mut second) = (open(package)?, open(other)?);
        let sizes = [package.size, other.size];
        let most = self.least_time + Duration::from_secs(sizes.iter().sum::<u64>() / BYTES_PER_SECOND);
        let mut both = Read::by_ref(&mut first).chain(Read::by_ref(&mut second));
        let differences = self.inspector.compare(sizes, &mut both, most)?;
        for (reader, stored) in [(first, package), (second, other)] {
            if reader.finish().0 != stored.digest {
                return Err(format!("{} has changed", stored.path.display()));
            }
        }
        Ok(differences)
    }

    pub fn accept(&mut self, request: &AcceptRequest) -> AcceptAnswer {
        let mut notes = Vec::new();
        let result = self.take_files(request, &mut notes);
        AcceptAnswer { number: request.number, notes, result }
    }

    fn take_files(&mut self, request: &AcceptRequest, notes: &mut Vec<String>) -> Result<Taken, String> {
        // Of another attempt with its number.
        let _ = fs::remove_dir_all(&request.dir);
        if request.needs_dir() {
            create_dir(&request.dir)?;
        }
        copy_logs(&request.dir, &request.logs, self.logs, notes)
            .map_err(|error| format!("its logs cannot be copied: {}", cause(&error)))?;
        let Some(package) = &request.package else { return Ok(Taken::Logs) };
        let installed = match &package.destination {
            Destination::Attempt(name) => self.copy(package, &request.dir.join(name)).map(|()| None),
            Destination::Packages { new, place } => self.install(package, new, place),
        };
        let installed = installed.map_err(|why| {
            // Later steps of the failed attempt have logs.
            let _ = create_dir(&request.dir);
            format!("{}: {why}", package.name)
        })?;
        Ok(Taken::Package(AcceptedPackage { digest: package.digest, installed }))
    }

    fn copy(&mut self, package: &IncomingPackage, to: &Path) -> Result<(), String> {
        let to = File::create_new(to).map_err(not_copied)?;
        self.open(package, DigestReader::copying(&package.blob, &to).map_err(not_copied)?).map(drop)
    }

    /// Installs a package durably. Returns its SHA512.
    fn install(&mut self, package: &IncomingPackage, new: &Path, place: &Path) -> Result<Option<String>, String> {
        place.parent().map_or(Ok(()), fs::create_dir_all).map_err(not_installed)?;
        let new = NewFile::create(new.to_owned()).map_err(not_installed)?;
        let sha512 = self.open(package, DigestReader::installing(&package.blob, &new.file).map_err(not_copied)?)?;
        new.publish(place, true).and_then(|_| install_artifact::sync_directory_of(place)).map_err(not_installed)?;
        Ok(sha512)
    }

    /// Reads a package, and has it opened meanwhile. Returns its SHA512 if that was computed.
    fn open(&mut self, package: &IncomingPackage, mut copy: DigestReader<'_>) -> Result<Option<String>, String> {
        let size = copy.size().map_err(not_copied)?;
        if size != package.size {
            return Err(format!("it has {size} bytes, not {}", package.size));
        }
        let inspection =
            InspectRequest { name: package.name.clone(), size, dependencies: package.dependencies.clone() };
        let most = self.least_time + Duration::from_secs(size / BYTES_PER_SECOND);
        let verdict = self.inspector.inspect(&inspection, &mut copy, most);
        // Damage is the reason for whatever else is wrong.
        io::copy(&mut copy, &mut io::sink()).map_err(not_copied)?;
        let (digest, sha512) = copy.finish();
        if digest != package.digest {
            return Err(format!("its digest is {digest}, not {}", package.digest));
        }
        verdict.map(|()| sha512)
    }
}

fn not_copied(error: io::Error) -> String {
    format!("it cannot be copied: {}", cause(&error))
}

fn not_installed(error: io::Error) -> String {
    format!("it cannot be installed: {}", cause(&error))
}

/// Opens a package of the expected size.
fn open(package: &StoredPackage) -> Result<DigestReader<'static>, String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {}", package.path.display(), cause(&error));
    let reader = DigestReader::open(&package.path).map_err(unreadable)?;
    match reader.size().map_err(unreadable)? == package.size {
        true => Ok(reader),
        false => Err(format!("{} has changed", package.path.display())),
    }
}

/// Runs the process, with its requests on standard input.
pub fn serve() -> io::Result<()> {
    lifecycle::exit_with_parent()?;
    // The coordinator ends it.
    lifecycle::obey_termination_signals(false);
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let inspector = Inspector::new(|| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["bulk", "inspect"]).env_clear().current_dir("/");
        command
    });
    let mut acceptor = Acceptor { inspector, logs: LogLimits::DEFAULT, least_time: LEAST_TIME };
    while let Some(request) = messages::read::<AcceptorRequest>(&mut stream)? {
        messages::write(&mut stream, &acceptor.handle(&request))?;
    }
    Ok(())
}
