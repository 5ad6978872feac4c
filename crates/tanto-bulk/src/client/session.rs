//! The client's connection to the coordinator, which the I/O threads share: says hello again when the connection is lost,
//! repeats requests that did not arrive, and keeps the progress of all leases for heartbeats.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tanto_protocol::{
    Backoff, Bye, ClientAnswer, ClientRequest, ConnectionId, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, LeaseId,
    LeaseProgress, MAX_LEASES, RefusalCode, StageResult,
};

use tanto_sys::random;

use super::output;
use super::transport::{Transport, TransportError};

/// Memory and disk space that are free, in KiB.
pub type FreeResources = (u64, u64);

/// See the module.
pub struct ClientSession {
    transport: Arc<dyn Transport>,
    hello: Hello,
    free: Box<dyn Fn() -> FreeResources + Send + Sync>,
    state: Mutex<State>,
    requests: AtomicU64,
    is_stopping: AtomicBool,
    /// Signaled when the client stops.
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    connection: Option<HelloAnswer>,
    heartbeats: u64,
    /// Leases whose attempts run.
    running: BTreeMap<LeaseId, Running>,
    /// Leases whose results are not settled.
    held: BTreeMap<LeaseId, LeaseProgress>,
}

struct Running {
    progress: LeaseProgress,
    stage_began: Instant,
}

/// What a heartbeat has told of a lease.
struct Reported {
    lease: LeaseId,
    stage: String,
    ended: usize,
    distfiles: usize,
    /// The end of its output in that of the stage.
    output_end: u64,
}

impl Reported {
    fn of(progress: &LeaseProgress) -> Reported {
        let output_end = progress.output_at + progress.output_bytes;
        let (ended, distfiles) = (progress.ended.len(), progress.distfiles.len());
        Reported { lease: progress.lease, stage: progress.stage.clone(), ended, distfiles, output_end }
    }
}

impl ClientSession {
    pub fn new(
        transport: Arc<dyn Transport>,
        hello: Hello,
        held: impl IntoIterator<Item = LeaseId>,
        free: Box<dyn Fn() -> FreeResources + Send + Sync>,
    ) -> ClientSession {
        let state = State {
            held: held.into_iter().map(|lease| (lease, LeaseProgress::new(lease))).collect(),
            ..State::default()
        };
        ClientSession {
            transport,
            hello,
            free,
            state: Mutex::new(state),
            requests: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            stopped: Condvar::new(),
        }
    }

    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Free memory and disk space, in KiB.
    pub fn free(&self) -> FreeResources {
        (self.free)()
    }

