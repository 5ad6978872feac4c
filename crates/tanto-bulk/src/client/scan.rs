//! Scans directories for a build that has not begun yet.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tanto_exec::clock::RealClock;
use tanto_exec::run::BuildOutcome;
use tanto_protocol::{
    ClientAnswer, ClientRequest, ConnectionId, Digest, InstanceId, RefusalCode, ScanAnswer, ScanRequest,
    ScannedDirectory, encode_results,
};

use super::ClientEnd;
use super::transport::{Transport, TransportError};
use crate::attempt::environment::Environment;
use crate::config::Config;
use crate::coordinator::phases::{self, NoView};
use crate::error::BulkError;
use crate::tree::scan::{BatchScanner, ScanError};

/// How long a request may wait.
const WAIT: Duration = Duration::from_secs(20);
/// The file with the results of a batch, in the directory of the client.
const RESULTS: &str = "scan-results";

/// A client of a scan.
pub struct ScanClient<'a> {
    pub config: &'a Config,
    pub environment: Option<&'a Rc<Environment>>,
    pub transport: &'a dyn Transport,
    pub scan: ConnectionId,
    pub instance: InstanceId,
    pub slots: u32,
    /// Contains the client's files.
    pub dir: &'a Path,
    /// The client leaves after this time without directories.
    pub max_idle: Option<Duration>,
}

impl ScanClient<'_> {
    /// Scans directories until the scan has ended, or the coordinator cannot be reached.
    pub fn run(&self) -> Result<ClientEnd, BulkError> {
        let facts = phases::platform_facts(self.config, self.environment);
        let scanner = BatchScanner::new(self.config, &facts)?;
        let (mut number, mut results, mut idle_since) = (1, None, Instant::now());
        loop {
            let ScanAnswer { directories, options } = match self.ask(number, results.take()) {
                Ok(answer) => answer,
                Err(error) if has_ended(&error) => return Ok(ClientEnd::Scanned),
                Err(error) => return Err(BulkError::Invalid(error.to_string())),
            };
            number += 1;
            if directories.is_empty() {
                if self.max_idle.is_some_and(|longest| idle_since.elapsed() >= longest) {
                    return Ok(ClientEnd::Ended(BuildOutcome::Succeeded));
                }
                continue;
            }
            let scanned = match self.scan(&scanner, &directories, options) {
                Err(ScanError::Interrupted) => return Ok(ClientEnd::Ended(BuildOutcome::Interrupted)),
                scanned => scanned?,
            };
            println!("scanned {} of {} directories", scanned.len(), directories.len());
            results = match self.upload(&scanned) {
                Ok(digest) => Some(digest),
                Err(TransportError::Failed(why)) => return Err(BulkError::Invalid(why)),
                // The coordinator has them scanned again.
                Err(_) => None,
            };
            idle_since = Instant::now();
        }
    }

    fn ask(&self, number: u64, results: Option<Digest>) -> Result<ScanAnswer, TransportError> {
        let makeconf = self.config.makeconf().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let request = ScanRequest {
            scan: self.scan,
            instance: self.instance,
            number,
            slots: self.slots,
            wait_ms: u64::try_from(WAIT.as_millis()).unwrap_or(0),
            makeconf,
            results,
        };
        match self.transport.request(ClientRequest::Scan(request))? {
            ClientAnswer::Scan(answer) => Ok(answer),
            _ => Err(TransportError::Failed("the server's answer is that to another request".to_owned())),
        }
    }

    /// The runner ends with the batch, so that a signal between two batches ends the client.
    fn scan(
        &self,
        scanner: &BatchScanner<'_>,
        directories: &[String],
        options: bool,
    ) -> Result<Vec<ScannedDirectory>, ScanError> {
        let stopped = |error: BulkError| ScanError::Stopped(error.to_string());
        let mut runner = phases::scan_runner(self.config).map_err(stopped)?;
        phases::use_sandboxes(&mut runner, self.config, self.environment);
        scanner.run((directories, options), &mut runner, &mut NoView, &RealClock::start())
    }

    fn upload(&self, scanned: &[ScannedDirectory]) -> Result<Digest, TransportError> {
        let text = encode_results(scanned);
        let path = self.dir.join(RESULTS);
        let failed = |error| TransportError::Failed(BulkError::io("writing ", &path)(error).to_string());
        fs::write(&path, &text).map_err(failed)?;
        let digest = Digest(tanto_cas::Digest::of(&text).0);
        self.transport.upload(digest, &path, &|_| ()).map(|()| digest)
    }
}

/// The client describes the build again, and waits for it.
fn has_ended(error: &TransportError) -> bool {
    error.is_temporary()
        || matches!(error, TransportError::Refused(refusal) if refusal.code == RefusalCode::Environment)
}
