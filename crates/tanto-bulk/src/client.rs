//! A client of a bulk build on another machine: builds the packages of its leases with the run loop, sandboxes and limits of
//! a local build.

mod distfiles;
mod frontend;
mod held;
mod output;
mod package_cache;
mod scan;
mod session;
mod slots;
pub mod transport;
pub mod trees;
mod uploads;
mod workspace;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tanto_exec::clock::RealClock;
use tanto_exec::event::View;
use tanto_exec::run::{self, BuildOutcome};
use tanto_exec::runner::process::{ProcessRunner, RunnerOptions};
use tanto_exec::schedule::{ResourceSample, Schedule};
use tanto_protocol::{Hello, RefusalCode};

use self::distfiles::ClientDistfiles;
use self::frontend::{ClientFrontend, ClientState};
pub use self::scan::ScanClient;
use self::session::ClientSession;
use self::slots::{Asker, Demand, Incoming, Slot, ToLoop};
use self::transport::{Transport, TransportError};
use self::uploads::{HeldResult, Upload, Uploads};
pub use self::workspace::Workspace;
use crate::attempt::build_settings::BuildSettings;
use crate::attempt::runner::AttemptRunner;
use crate::error::{BulkError, cause};

/// The parts of a client that does not yet run.
pub struct BuildClient<'a> {
    pub settings: &'a BuildSettings,
    pub runner: RunnerOptions,
    pub transport: Arc<dyn Transport>,
    pub hello: Hello,
    pub workspace: Arc<Workspace>,
    /// Contains the client's files.
    pub dir: PathBuf,
    /// The client leaves after this time without a package.
    pub max_idle: Option<Duration>,
    /// Returns free memory in KiB.
    pub free_memory: fn() -> u64,
}

/// How a client ended.
#[derive(Debug)]
pub enum ClientEnd {
    Ended(BuildOutcome),
    /// The coordinator has another environment, described by this text.
    Outdated(String),
    /// The scan of the tree has ended, and packages may follow.
    Scanned,
}

/// Threads that ask for work.
const ASKERS: usize = 2;
/// Results that are uploaded at a time.
const UPLOADS: usize = 4;
/// The capacity of the channel to the loop, for each slot.
const MESSAGES: usize = 4;

impl BuildClient<'_> {
    /// Builds packages until the coordinator drains or refuses the client, or a signal interrupts it. The process is in its
    /// mount namespace.
    pub fn run(self, view: &mut dyn View) -> Result<ClientEnd, BulkError> {
        let BuildClient { settings, runner, transport, hello, workspace, dir, max_idle, free_memory } = self;
        let failed = |error| BulkError::io("opening ", &dir)(error);
        let held = held::results(Path::new(&settings.logs), SystemTime::now(), held::QUOTA);
        let slots = hello.slots;
        let leases: Vec<_> = held.iter().map(|it| it.lease).collect();
        let hello = Hello { disk_kib: workspace.free_kib(), ..hello };
        let files = Arc::clone(&workspace);
        let free = Box::new(move || (free_memory(), files.free_kib()));
        let session = Arc::new(ClientSession::new(transport, hello, leases, free));
        match session.join() {
            Err(TransportError::Refused(refusal)) if refusal.code == RefusalCode::Environment => {
                return Ok(ClientEnd::Outdated(refusal.message));
            }
            joined => joined.map_err(|error| BulkError::Invalid(error.to_string()))?,
        }
        let (woken, wake) = wake_pair().map_err(failed)?;
        let wake_fd = Some(OwnedFd::from(woken.try_clone().map_err(failed)?));
        let mut process_runner =
            ProcessRunner::new(RunnerOptions { wake_fd, ..runner }).map_err(|error| cause(&error))?;
        let Threads { incoming, uploads, finished } = Threads::start(&session, &workspace, slots, settings, wake)?;
        let first_attempt = held.iter().filter_map(HeldResult::attempt).max().unwrap_or(0).max(seconds_since_1970());
        held.into_iter().for_each(|it| drop(uploads.send(Upload::Result(it.into()))));
        let clock = RealClock::start();
        let mut frontend = ClientFrontend {
            settings,
            session: Arc::clone(&session),
            incoming,
            woken,
            slots: finished,
            uploads,
            attempts: BTreeMap::new(),
            jobs: 0,
            first_attempt,
            state: ClientState::Working,
            max_idle,
            idle_since: Instant::now(),
            sent_bytes: 0,
        };
        let mut schedule = Schedule::new();
        schedule.begin();
        let run = run::Build {
            frontend: &mut frontend,
            schedule: &mut schedule,
            runner: &mut AttemptRunner::new(&mut process_runner, settings, &clock),
            view,
            clock: &clock,
            failures_allowed: usize::MAX,
            sampler: &mut ResourceSample::default,
        };
        let outcome = run.run();
        session.stop();
        match frontend.state {
            _ if outcome == BuildOutcome::Interrupted => Ok(ClientEnd::Ended(outcome)),
            ClientState::Refused(why) => Err(BulkError::Invalid(why)),
            ClientState::Outdated(why) => Ok(ClientEnd::Outdated(why)),
            ClientState::Working | ClientState::Draining | ClientState::Idle => Ok(ClientEnd::Ended(outcome)),
        }
    }
}

