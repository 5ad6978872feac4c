//! The process that accepts results: copies logs, has packages opened, installs and compares them.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use tanto_sys::process::lifecycle;

use super::copies::{DigestReader, LogLimits, copy_logs, create_dir};
use super::inspector::Inspector;
use super::messages::{
    self, AcceptAnswer, AcceptRequest, AcceptedPackage, AcceptorRequest, CompareRequest, IncomingPackage,
    InspectRequest, StoredPackage, Taken,
};
use crate::coordinator::install_artifact::{BlobDigest, PackageInstall};
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
            if reader.digest() != stored.digest {
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
        create_dir(&request.dir)?;
        copy_logs(&request.dir, &request.logs, self.logs, notes)
            .map_err(|error| format!("its logs cannot be copied: {}", cause(&error)))?;
        let Some(package) = &request.package else { return Ok(Taken::Logs) };
        self.open(request, package).map_err(|why| format!("{}: {why}", package.name))?;
        let install = package.install.as_ref().map(|install| installed(install, package));
        let is_installed = install.transpose()?.is_some();
        Ok(Taken::Package(AcceptedPackage { digest: package.digest, is_installed }))
    }

    /// Copies a package, and has it opened meanwhile.
    fn open(&mut self, request: &AcceptRequest, package: &IncomingPackage) -> Result<(), String> {
        let unreadable = |error: io::Error| format!("it cannot be copied: {}", cause(&error));
        let to = request.dir.join(&package.file.name);
        let mut copy = DigestReader::copying(&package.file.blob, &to).map_err(unreadable)?;
        let size = copy.size().map_err(unreadable)?;
        if size != package.size {
            return Err(format!("it has {size} bytes, not {}", package.size));
        }
        let inspection =
            InspectRequest { name: package.name.clone(), size, dependencies: package.dependencies.clone() };
        let most = self.least_time + Duration::from_secs(size / BYTES_PER_SECOND);
        let verdict = self.inspector.inspect(&inspection, &mut copy, most);
        // Damage is the reason for whatever else is wrong.
        let digest = io::copy(&mut copy, &mut io::sink()).map(|_| copy.digest()).map_err(unreadable)?;
        if digest != package.digest {
            return Err(format!("its digest is {digest}, not {}", package.digest));
        }
        verdict
    }
}

/// Opens a package of the expected size.
fn open(package: &StoredPackage) -> Result<DigestReader, String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {}", package.path.display(), cause(&error));
    let reader = DigestReader::open(&package.path).map_err(unreadable)?;
    match reader.size().map_err(unreadable)? == package.size {
        true => Ok(reader),
        false => Err(format!("{} has changed", package.path.display())),
    }
}

fn installed(install: &PackageInstall, package: &IncomingPackage) -> Result<(), String> {
    let install = PackageInstall { blob: BlobDigest::Known(package.digest.to_string()), ..install.clone() };
    match install.run() {
        Ok(0) => Ok(()),
        Ok(code) => Err(format!("{} cannot be installed: the hook exited with {code}", package.name)),
        Err(error) => Err(format!("{} cannot be installed: {}", package.name, cause(&error))),
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
