//! The I/O threads of a client: two ask for leases, one for each slot provides the files of a lease, one sends heartbeats, and
//! some upload results. They own no state of the build.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tanto_protocol::{
    AttemptOutcome, AttemptResult, Backoff, ClientAnswer, ClientRequest, HeartbeatAnswer, Lease, LeaseAction,
    RefusalCode, WorkRequest,
};

use super::distfiles::ClientDistfiles;
use super::session::{ClientSession, next_delay, unexpected};
use super::transport::TransportError;
use super::uploads::{HeldResult, Upload, Uploads};
use super::workspace::{LeaseFiles, ProvideError, Workspace};
use crate::error::BulkError;

/// From a thread to the loop.
pub enum Incoming {
    /// A slot got a lease, whose files are there.
    Lease(usize, Box<Lease>, LeaseFiles),
    Instructions(HeartbeatAnswer),
    /// For the user.
    Warning(String),
    /// The coordinator has another environment.
    Outdated(String),
    /// The coordinator refuses the client.
    Refused(String),
}

impl Incoming {
    fn refused(error: &TransportError) -> Incoming {
        match error {
            TransportError::Refused(refusal) if refusal.code == RefusalCode::Environment => {
                Incoming::Outdated(refusal.message.clone())
            }
            error => Incoming::Refused(error.to_string()),
        }
    }
}

/// Sends a message to the loop and wakes it.
#[derive(Clone)]
pub struct ToLoop {
    pub messages: SyncSender<Incoming>,
    pub wake: Arc<dyn Fn() + Send + Sync>,
}

impl ToLoop {
    /// Returns whether the loop still runs.
    fn send(&self, message: Incoming) -> bool {
        let sent = self.messages.send(message).is_ok();
        (self.wake)();
        sent
    }
}

/// The free slots. A request for work that waits is replaced when another slot becomes free.
pub struct Demand {
    state: Mutex<DemandState>,
    changed: Condvar,
}

struct DemandState {
    free: u32,
    /// Counts the changes of `free`.
    version: u64,
    /// The version that was asked for last.
    asked: u64,
}

impl Demand {
    pub fn new(free: u32) -> Demand {
        Demand { state: Mutex::new(DemandState { free, version: 1, asked: 0 }), changed: Condvar::new() }
    }

    /// A slot is free again.
    pub fn release(&self) {
        let mut state = self.lock();
        state.free += 1;
        state.version += 1;
        self.changed.notify_one();
    }

