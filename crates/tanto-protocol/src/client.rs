//! Messages between a client and the coordinator. The server relays them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptResult, AttemptSpec, ConnectionId, Digest, InstanceId, LeaseId, MAX_LIST, MAX_TEXT, Message, MessageError,
    ScanAnswer, ScanRequest, StageResult, client_name, limit, name, texts,
};

/// Most leases in one message.
pub const MAX_LEASES: usize = 4_096;
/// Longest URL, in bytes.
pub const MAX_URL: usize = 4_096;

/// Properties that every client of a build must share, by name: `os`, `architecture`, `kit`, `mk.conf`, ... They prevent
/// mistakes, not lies.
pub type Environment = BTreeMap<String, String>;

/// Describes a build to a client that wants to take part.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BuildDescription {
    /// The name of the build.
    pub build: String,
    /// The number of the run.
    pub run: i64,
    /// The coordinator's environment.
    pub environment: Environment,
    /// The keys of `bulk.toml` that packages can see, as TOML.
    pub settings: String,
    /// The manifest of the package tree.
    pub tree: Option<Digest>,
    /// The bootstrap kit.
    pub kit: Option<Digest>,
    /// The file of MAKECONF.
    pub makeconf: Option<Digest>,
    /// The URL of a cache from which blobs can be read, as `URL/DIGEST`. Empty: there is none.
    #[serde(default)]
    pub blobs: String,
    /// The scan of the tree that runs. There are no packages to build before its end.
    #[serde(default)]
    pub scan: Option<ConnectionId>,
}

impl BuildDescription {
    /// The blobs that a client fetches before its first lease.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> + use<> {
        [self.tree, self.kit, self.makeconf].into_iter().flatten()
    }
}

/// Begins a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The version of Tanto, for messages.
    pub version: String,
    /// The client's name.
    pub name: String,
    /// Of this process.
    pub instance: InstanceId,
    /// Takes over the name from another instance that is alive.
    #[serde(default)]
    pub replace: bool,
    /// Packages at a time.
    pub slots: u32,
    pub cpus: u32,
    pub memory_kib: u64,
    pub disk_kib: u64,
    pub environment: Environment,
    /// Labels of the machine, such as `big`.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Packages that need several users can be built.
    #[serde(default)]
    pub root: bool,
    /// Leases of an earlier connection whose attempts still run.
    #[serde(default)]
    pub running: Vec<LeaseId>,
    /// Leases of an earlier connection whose results are not settled.
    #[serde(default)]
    pub held: Vec<LeaseId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HelloAnswer {
    pub connection: ConnectionId,
    /// The interval of heartbeats.
    pub heartbeat_ms: u64,
    /// Without a heartbeat for this long, the client counts as missing.
    pub missing_ms: u64,
    /// Differences of the environment that are no reason to refuse the client.
    pub warnings: Vec<String>,
    /// Like that of the description, which may be older.
    #[serde(default)]
    pub blobs: String,
}

/// Asks for leases. The answer may take as long as `wait_ms`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkRequest {
    pub connection: ConnectionId,
    /// Counts the requests of the connection. A repeated number gets the same answer; the next number confirms the leases
    /// of the answer before.
    pub number: u64,
    /// Slots that are free now.
    pub slots: u32,
    pub memory_kib: u64,
    pub disk_kib: u64,
    pub wait_ms: u64,
}

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkAnswer {
    pub leases: Vec<Lease>,
    /// Why there are none, for the user.
    #[serde(default)]
    pub reason: String,
}

/// Gives one client one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub lease: LeaseId,
    pub spec: AttemptSpec,
    /// The manifest of the package tree.
    pub tree: Option<Digest>,
    /// The binary packages of all direct and indirect dependencies.
    pub packages: Vec<PackageBlob>,
    /// Files that the package may fetch. A client that ignores them fetches all.
    #[serde(default)]
    pub distfiles: Vec<Distfile>,
    /// Features that the client must have. It declines the lease otherwise.
    #[serde(default)]
    pub features: Vec<String>,
}

/// A binary package as a blob.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PackageBlob {
    /// PKGNAME.
    pub name: String,
    pub digest: Digest,
    pub size: u64,
}

/// A file that packages fetch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Distfile {
    /// The path below DISTDIR.
    pub name: String,
    pub size: u64,
    /// The blob with its content. `None` in a lease: the coordinator lacks the file, and takes it with the result.
    #[serde(default)]
    pub digest: Option<Digest>,
}