/// The loop's ends of the channels.
struct Threads {
    incoming: Receiver<Incoming>,
    uploads: Sender<Upload>,
    /// To each slot: its attempt has ended.
    finished: Vec<SyncSender<()>>,
}

impl Threads {
    fn start(
        session: &Arc<ClientSession>,
        workspace: &Arc<Workspace>,
        slots: u32,
        settings: &BuildSettings,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Threads, BulkError> {
        let (messages, incoming) = sync_channel(slots as usize * MESSAGES);
        let to_loop = ToLoop { messages, wake };
        let (uploads, to_upload) = channel();
        let to_upload = Arc::new(Mutex::new(to_upload));
        for number in 0..UPLOADS {
            let (session, workspace) = (Arc::clone(session), Arc::clone(workspace));
            slots::start_uploads(number, Uploads { session, workspace, queue: Arc::clone(&to_upload) })?;
        }
        slots::start_heartbeats(Arc::clone(session), to_loop.clone())?;
        let demand = Arc::new(Demand::new(slots));
        let (to_slots, leases) = sync_channel(slots as usize);
        for number in 0..ASKERS {
            let (session, demand) = (Arc::clone(session), Arc::clone(&demand));
            Asker { session, demand, leases: to_slots.clone(), to_loop: to_loop.clone() }.start(number)?;
        }
        let leases = Arc::new(Mutex::new(leases));
        let temp = Path::new(&settings.logs).with_file_name("distfiles.new");
        let distfiles = Arc::new(ClientDistfiles::new(Path::new(&settings.distdir), &temp));
        let mut finished = Vec::new();
        for number in 0..slots as usize {
            let (to_slot, ended) = sync_channel(1);
            finished.push(to_slot);
            let slot = Slot {
                number,
                session: Arc::clone(session),
                workspace: Arc::clone(workspace),
                distfiles: Arc::clone(&distfiles),
                demand: Arc::clone(&demand),
                leases: Arc::clone(&leases),
                to_loop: to_loop.clone(),
                uploads: uploads.clone(),
                logs: PathBuf::from(&settings.logs),
                suffix: settings.suffix.clone(),
                finished: ended,
            };
            slot.start()?;
        }
        Ok(Threads { incoming, uploads, finished })
    }
}

/// Larger than all numbers of attempts of an earlier process.
fn seconds_since_1970() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(0)
}

/// Returns a stream that is readable after a call of the function.
fn wake_pair() -> std::io::Result<(UnixStream, Arc<dyn Fn() + Send + Sync>)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    // A full buffer wakes the loop too.
    Ok((ours, Arc::new(move || drop((&theirs).write(&[0])))))
}
