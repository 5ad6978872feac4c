//! The I/O threads of a client. One for each slot asks for a lease, downloads its packages, and hands both to the loop; one
//! sends heartbeats; some upload results. They own no state of the build.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use tanto_protocol::{ClientAnswer, ClientRequest, HeartbeatAnswer, Lease, RefusalCode, WorkRequest};

use super::session::{Session, unexpected};
use super::transport::{Backoff, TransportError};
use super::uploads::Uploads;
use super::workspace::Workspace;
use crate::error::BulkError;

/// From a thread to the loop.
pub enum Incoming {
    /// A slot got a lease, whose files are there.
    Lease(usize, Box<Lease>),
    Instructions(HeartbeatAnswer),
    /// The coordinator has no more work for this client.
    Refused(String),
}

/// Wakes the loop after a message.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// How long the coordinator may wait with an answer.
const LONGEST_WAIT_MS: u64 = 30_000;
/// Between two requests of a slot that got nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// One slot's thread.
pub struct Slot {
    pub number: usize,
    pub session: Arc<Session>,
    pub workspace: Arc<Workspace>,
    pub incoming: SyncSender<Incoming>,
    pub wake: Wake,
    /// The loop has finished the slot's attempt.
    pub free: Receiver<()>,
}

impl Slot {
    pub fn start(self) -> Result<(), BulkError> {
        spawn(format!("slot-{}", self.number + 1), move || self.run())
    }

    fn run(self) {
        while !self.session.is_stopping() {
            match self.take_lease() {
                Ok(Some(lease)) => {
                    if !self.send(Incoming::Lease(self.number, Box::new(lease))) || self.free.recv().is_err() {
                        return;
                    }
                }
                Ok(None) => self.session.sleep(PAUSE),
                Err(error) => {
                    self.send(Incoming::Refused(error.to_string()));
                    return;
                }
            }
        }
    }

    fn send(&self, message: Incoming) -> bool {
        let sent = self.incoming.send(message).is_ok();
        (self.wake)();
        sent
    }

    /// Asks for a lease and provides its files. A lease whose files cannot be had is not confirmed, and returns to the
    /// coordinator.
    fn take_lease(&self) -> Result<Option<Lease>, TransportError> {
        let number = self.session.next_request();
        let (memory_kib, disk_kib) = self.session.free();
        let request = |connection| {
            let wait_ms = LONGEST_WAIT_MS;
            ClientRequest::Work(WorkRequest { connection, number, slots: 1, memory_kib, disk_kib, wait_ms })
        };
        let lease = match self.session.call(request)? {
            Some(ClientAnswer::Work(answer)) => answer.leases.into_iter().next(),
            Some(other) => return Err(unexpected(&other)),
            None => None,
        };
        let Some(lease) = lease else { return Ok(None) };
        self.session.begin(lease.lease);
        match self.workspace.provide(&self.session, &lease) {
            Ok(()) => Ok(Some(lease)),
            Err(error) => {
                self.session.settled(lease.lease);
                eprintln!("tanto: {}: {error}", lease.spec.name);
                self.session.sleep(Duration::from_secs(1));
                Ok(None)
            }
        }
    }
}

/// Starts the thread that sends heartbeats.
pub fn start_heartbeats(session: Arc<Session>, incoming: SyncSender<Incoming>, wake: Wake) -> Result<(), BulkError> {
    spawn("heartbeat".into(), move || {
        let mut backoff = Backoff::default();
        while !session.is_stopping() {
            let pause = match session.heartbeat() {
                Ok(answer) => {
                    backoff.reset();
                    if answer.drain || !answer.leases.is_empty() {
                        let sent = incoming.send(Incoming::Instructions(answer));
                        wake();
                        if sent.is_err() {
                            return;
                        }
                    }
                    session.connect().map_or(Duration::ZERO, |it| Duration::from_millis(it.heartbeat_ms))
                }
                Err(TransportError::Refused(refusal)) if refusal.code == RefusalCode::Connection => Duration::ZERO,
                Err(_) => backoff.next(session.salt()),
            };
            session.sleep(pause);
        }
    })
}

/// Starts a thread that uploads results.
pub fn start_uploads(number: usize, uploads: Uploads) -> Result<(), BulkError> {
    spawn(format!("upload-{}", number + 1), move || uploads.run())
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), BulkError> {
    thread::Builder::new().name(name).spawn(work).map(drop).map_err(BulkError::of("starting a thread"))
}
