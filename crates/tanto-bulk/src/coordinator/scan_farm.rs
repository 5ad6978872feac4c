//! Lets clients scan directories, before packages are built: answers the requests that the server relays.

mod batches;

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use tanto_cas::Store;
use tanto_protocol::{
    BuildDescription, ClientAnswer, ClientRequest, ConnectionId, Digest, MAX_SCAN_RESULTS, Refusal, RefusalCode, Role,
    ScanRequest, ScannedDirectory, ToCoordinator, ToServer, TokenIdentity, decode_results,
};
use tanto_sys::random;

use self::batches::{ScanBatches, refusal};
use super::control_socket::{ControlServer, LinkEvent, Server};
use super::dispatch::connection_ended;
use super::farm::prepare::{Description, describe};
use crate::config::Config;
use crate::error::BulkError;
use crate::tree::scan::{RemoteResult, RemoteScanners, ScanError, now_ns};

/// When a directory is scanned here although a client has it, in milliseconds. Nothing else is left to do then.
const PATIENCE_MS: i64 = 10_000;

/// The clients of the scans of a command. They cannot connect before directories are scanned.
pub struct ScanFarm<'a> {
    config: &'a Config,
    /// Directories at a time on this machine.
    here: usize,
    open: Option<OpenFarm>,
}

struct OpenFarm {
    server: Server,
    scan: ConnectionId,
    description: BuildDescription,
    tree: ToServer,
    blobs: Store,
    read_ns: i64,
    /// The path of the file of MAKECONF; empty: there is none.
    makeconf: String,
    batches: ScanBatches,
    results: Vec<(String, RemoteResult)>,
    began: Instant,
}

impl<'a> ScanFarm<'a> {
    /// Returns `None` if no clients can come: they are not wanted, there is no server, or no kit for them.
    pub fn new(config: &'a Config, here: usize) -> Option<ScanFarm<'a>> {
        let has_server = || config.server_dir().join("blobs").is_dir();
        let may_come = !config.listen.is_empty() && has_server() && !Path::new(&config.bootstrapkit).is_dir();
        may_come.then_some(ScanFarm { config, here, open: None })
    }
}

impl OpenFarm {
    fn new(config: &Config) -> Result<OpenFarm, BulkError> {
        let read_ns = now_ns();
        let Description { mut build, store, source, manifest } = describe(config, 0)?;
        let scan = ConnectionId(random::bytes().map_err(BulkError::of("reading random numbers"))?);
        build.scan = Some(scan);
        let state = Path::new(&config.state);
        Ok(OpenFarm {
            server: Server::open(state).map_err(BulkError::io("listening in ", state))?,
            scan,
            description: build,
            tree: ToServer::ProvideTree { manifest, root: source.root },
            blobs: store,
            read_ns,
            makeconf: config.makeconf().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            batches: ScanBatches::new(config.rebuild_on_options),
            results: Vec::new(),
            began: Instant::now(),
        })
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn receive(&mut self) {
        // Others are answered by a build only: to them, none runs yet.
        while let Some((connection, _)) = self.server.next() {
            self.server.hang_up(connection);
        }
        while let Some(event) = self.server.next_link_event() {
            match event {
                LinkEvent::Up => {
                    self.server.send_to_server(&ToServer::Build { name: self.description.build.clone() });
                    self.server.send_to_server(&self.tree);
                }
                LinkEvent::Down(_) => self.batches.link_down(),
                LinkEvent::Message(message) => self.relayed(*message),
            }
        }
    }

    fn relayed(&mut self, message: ToCoordinator) {
        match message {
            ToCoordinator::Gone { number } => self.batches.gone(number),
            ToCoordinator::Roots { epoch } => {
                let digests = self.description.blobs().collect();
                self.server.send_to_server(&ToServer::Roots { epoch, digests });
            }
            ToCoordinator::Request { number, token, request } => {
                let answer = self.answer(number, &token, *request);
                if let Some(answer) = answer.unwrap_or_else(|refusal| Some(ClientAnswer::Refused(refusal))) {
                    self.server.send_to_server(&ToServer::Answer { number, answer });
                }
            }
        }
    }

    /// Answers a request; `None`: later. Clients that only build wait for the build.
    fn answer(
        &mut self,
        number: u64,
        token: &TokenIdentity,
        request: ClientRequest,
    ) -> Result<Option<ClientAnswer>, Refusal> {
        let is_scanner = token.roles.permit(Role::Scan);
        match request {
            ClientRequest::Describe if is_scanner => Ok(Some(ClientAnswer::Describe(self.description.clone()))),
            // A client without attempts leaves the last build. It keeps results that are not settled.
            ClientRequest::Hello(hello) if is_scanner && hello.running.is_empty() => {
                Err(refusal(RefusalCode::Environment, "the build scans its package tree"))
            }
            ClientRequest::Work(_) | ClientRequest::Heartbeat(_) if is_scanner => Err(connection_ended()),
            ClientRequest::Scan(request) => self.scan(number, token, &request).map(|()| None),
            _ => Err(refusal(RefusalCode::Unavailable, "the build scans its package tree")),
        }
    }

    fn scan(&mut self, number: u64, token: &TokenIdentity, request: &ScanRequest) -> Result<(), Refusal> {
        if request.scan != self.scan {
            return Err(refusal(RefusalCode::Environment, "this scan has ended"));
        }
        let directories = self.batches.request(self.now_ms(), &token.id, request, number)?;
        if directories.is_empty() {
            return Ok(());
        }
        let mut outputs = request.results.and_then(|digest| self.read(digest)).unwrap_or_default();
        let (all, mut scanned) = (directories.len(), 0);
        for location in directories {
            let result = match outputs.remove(&location) {
                Some(ScannedDirectory { output, wall_ms, .. }) => {
                    scanned += 1;
                    let output = with_makeconf(&output, &request.makeconf, &self.makeconf);
                    RemoteResult::Scanned { output, wall_ms }
                }
                None => RemoteResult::Failed,
            };
            self.results.push((location, result));
        }
        self.batches.reported(request.instance, scanned, all - scanned);
        Ok(())
    }

    /// Reads results by directory; `None` if they are missing or malformed.
    fn read(&self, digest: Digest) -> Option<HashMap<String, ScannedDirectory>> {
        let text = self.blobs.read_to_vec(&tanto_cas::Digest(digest.0), MAX_SCAN_RESULTS as u64).ok()?;
        let results = decode_results(&text).ok()?;
        Some(results.into_iter().map(|result| (result.location.clone(), result)).collect())
    }
}

/// Replaces the client's path of the file of MAKECONF in the lists of makefiles.
fn with_makeconf(output: &[u8], theirs: &str, ours: &str) -> Vec<u8> {
    if theirs.is_empty() || ours.is_empty() || theirs == ours {
        return output.to_vec();
    }
    let line = |line: &[u8]| match line.strip_prefix(b"SCAN_DEPENDS=") {
        None => line.to_vec(),
        Some(words) => {
            let word = |word| if word == theirs.as_bytes() { ours.as_bytes() } else { word };
            let words: Vec<&[u8]> = words.split(|&byte| byte == b' ').map(word).collect();
            [b"SCAN_DEPENDS=", &words.join(&b' ')[..]].concat()
        }
    };
    output.split(|&byte| byte == b'\n').map(line).collect::<Vec<_>>().join(&b'\n')
}

impl RemoteScanners for ScanFarm<'_> {
    fn begin(&mut self) -> Result<(), ScanError> {
        if self.open.is_none() {
            let open = OpenFarm::new(self.config).map_err(|error| ScanError::Stopped(error.to_string()))?;
            self.open = Some(open);
        }
        Ok(())
    }