    /// Waits for a demand that was not asked for. Returns its version and the number of slots.
    fn next(&self) -> (u64, u32) {
        let mut state = self.lock();
        while state.free == 0 || state.asked == state.version {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asked = state.version;
        (state.version, state.free)
    }

    /// The request for a version was answered with so many leases.
    fn answered(&self, version: u64, leases: u32) {
        let mut state = self.lock();
        state.free = state.free.saturating_sub(leases);
        if state.asked == version {
            // Nobody else has asked since.
            state.asked = 0;
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, DemandState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks for leases. Two threads do: while the request of one waits, the other can replace it.
pub struct Asker {
    pub session: Arc<ClientSession>,
    pub demand: Arc<Demand>,
    pub leases: SyncSender<Lease>,
    pub to_loop: ToLoop,
}

/// How long the coordinator may wait with an answer.
const LONGEST_WAIT_MS: u64 = 30_000;

impl Asker {
    pub fn start(self, number: usize) -> Result<(), BulkError> {
        spawn(format!("work-{}", number + 1), move || self.run())
    }

    fn run(self) {
        while !self.session.is_stopping() {
            let (version, slots) = self.demand.next();
            match self.ask(slots) {
                Ok(leases) => {
                    self.demand.answered(version, leases.len() as u32);
                    for lease in leases {
                        self.session.begin(lease.lease);
                        if self.leases.send(lease).is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    self.to_loop.send(Incoming::refused(&error));
                    return;
                }
            }
        }
    }

    fn ask(&self, slots: u32) -> Result<Vec<Lease>, TransportError> {
        let number = self.session.next_request();
        let (memory_kib, disk_kib) = self.session.free();
        let request = |connection| {
            ClientRequest::Work(WorkRequest {
                connection,
                number,
                slots,
                memory_kib,
                disk_kib,
                wait_ms: LONGEST_WAIT_MS,
            })
        };
        match self.session.call(request)? {
            Some(ClientAnswer::Work(answer)) => Ok(answer.leases),
            Some(other) => Err(unexpected(&other)),
            None => Ok(Vec::new()),
        }
    }
}

/// A slot: provides the files of a lease, and waits until the loop has finished the attempt.
pub struct Slot {
    pub number: usize,
    pub session: Arc<ClientSession>,
    pub workspace: Arc<Workspace>,
    pub distfiles: Arc<ClientDistfiles>,
    pub demand: Arc<Demand>,
    pub leases: Arc<Mutex<Receiver<Lease>>>,
    pub to_loop: ToLoop,
    /// For leases without an attempt.
    pub uploads: Sender<Upload>,
    /// Contains the directories of attempts.
    pub logs: PathBuf,
    /// The suffix of binary packages.
    pub suffix: String,
    /// The loop has finished the slot's attempt.
    pub finished: Receiver<()>,
}

impl Slot {
    pub fn start(self) -> Result<(), BulkError> {
        spawn(format!("slot-{}", self.number + 1), move || self.run())
    }

    fn run(self) {
        loop {
            let next = self.leases.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(lease) = next else { return };
            let provided = self.provide(&lease);
            if provided.is_ok() {
                self.provide_distfiles(&lease);
            }
            if let Some(text) = self.session.transport().take_warning() {
                self.to_loop.send(Incoming::Warning(text));
            }
            match provided {
                Ok(files) => {
                    let sent = self.to_loop.send(Incoming::Lease(self.number, Box::new(lease), files));
                    if !sent || self.finished.recv().is_err() {
                        return;
                    }
                }
                Err(outcome) => self.fail(&lease, outcome),
            }
            self.workspace.trees.remove_unused();
            self.demand.release();
        }
    }

    fn provide(&self, lease: &Lease) -> Result<LeaseFiles, AttemptOutcome> {
        let failed = |why| AttemptOutcome::MachineFailed { why };
        if let Some(feature) = lease.features.first() {
            return Err(failed(format!("it needs a client with the feature '{feature}'")));
        }
        let tree = lease.tree.ok_or_else(|| failed("it names no package tree".to_owned()))?;
        self.workspace.provide(&self.session, (tree, &lease.packages), &self.suffix).map_err(|error| match error {
            ProvideError::Tree(error) if error.is_missing_blob() => {
                AttemptOutcome::TreeChanged { why: error.to_string() }
            }
            ProvideError::Tree(error) => failed(format!("its package tree cannot be downloaded: {error}")),
            ProvideError::Packages(error) => failed(format!("its packages cannot be downloaded: {error}")),
        })
    }

    /// The attempt fetches those that cannot be downloaded.
    fn provide_distfiles(&self, lease: &Lease) {
        if let Err(error) = self.distfiles.provide(&self.session, &lease.distfiles) {
            let text = format!("{}: distfiles cannot be read from the server: {error}", lease.spec.name);
            self.to_loop.send(Incoming::Warning(text));
        }
    }

    /// Reports an attempt that cannot begin.
    fn fail(&self, lease: &Lease, outcome: AttemptOutcome) {
        let result = AttemptResult::of(outcome);
        let dir = self.logs.join(&lease.spec.name).join(lease.lease.to_string());
        let held = HeldResult { lease: lease.lease, result, dir, distfiles: Vec::new() };
        self.session.end(lease.lease);
        if held.save().is_err() || self.uploads.send(Upload::Result(held.into())).is_err() {
            // The coordinator gives it up when it makes no progress.
            self.session.settled(lease.lease);
        }
    }
}

/// The interval of heartbeats while somebody follows the output of an attempt.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the thread that sends heartbeats.
pub fn start_heartbeats(session: Arc<ClientSession>, to_loop: ToLoop) -> Result<(), BulkError> {
    spawn("heartbeat".into(), move || {
        let mut backoff = Backoff::default();
        while !session.is_stopping() {
            let pause = match session.heartbeat() {
                Ok(answer) => {
                    backoff.reset();
                    let is_followed = answer.leases.iter().any(|it| it.action == LeaseAction::Follow);
                    if (answer.drain || !answer.leases.is_empty()) && !to_loop.send(Incoming::Instructions(answer)) {
                        return;
                    }
                    let pause = session.connect().map_or(Duration::ZERO, |it| Duration::from_millis(it.heartbeat_ms));
                    if is_followed { pause.min(FOLLOW_INTERVAL) } else { pause }
                }
                Err(TransportError::Refused(refusal)) if refusal.code == RefusalCode::Connection => Duration::ZERO,
                Err(TransportError::Refused(refusal)) if refusal.code == RefusalCode::Environment => {
                    to_loop.send(Incoming::Outdated(refusal.message));
                    return;
                }
                Err(_) => next_delay(&mut backoff),
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
