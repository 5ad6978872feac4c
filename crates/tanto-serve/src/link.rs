//! The long connection to a coordinator: requests of clients go out, answers come back in any order.

mod connection;
mod pending;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tanto_protocol::{
    ClientAnswer, ClientRequest, Gauge, Message, Refusal, RefusalCode, ToCoordinator, ToServer, TokenIdentity,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::pending::Pending;

/// Most requests of one build that wait for an answer.
const MAX_PENDING: usize = 16_384;
/// Most bytes of requests that wait to be written.
const MAX_QUEUED: usize = 128 << 20;

/// What a coordinator sends besides answers.
/// The next message is read when the future ends, so that files are provided before a lease that needs them.
pub(crate) type Received = dyn Fn(ToServer) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A message to the coordinator, with its share of `MAX_QUEUED` until it is written.
struct Outgoing {
    bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

/// The link to the coordinator of one build.
pub(crate) struct Link {
    build: String,
    queued: Arc<Semaphore>,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    /// `None` while there is no connection.
    outgoing: Option<mpsc::UnboundedSender<Outgoing>>,
    pending: Pending,
    gauges: Vec<Gauge>,
}

impl Link {
    pub(crate) fn new(build: String) -> Link {
        Link { build, queued: Arc::new(Semaphore::new(MAX_QUEUED)), state: Mutex::default() }
    }

    fn set_gauges(&self, gauges: Vec<Gauge>) {
        self.state().gauges = gauges;
    }

    /// Returns the numbers that the coordinator has sent last, and that of requests that wait for its answer.
    pub(crate) fn gauges(&self) -> (Vec<Gauge>, usize) {
        let state = self.state();
        (state.gauges.clone(), state.pending.len())
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state().outgoing.is_some()
    }

    /// Connects to the socket again and again, and relays. `received` gets all messages but answers; `log` gets a line
    /// for each change.
    pub(crate) async fn run(&self, entry: PathBuf, received: &Received, log: fn(&str)) {
        let mut last = String::new();
        let mut delay = Duration::from_millis(100);
        loop {
            let end = connection::run(self, &entry, received, log).await;
            self.drop_connection();
            if end.was_up {
                (last, delay) = (String::new(), Duration::from_millis(100));
            }
            let error = end.error.to_string();
            if error != last {
                log(&format!("build '{}': no coordinator: {error}", self.build));
                last = error;
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(Duration::from_secs(3));
        }
    }

    /// Sends a request and waits for the answer. The coordinator is told if the caller stops waiting.
    pub(crate) async fn ask(
        &self,
        token: TokenIdentity,
        request: ClientRequest,
        patience: Duration,
    ) -> Result<ClientAnswer, Refusal> {
        let (ticket, answer) = self.send(token, request).await?;
        let answered = tokio::time::timeout(patience, answer).await;
        match answered {
            Ok(Ok(answer)) => {
                ticket.answered();
                Ok(answer)
            }
            Ok(Err(_)) => Err(unavailable("the coordinator's connection has ended")),
            Err(_) => Err(unavailable("the coordinator does not answer")),
        }
    }

    /// Asks which blobs the build needs. Returns false if there is no connection.
    pub(crate) fn ask_roots(&self, epoch: u64) -> bool {
        if let Ok(bytes) = (ToCoordinator::Roots { epoch }).encode() {
            self.write(Outgoing { bytes, _share: None });
        }
        self.is_up()
    }

    async fn send(
        &self,
        token: TokenIdentity,
        request: ClientRequest,
    ) -> Result<(Ticket<'_>, oneshot::Receiver<ClientAnswer>), Refusal> {
        let (number, answer) = {
            let mut state = self.state();
            if state.outgoing.is_none() {
                return Err(unavailable("the coordinator is not running"));
            }
            state.pending.add().ok_or_else(|| busy("too many requests wait for the coordinator"))?
        };
        let ticket = Ticket { link: self, number, is_answered: false };
        let message = ToCoordinator::Request { number, token, request: Box::new(request) };
        let bytes = message.encode().map_err(|error| invalid(&error.to_string()))?;
        let share = self.queued.clone().acquire_many_owned(bytes.len() as u32).await;
        let share = share.map_err(|_| unavailable("the server is ending"))?;
        self.write(Outgoing { bytes, _share: Some(share) });
        Ok((ticket, answer))
    }

    /// Queues a message. Without a connection it is dropped, as are all that wait for answers.
    fn write(&self, message: Outgoing) {
        if let Some(outgoing) = &self.state().outgoing {
            let _ = outgoing.send(message);
        }
    }

    fn answer(&self, number: u64, answer: ClientAnswer) {
        self.state().pending.answer(number, answer);
    }

    fn drop_connection(&self) {
        let mut state = self.state();
        state.outgoing = None;
        state.gauges.clear();
        state.pending.clear();
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits. Dropped without an answer, it tells the coordinator.
struct Ticket<'a> {
    link: &'a Link,
    number: u64,
    is_answered: bool,
}

impl Ticket<'_> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let was_pending = self.link.state().pending.remove(self.number);
        if self.is_answered || !was_pending {
            return;
        }
        if let Ok(bytes) = (ToCoordinator::Gone { number: self.number }).encode() {
            self.link.write(Outgoing { bytes, _share: None });
        }
    }
}

fn unavailable(message: &str) -> Refusal {
    Refusal { code: RefusalCode::Unavailable, message: message.to_owned() }
}

fn busy(message: &str) -> Refusal {
    Refusal { code: RefusalCode::Busy, message: message.to_owned() }
}

fn invalid(message: &str) -> Refusal {
    Refusal { code: RefusalCode::Invalid, message: message.to_owned() }
}