    fn serve(&mut self) -> Vec<(String, RemoteResult)> {
        let Some(open) = &mut self.open else { return Vec::new() };
        open.receive();
        for (number, answer) in open.batches.take_answers(open.now_ms()) {
            open.server.send_to_server(&ToServer::Answer { number, answer: ClientAnswer::Scan(answer) });
        }
        std::mem::take(&mut open.results)
    }

    fn wanted(&self, ready: usize) -> usize {
        self.open.as_ref().map_or(0, |open| open.batches.wanted(ready, self.here))
    }

    fn give(&mut self, locations: Vec<String>) {
        let Some(open) = &mut self.open else { return };
        let now_ms = open.now_ms();
        open.batches.give(now_ms, locations);
    }

    fn take_back(&mut self) -> Option<String> {
        let open = self.open.as_mut()?;
        let now_ms = open.now_ms();
        open.batches.take_back(now_ms, PATIENCE_MS)
    }

    fn read_ns(&self) -> i64 {
        self.open.as_ref().map_or_else(now_ns, |open| open.read_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_makefiles_name_the_file_of_this_machine() {
        let output = b"PKGNAME=a-1\nSCAN_DEPENDS=/c/mk.conf Makefile /c/mk.conf.d\nX=/c/mk.conf\n";
        let expected = b"PKGNAME=a-1\nSCAN_DEPENDS=/etc/mk.conf Makefile /c/mk.conf.d\nX=/c/mk.conf\n";
        assert_eq!(with_makeconf(output, "/c/mk.conf", "/etc/mk.conf"), expected);
        assert_eq!(with_makeconf(output, "", "/etc/mk.conf"), output);
    }
}