/// Tells that the client is alive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Heartbeat {
    pub connection: ConnectionId,
    /// Increases. Late ones are ignored.
    pub number: u64,
    pub memory_kib: u64,
    pub disk_kib: u64,
    /// All leases whose attempts run, or whose results are being sent.
    pub leases: Vec<LeaseProgress>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseProgress {
    pub lease: LeaseId,
    /// The running stage; empty before the first and after the last.
    pub stage: String,
    /// How long it has run.
    pub stage_ms: u64,
    /// Stages that ended since the last heartbeat that was answered.
    #[serde(default)]
    pub ended: Vec<StageResult>,
    pub cpu_ms: u64,
    pub memory_kib: u64,
    pub disk_kib: u64,
    /// Distfiles that the coordinator lacks, and that were uploaded since the last heartbeat that was answered.
    #[serde(default)]
    pub distfiles: Vec<Distfile>,
    /// Bytes of its result that were sent. An attempt without progress in stages, CPU time or these is given up.
    #[serde(default)]
    pub sent_bytes: u64,
    /// A part of the stage's output, if the coordinator follows it. What is not UTF-8 is replaced.
    #[serde(default)]
    pub output: String,
    /// Where the part begins in the output.
    #[serde(default)]
    pub output_at: u64,
    /// How many bytes of the output it is.
    #[serde(default)]
    pub output_bytes: u64,
}

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// For each lease of the heartbeat that needs attention.
    pub leases: Vec<LeaseInstruction>,
    /// The client gets no more leases, and leaves when it has none.
    #[serde(default)]
    pub drain: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseInstruction {
    pub lease: LeaseId,
    pub action: LeaseAction,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseAction {
    /// Send the new output with each heartbeat, and a heartbeat each second.
    Follow,
    /// End the attempt and forget it: its result would be refused.
    Supersede,
    /// End the attempt by the user's request, and report its result.
    Stop,
}

/// Reports the result of an attempt. Its blobs have been uploaded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResultReport {
    pub connection: ConnectionId,
    pub lease: LeaseId,
    pub result: AttemptResult,
    /// The packages that were built.
    pub packages: Vec<PackageBlob>,
    /// The files of the attempt's directory.
    pub logs: Vec<LogBlob>,
    /// Distfiles that the coordinator lacks.
    #[serde(default)]
    pub distfiles: Vec<Distfile>,
}

/// A file of an attempt's directory as a blob.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogBlob {
    /// The name of the file.
    pub file: String,
    pub digest: Digest,
    pub size: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ResultAnswer {
    /// It is durable. The client may forget it.
    Settled,
    /// It is being accepted. The client asks again.
    Pending,
    /// These blobs are not there.
    Missing { digests: Vec<Digest> },
    /// Another attempt counts.
    Superseded,
}

/// Ends a connection. Its packages are open again at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bye {
    pub connection: ConnectionId,
}

/// Any request of a client to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum ClientRequest {
    Describe,
    Hello(Box<Hello>),
    Work(WorkRequest),
    Heartbeat(Heartbeat),
    Result(Box<ResultReport>),
    Scan(ScanRequest),
    Bye(Bye),
}

/// The answer to the request of the same name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum ClientAnswer {
    Describe(BuildDescription),
    Hello(HelloAnswer),
    Work(WorkAnswer),
    Heartbeat(HeartbeatAnswer),
    Result(ResultAnswer),
    Scan(ScanAnswer),
    Bye,
    Refused(Refusal),
}

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    pub code: RefusalCode,
    /// For the user.
    pub message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// The request is malformed or too long.
    Invalid,
    /// The token or the secret is missing, unknown, expired or revoked.
    Token,
    /// The token does not have the role.
    Role,
    /// There is no such path or blob.
    NotFound,
    /// Another instance of this name is alive.
    NameTaken,
    /// The client's environment differs.
    Environment,
    /// The connection has ended, or never began: say hello again.
    Connection,
    /// No coordinator of this build is running; ask again later.
    Unavailable,
    /// Too many requests; ask again later.
    Busy,
    /// The disk is full; ask again later.
    DiskFull,
}

impl RefusalCode {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            RefusalCode::Invalid => 400,
            RefusalCode::Token => 401,
            RefusalCode::Role => 403,
            RefusalCode::NotFound => 404,
            RefusalCode::NameTaken | RefusalCode::Environment => 409,
            RefusalCode::Connection => 410,
            RefusalCode::Busy => 429,
            RefusalCode::Unavailable => 503,
            RefusalCode::DiskFull => 507,
        }
    }
}

impl ClientRequest {
    /// The name of its route.
    pub fn name(&self) -> &'static str {
        match self {
            ClientRequest::Describe => "describe",
            ClientRequest::Hello(_) => "hello",
            ClientRequest::Work(_) => "work",
            ClientRequest::Heartbeat(_) => "heartbeat",
            ClientRequest::Result(_) => "result",
            ClientRequest::Scan(_) => "scan",
            ClientRequest::Bye(_) => "bye",
        }
    }
}