    /// Returns the number of a new request for work.
    pub fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Says hello, unless a connection exists.
    pub fn connect(&self) -> Result<HelloAnswer, TransportError> {
        let mut state = self.lock();
        if let Some(connection) = &state.connection {
            return Ok(connection.clone());
        }
        let hello = Hello {
            running: state.running.keys().copied().collect(),
            held: state.held.keys().copied().collect(),
            ..self.hello.clone()
        };
        match self.transport.request(ClientRequest::Hello(Box::new(hello)))? {
            ClientAnswer::Hello(answer) => {
                state.connection = Some(answer.clone());
                Ok(answer)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Says hello until that is answered or refused.
    pub fn join(&self) -> Result<(), TransportError> {
        let mut backoff = Backoff::default();
        loop {
            match self.connect() {
                Err(error) if error.is_temporary() => self.sleep(next_delay(&mut backoff)),
                result => return result.map(drop),
            }
        }
    }

    /// Sends a request on the connection until it is answered. Returns `None` when the client stops.
    pub fn call(
        &self,
        request: impl Fn(ConnectionId) -> ClientRequest,
    ) -> Result<Option<ClientAnswer>, TransportError> {
        let mut backoff = Backoff::default();
        while !self.is_stopping() {
            let answer = self.connect().and_then(|connection| {
                let answer = self.transport.request(request(connection.connection));
                self.forget_ended(&answer, connection.connection);
                answer
            });
            match answer {
                Ok(answer) => return Ok(Some(answer)),
                Err(TransportError::Refused(refusal)) if refusal.code == RefusalCode::Connection => {}
                Err(error) if !error.is_temporary() => return Err(error),
                Err(_) => {}
            }
            self.sleep(next_delay(&mut backoff));
        }
        Ok(None)
    }

    /// Forgets a connection that the coordinator no longer knows.
    fn forget_ended(&self, answer: &Result<ClientAnswer, TransportError>, connection: ConnectionId) {
        let Err(TransportError::Refused(refusal)) = answer else { return };
        if refusal.code == RefusalCode::Connection {
            let mut state = self.lock();
            state.connection.take_if(|it| it.connection == connection);
        }
    }

    /// Sends a heartbeat.
    pub fn heartbeat(&self) -> Result<HeartbeatAnswer, TransportError> {
        let connection = self.connect()?.connection;
        let heartbeat = self.next_heartbeat(connection);
        let reported: Vec<Reported> = heartbeat.leases.iter().map(Reported::of).collect();
        let answer = self.transport.request(ClientRequest::Heartbeat(heartbeat));
        self.forget_ended(&answer, connection);
        match answer? {
            ClientAnswer::Heartbeat(answer) => {
                self.forget_reported(&reported);
                Ok(answer)
            }
            other => Err(unexpected(&other)),
        }
    }

    fn next_heartbeat(&self, connection: ConnectionId) -> Heartbeat {
        let (memory_kib, disk_kib) = self.free();
        let mut state = self.lock();
        state.heartbeats += 1;
        let progress = |it: &Running| {
            let stage_ms = u64::try_from(it.stage_began.elapsed().as_millis()).unwrap_or(u64::MAX);
            LeaseProgress { stage_ms, ..it.progress.clone() }
        };
        let number = state.heartbeats;
        let leases = state.running.values().map(progress).chain(state.held.values().cloned());
        let leases = leases.take(MAX_LEASES).collect();
        Heartbeat { connection, number, memory_kib, disk_kib, leases }
    }

    fn forget_reported(&self, reported: &[Reported]) {
        let mut state = self.lock();
        for it in reported {
            if let Some(Running { progress, .. }) = state.running.get_mut(&it.lease) {
                progress.ended.drain(..it.ended.min(progress.ended.len()));
                progress.distfiles.drain(..it.distfiles.min(progress.distfiles.len()));
                if progress.stage == it.stage {
                    output::arrived(progress, it.output_end);
                }
            }
        }
    }

    /// Records that a lease was taken.
    pub fn begin(&self, lease: LeaseId) {
        let running = Running { progress: LeaseProgress::new(lease), stage_began: Instant::now() };
        self.lock().running.insert(lease, running);
    }

    /// Records that a stage begins after the one that has ended.
    pub fn stage_begins(&self, lease: LeaseId, stage: &str, ended: Option<StageResult>) {
        if let Some(running) = self.lock().running.get_mut(&lease) {
            running.stage_began = Instant::now();
            running.progress.stage = stage.to_owned();
            output::clear(&mut running.progress);
            running.progress.ended.extend(ended);
        }
    }

    /// Changes the progress of a running attempt.
    pub fn update(&self, lease: LeaseId, change: impl FnOnce(&mut LeaseProgress)) {
        if let Some(running) = self.lock().running.get_mut(&lease) {
            change(&mut running.progress);
        }
    }

    /// Records that an attempt has ended. Returns the stages that were not reported. Its result is held until it is settled.
    pub fn end(&self, lease: LeaseId) -> Vec<StageResult> {
        let mut state = self.lock();
        let last = state.running.remove(&lease).map_or_else(|| LeaseProgress::new(lease), |it| it.progress);
        state.held.insert(lease, LeaseProgress { cpu_ms: last.cpu_ms, ..LeaseProgress::new(lease) });
        last.ended
    }

    /// Records that bytes of a result were sent.
    pub fn sent(&self, lease: LeaseId, bytes: u64) {
        if let Some(progress) = self.lock().held.get_mut(&lease) {
            progress.sent_bytes = progress.sent_bytes.saturating_add(bytes);
        }
    }

    /// Returns the bytes sent of the results that are not settled.
    pub fn sent_bytes(&self) -> u64 {
        self.lock().held.values().map(|progress| progress.sent_bytes).fold(0, u64::saturating_add)
    }

    /// Forgets a lease.
    pub fn settled(&self, lease: LeaseId) {
        let mut state = self.lock();
        state.held.remove(&lease);
        state.running.remove(&lease);
    }

    /// Whether results are not settled.
    pub fn holds_results(&self) -> bool {
        !self.lock().held.is_empty()
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Makes all threads stop, and says goodbye. The coordinator opens the packages of running attempts again.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.stopped.notify_all();
        let connection = self.lock().connection.take();
        if let Some(HelloAnswer { connection, .. }) = connection {
            // Without it, the coordinator waits until the lease time is over.
            let _ = self.transport.request(ClientRequest::Bye(Bye { connection }));
        }
    }

    /// Waits, but not longer than the client lives.
    pub fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while !self.is_stopping() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.stopped.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the next delay; the longest one without random numbers.
pub(super) fn next_delay(backoff: &mut Backoff) -> Duration {
    backoff.delay(random::bytes().map_or(u16::MAX, u16::from_le_bytes))
}

pub(super) fn unexpected(answer: &ClientAnswer) -> TransportError {
    TransportError::Failed(format!("the server gave an unexpected answer: {answer:?}").chars().take(200).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    use tanto_protocol::{Digest, InstanceId};

    use crate::client::trees::NewTree;

    /// Answers hello, and keeps the last heartbeat.
    #[derive(Default)]
    struct Server {
        last: Mutex<Option<Heartbeat>>,
    }

    impl Transport for Server {
        fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError> {
            match request {
                ClientRequest::Hello(_) => Ok(ClientAnswer::Hello(HelloAnswer {
                    connection: ConnectionId([1; 16]),
                    heartbeat_ms: 1,
                    missing_ms: 1,
                    warnings: Vec::new(),
                    blobs: String::new(),
                })),
                ClientRequest::Heartbeat(heartbeat) => {
                    *self.last.lock().unwrap() = Some(heartbeat);
                    Ok(ClientAnswer::Heartbeat(HeartbeatAnswer::default()))
                }
                other => Err(TransportError::Failed(format!("{other:?}"))),
            }
        }

        fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError> {
            Ok(digests.to_vec())
        }

        fn fetch_blobs(&self, _: &[Digest], _: &tanto_cas::Store, _: &Path) -> Result<(), TransportError> {
            Ok(())
        }

        fn take_warning(&self) -> Option<String> {
            None
        }

        fn download(&self, _: Digest, _: u64, _: &Path) -> Result<(), TransportError> {
            Ok(())
        }

        fn fetch_tree(&self, _: &NewTree) -> Result<(), TransportError> {
            Ok(())
        }

        fn upload(&self, _: Digest, _: &Path, _: &dyn Fn(u64)) -> Result<(), TransportError> {
            Ok(())
        }

        fn upload_pack(&self, _: &[(Digest, &Path)], _: &dyn Fn(u64)) -> Result<(), TransportError> {
            Ok(())
        }
    }

    pub fn hello() -> Hello {
        Hello {
            version: "1".into(),
            name: "a".into(),
            instance: InstanceId([0; 16]),
            replace: false,
            slots: 1,
            cpus: 1,
            memory_kib: 1,
            disk_kib: 1,
            environment: Default::default(),
            labels: Vec::new(),
            root: false,
            running: Vec::new(),
            held: Vec::new(),
        }
    }

    #[test]
    fn heartbeats_list_results_until_they_are_settled() {
        let [earlier, lease] = [1, 2].map(|number| LeaseId([number; 16]));
        let server = Arc::new(Server::default());
        let transport = Arc::clone(&server) as Arc<dyn Transport>;
        let session = ClientSession::new(transport, hello(), [earlier], Box::new(|| (1, 1)));
        let listed = || {
            session.heartbeat().unwrap();
            let heartbeat = server.last.lock().unwrap().take().unwrap();
            let progress = |it: LeaseProgress| (it.lease, it.stage, it.cpu_ms, it.sent_bytes);
            heartbeat.leases.into_iter().map(progress).collect::<Vec<_>>()
        };
        session.begin(lease);
        session.stage_begins(lease, "build", None);
        session.update(lease, |progress| progress.cpu_ms = 7);
        let of_earlier = (earlier, String::new(), 0, 0);
        assert_eq!(listed(), [(lease, "build".into(), 7, 0), of_earlier.clone()]);
        session.end(lease);
        session.sent(lease, 100);
        session.sent(lease, 50);
        assert_eq!(listed(), [of_earlier, (lease, String::new(), 7, 150)]);
        session.settled(earlier);
        session.settled(lease);
        assert_eq!(listed(), []);
    }
}
