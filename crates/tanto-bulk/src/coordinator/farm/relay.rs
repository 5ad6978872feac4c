//! Answers the requests that the server relays, and names the files that clients may read.

use std::path::PathBuf;

use tanto_protocol::{
    ClientAnswer, ClientRequest, Digest, HelloAnswer, PackageBlob, ProvidedFile, Refusal, RefusalCode, ResultAnswer,
    Role, ToCoordinator, ToServer, TokenIdentity,
};
use tanto_sys::random;

use crate::coordinator::frontend::Coordinator;
use crate::package::ALL;

/// Files that are named to the server in one message.
const MAX_PROVIDED: usize = 10_000;

impl Coordinator<'_> {
    pub(super) fn link_up(&mut self, now_ms: i64) {
        let Some(farm) = &self.farm else { return };
        self.dispatch.link_up(now_ms);
        self.control.send_to_server(&ToServer::Build { name: farm.description.build.clone() });
        farm.tree.all_provided().iter().for_each(|tree| self.control.send_to_server(tree));
        let packages = farm.packages.values().map(|blob| self.provided(blob));
        let files: Vec<ProvidedFile> = packages.chain(farm.distfiles.all_provided()).collect();
        for files in files.chunks(MAX_PROVIDED) {
            self.control.send_to_server(&ToServer::Provide { files: files.to_vec() });
        }
    }

    pub(super) fn link_down(&mut self, now_ms: i64) {
        self.dispatch.link_down(now_ms);
        if let Some(farm) = &mut self.farm {
            farm.answers.clear();
            farm.settlements.clear();
        }
    }

    pub(super) fn provided(&self, blob: &PackageBlob) -> ProvidedFile {
        let path = PathBuf::from(format!("{}/{ALL}/{}{}", self.settings.packages, blob.name, self.settings.suffix));
        ProvidedFile { digest: blob.digest, size: blob.size, path }
    }

    /// Clients may read a package that was installed.
    pub(in crate::coordinator) fn provide_package(&mut self, name: &str, digest: Digest, size: u64) {
        let blob = PackageBlob { name: name.to_owned(), digest, size };
        let files = vec![self.provided(&blob)];
        if let Some(farm) = &mut self.farm {
            farm.packages.insert(name.to_owned(), blob);
            self.control.send_to_server(&ToServer::Provide { files });
        }
    }

    pub(super) fn relayed(&mut self, now_ms: i64, message: ToCoordinator) {
        match message {
            ToCoordinator::Gone { number } => self.gone(number),
            ToCoordinator::Roots { epoch } => self.send_roots(epoch),
            ToCoordinator::Request { number, token, request } => {
                let answer = self.answer(now_ms, number, &token, *request);
                if let (Some(answer), Some(farm)) = (answer, &mut self.farm) {
                    farm.answers.add(number, answer);
                }
            }
        }
    }

    /// The client of a request has gone.
    fn gone(&mut self, request: u64) {
        self.dispatch.gone(request);
        if let Some(farm) = &mut self.farm {
            farm.settlements.remove(request);
        }
    }

    /// Answers a request; `None`: later.
    pub(super) fn answer(
        &mut self,
        now_ms: i64,
        number: u64,
        token: &TokenIdentity,
        request: ClientRequest,
    ) -> Option<ClientAnswer> {
        let farm = self.farm.as_mut()?;
        let answer = match request {
            ClientRequest::Describe if token.roles.permit(Role::Build) => {
                Ok(ClientAnswer::Describe(farm.description.clone()))
            }
            // Clients that only scan wait for the next scan.
            ClientRequest::Describe | ClientRequest::Scan(_) => Err(unavailable("nothing is scanned now")),
            ClientRequest::Hello(hello) => match random::bytes() {
                Ok(id) => {
                    let (own, id) = (&farm.description.environment, tanto_protocol::ConnectionId(id));
                    let blobs = farm.description.blobs.clone();
                    let answer = self.dispatch.hello(now_ms, token, &hello, own, id);
                    answer.map(|answer| ClientAnswer::Hello(HelloAnswer { blobs, ..answer }))
                }
                Err(_) => Err(unavailable("no random numbers are available")),
            },
            ClientRequest::Work(work) => match self.dispatch.work(now_ms, token, &work, number) {
                Ok(()) => return None,
                Err(refusal) => Err(refusal),
            },
            ClientRequest::Heartbeat(heartbeat) => {
                self.dispatch.heartbeat(now_ms, token, &heartbeat).map(ClientAnswer::Heartbeat)
            }
            ClientRequest::Result(mut report) => {
                let (connection, lease) = (report.connection, report.lease);
                let package = self.dispatch.lease(lease).map(|it| self.plan.package(it.package));
                farm.distfiles.retain_wanted(package.map_or("", |it| &it.location), &mut report.distfiles);
                let is_awaited = self.dispatch.lease(lease).is_some_and(|it| it.state().is_active());
                let answer = self.dispatch.result(now_ms, token, connection, lease, || farm.missing(&report));
                if answer == Ok(ResultAnswer::Pending) {
                    if is_awaited {
                        farm.reports.insert(lease, report);
                    }
                    farm.settlements.add(now_ms, number, lease);
                    return None;
                }
                answer.map(ClientAnswer::Result)
            }
            ClientRequest::Bye(bye) => self.dispatch.bye(now_ms, token, &bye).map(|()| ClientAnswer::Bye),
        };
        Some(answer.unwrap_or_else(ClientAnswer::Refused))
    }

    /// Sends the answers that need not wait for the journal any more.
    pub(super) fn answer_clients(&mut self, now_ms: i64) {
        self.record_leases();
        let Some(farm) = &mut self.farm else { return };
        for (number, answer) in self.dispatch.take_answers(now_ms, "no package can start now") {
            farm.answers.add(number, answer.map_or_else(ClientAnswer::Refused, ClientAnswer::Work));
        }
        for (number, answer) in farm.settlements.take(now_ms, |lease| self.dispatch.settlement(lease)) {
            farm.answers.add(number, ClientAnswer::Result(answer));
        }
        for (number, answer) in farm.answers.take(self.last_result.committed()) {
            self.control.send_to_server(&ToServer::Answer { number, answer });
        }
    }
}

fn unavailable(message: &str) -> Refusal {
    Refusal { code: RefusalCode::Unavailable, message: message.to_owned() }
}