impl Message for ClientRequest {
    const MAX_BYTES: usize = 16 << 20;

    fn check(&self) -> Result<(), MessageError> {
        match self {
            ClientRequest::Describe | ClientRequest::Work(_) | ClientRequest::Bye(_) => Ok(()),
            ClientRequest::Hello(hello) => hello.check(),
            ClientRequest::Heartbeat(heartbeat) => {
                limit("leases", heartbeat.leases.len(), MAX_LEASES)?;
                heartbeat.leases.iter().try_for_each(LeaseProgress::check)
            }
            ClientRequest::Result(report) => report.check(),
            ClientRequest::Scan(request) => request.check(),
        }
    }
}

impl Message for ClientAnswer {
    const MAX_BYTES: usize = 64 << 20;

    fn check(&self) -> Result<(), MessageError> {
        match self {
            ClientAnswer::Describe(description) => {
                check_environment(&description.environment)?;
                limit("settings", description.settings.len(), MAX_TEXT)?;
                limit("blobs", description.blobs.len(), MAX_URL)
            }
            ClientAnswer::Hello(answer) => {
                texts("warnings", &answer.warnings)?;
                limit("blobs", answer.blobs.len(), MAX_URL)
            }
            ClientAnswer::Work(answer) => {
                limit("leases", answer.leases.len(), MAX_LEASES)?;
                limit("reason", answer.reason.len(), MAX_TEXT)?;
                answer.leases.iter().try_for_each(Lease::check)
            }
            ClientAnswer::Heartbeat(answer) => limit("leases", answer.leases.len(), MAX_LEASES),
            ClientAnswer::Result(ResultAnswer::Missing { digests }) => limit("digests", digests.len(), MAX_LIST),
            ClientAnswer::Scan(answer) => answer.check(),
            ClientAnswer::Result(_) | ClientAnswer::Bye => Ok(()),
            ClientAnswer::Refused(refusal) => limit("message", refusal.message.len(), MAX_TEXT),
        }
    }
}

impl Hello {
    fn check(&self) -> Result<(), MessageError> {
        client_name("name", &self.name)?;
        limit("version", self.version.len(), 64)?;
        check_environment(&self.environment)?;
        limit("labels", self.labels.len(), 64)?;
        self.labels.iter().try_for_each(|label| client_name("labels", label))?;
        limit("running", self.running.len(), MAX_LEASES)?;
        limit("held", self.held.len(), MAX_LEASES)
    }
}

impl Lease {
    fn check(&self) -> Result<(), MessageError> {
        self.spec.check()?;
        limit("packages", self.packages.len(), MAX_LIST)?;
        limit("features", self.features.len(), 64)?;
        check_distfiles(&self.distfiles)?;
        self.packages.iter().try_for_each(|package| name("packages", &package.name, false))
    }
}

impl LeaseProgress {
    /// The progress of an attempt that has not begun.
    pub fn new(lease: LeaseId) -> LeaseProgress {
        LeaseProgress {
            lease,
            stage: String::new(),
            stage_ms: 0,
            ended: Vec::new(),
            cpu_ms: 0,
            sent_bytes: 0,
            memory_kib: 0,
            disk_kib: 0,
            distfiles: Vec::new(),
            output: String::new(),
            output_at: 0,
            output_bytes: 0,
        }
    }

    fn check(&self) -> Result<(), MessageError> {
        limit("stage", self.stage.len(), 64)?;
        limit("output", self.output.len(), MAX_TEXT)?;
        limit("ended", self.ended.len(), 256)?;
        check_distfiles(&self.distfiles)?;
        self.ended.iter().try_for_each(StageResult::check)
    }
}

impl ResultReport {
    fn check(&self) -> Result<(), MessageError> {
        self.result.check()?;
        limit("packages", self.packages.len(), MAX_LIST)?;
        self.packages.iter().try_for_each(|package| name("packages", &package.name, false))?;
        limit("logs", self.logs.len(), 1_024)?;
        self.logs.iter().try_for_each(|log| name("logs", &log.file, false))?;
        check_distfiles(&self.distfiles)
    }
}

fn check_distfiles(distfiles: &[Distfile]) -> Result<(), MessageError> {
    limit("distfiles", distfiles.len(), MAX_LIST)?;
    distfiles.iter().try_for_each(|file| name("distfiles", &file.name, true))
}

fn check_environment(environment: &Environment) -> Result<(), MessageError> {
    limit("environment", environment.len(), 256)?;
    let lengths = environment.iter().flat_map(|(key, value)| [key.len(), value.len()]);
    lengths.into_iter().try_for_each(|length| limit("environment", length, MAX_TEXT))
}
