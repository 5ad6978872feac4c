//! `tanto bulk client`: joins a build, fetches its files, and builds packages for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tanto_bulk::attempt::build_settings::BuildSettings;
use tanto_bulk::attempt::environment::{self, Environment, runner_options};
use tanto_bulk::attempt::preflight;
use tanto_bulk::client::transport::{Transport, TransportError};
use tanto_bulk::client::trees::{NewTree, TreePlace};
use tanto_bulk::client::{BuildClient, ClientEnd, ScanClient, Workspace};
use tanto_bulk::config::{ClientFiles, Config, NO_SANDBOX};
use tanto_bulk::coordinator::state_dir::StateDir;
use tanto_bulk::coordinator::{prepare, state_dir};
use tanto_bulk::error::BulkError;
use tanto_bulk::machine_environment::{self, build_environment};
use tanto_cas::Store;
use tanto_exec::command_output::CommandOutput;
use tanto_exec::resource_sampler;
use tanto_exec::run::BuildOutcome;
use tanto_exec::text::units::ByteSize;
use tanto_protocol::{
    BuildDescription, ClientAnswer, ClientRequest, ConnectionId, Digest, Hello, InstanceId, JoinFile, Refusal,
    RefusalCode,
};
use tanto_serve::client::provision::{self, BlobSource, FetchedTree, ProvisionError, persist};
use tanto_serve::client::{ClientError, Connection, membership};
use tanto_serve::tokens;
use tanto_sys::fs::{page_cache, private_files};
use tanto_sys::machine::cpu;
use tanto_sys::machine::info::MachineInfo;
use tanto_sys::process::procs;
use tanto_sys::random;
use tanto_sys::user;

use super::args::ClientArgs;
use super::server::invalid;
use super::{INTERRUPTED, shown};

pub fn run(args: &ClientArgs) -> Result<CommandOutput, BulkError> {
    tanto_sys::signals::ignore_sigpipe().map_err(BulkError::of("ignoring SIGPIPE"))?;
    match build(args)? {
        BuildOutcome::Succeeded => Ok(CommandOutput::default()),
        BuildOutcome::Interrupted => Ok(CommandOutput::default().with_code(INTERRUPTED)),
        BuildOutcome::Failed { reason, .. } | BuildOutcome::InvalidInput(reason) => {
            Err(BulkError::Invalid(String::from_utf8_lossy(&reason).into_owned()))
        }
    }
}

fn build(args: &ClientArgs) -> Result<BuildOutcome, BulkError> {
    let join = tokens::read_join_file(&args.join).map_err(BulkError::io("reading ", &args.join))?;
    let dir = client_dir(args.dir.as_deref(), &join.name)?;
    fs::create_dir_all(&dir).map_err(BulkError::io("opening ", &dir))?;
    let state_path = dir.join("state");
    private_files::create_dir(&state_path).map_err(BulkError::io("opening ", &state_path))?;
    let locked = Config { state: state_path.to_string_lossy().into_owned(), ..Config::default() };
    let mut state = state_dir::take(&locked).map_err(|error| match error {
        BulkError::StateLocked => format!("another client uses {}: give each its own --dir", dir.display()).into(),
        error => error,
    })?;
    // Sandboxes do not show the state, and so neither the token.
    let member = membership::member(&join, &state_path).map_err(invalid)?;
    let place = match args.sandbox.as_str() {
        NO_SANDBOX => TreePlace::One(dir.clone()),
        _ => TreePlace::Many(dir.join("trees")),
    };
    let cache_bytes = args.cache_size.saturating_mul(1_024);
    let workspace = Workspace::open(&dir.join(PACKAGES), &dir.join("blobs"), cache_bytes, place);
    let workspace = Arc::new(workspace.map_err(BulkError::io("opening ", &dir))?);
    let connection = Arc::new(Connection::lasting(&join, &member.token, &state_path).map_err(invalid)?);
    let (slots, instance) = (slots(args), instance()?);
    let client = Client { args, join, name: member.name, connection, dir, slots, instance, workspace };
    let mut machine = Machine::New(&mut state);
    let mut last = None;
    loop {
        let provided = client.provide(last.is_none())?;
        match client.run(&provided, &mut machine, last.is_none())? {
            ClientEnd::Ended(outcome) => return Ok(outcome),
            // It would be refused again.
            ClientEnd::Outdated(why) if last.as_ref() == Some(&provided.description) => return Err(why.into()),
            ClientEnd::Outdated(_) | ClientEnd::Scanned => last = Some(provided.description),
        }
    }
}

/// A client of all builds that its token permits, one after the other.
struct Client<'a> {
    args: &'a ClientArgs,
    join: JoinFile,
    name: String,
    connection: Arc<Connection>,
    dir: PathBuf,
    slots: u32,
    instance: InstanceId,
    workspace: Arc<Workspace>,
}

/// Whether this process has prepared the machine for builds.
enum Machine<'a> {
    New(&'a mut StateDir),
    /// With the environment of the last build.
    Prepared(Option<Rc<Environment>>),
}

impl Machine<'_> {
    /// Returns the environment of a build. Nothing of an earlier one runs.
    fn environment(&mut self, config: &Config) -> Result<Option<Rc<Environment>>, BulkError> {
        let environment = match self {
            Machine::New(state) => {
                wait_for_one_thread();
                prepare::prepare(config, state)?
            }
            Machine::Prepared(environment) => environment.as_ref().map(|it| it.renewed(config)),
        };
        *self = Machine::Prepared(environment.clone());
        Ok(environment)
    }
}

impl Client<'_> {
    /// Builds packages with what a build has provided, until the build has another environment.
    fn run(&self, provided: &Provided, machine: &mut Machine<'_>, is_first: bool) -> Result<ClientEnd, BulkError> {
        let config = self.config(provided)?;
        preflight::check_config(&config)?;
        let own = build_environment(&config, &provided.description);
        machine_environment::compare(&provided.description.environment, &own).map_err(|refusal| refusal.message)?;
        let _prefix = preflight::lock_prefix(&config)?;
        let environment = machine.environment(&config)?;
        preflight::check_user(&config, environment.as_ref().is_some_and(|it| it.as_user))?;
        let mut settings = environment::settings(&config, environment.as_deref())?;
        if let Some(location) = any_location(Path::new(config.tree_dir())) {
            settings.check_unprivileged(&location);
        }
        let hello = self.hello(own, &config, &settings);
        println!("{}", self.line(provided, &hello, is_first));
        let transport = Http(Arc::clone(&self.connection));
        if let Some(scan) = provided.description.scan {
            let end = self.scan(scan, &config, environment.as_ref(), &transport);
            self.workspace.trees.release(provided.manifest);
            return end;
        }
        let client = BuildClient {
            runner: runner_options(&config, &settings),
            settings: &settings,
            transport: Arc::new(transport),
            hello,
            workspace: Arc::clone(&self.workspace),
            dir: self.dir.clone(),
            max_idle: self.args.max_idle,
            free_memory,
        };
        // Leases name their trees from here on.
        self.workspace.trees.release(provided.manifest);
        client.run(&mut shown()?)
    }
}

impl Client<'_> {
    fn scan(
        &self,
        scan: ConnectionId,
        config: &Config,
        environment: Option<&Rc<Environment>>,
        transport: &Http,
    ) -> Result<ClientEnd, BulkError> {
        let client = ScanClient {
            config,
            environment,
            transport,
            scan,
            instance: instance()?,
            slots: self.slots,
            dir: &self.dir,
            max_idle: self.args.max_idle,
        };
        client.run()
    }
}

/// The default is `tanto/client-NAME` below the user's directory of states.
pub(super) fn client_dir(given: Option<&Path>, name: &str) -> Result<PathBuf, BulkError> {
    let below = |dir: PathBuf| dir.join("tanto").join(format!("client-{name}"));
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").map(|home| home.join(".local/state"));
    let dir = match given {
        Some(dir) => dir.to_owned(),
        None if user::effective() == 0 => below("/var/lib".into()),
        None => below(variable("XDG_STATE_HOME").or_else(home).ok_or("HOME is not set: use --dir")?),
    };
    std::path::absolute(&dir).map_err(BulkError::io("opening ", &dir))
}

fn slots(args: &ClientArgs) -> u32 {
    match args.slots {
        _ if args.sandbox == NO_SANDBOX => 1,
        Some(slots) => slots,
        None => u32::try_from(cpu::count()).unwrap_or(1),
    }
}

/// The files of the build that the client has fetched.
struct Provided {
    description: BuildDescription,
    /// Of the package tree, which is in use.
    manifest: Digest,
    tree: FetchedTree,
    /// The size of the kit, in bytes.
    kit_bytes: Option<u64>,
}

/// Between two looks whether the scan has ended.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
const PACKAGES: &str = "packages";
const KIT: &str = "kit";
const MAKECONF: &str = "mk.conf";

impl Client<'_> {
    /// Describes the build and fetches its files.
    fn provide(&self, is_first: bool) -> Result<Provided, BulkError> {
        let mut description = self.describe()?;
        // Without a sandbox, the package tree would have another path.
        while description.scan.is_some() && self.args.sandbox == NO_SANDBOX {
            thread::sleep(SCAN_INTERVAL);
            description = self.describe()?;
        }
        let manifest = description.tree.ok_or("the build provides no package tree yet")?;
        if is_first {
            self.workspace.trees.adopt_old(manifest).map_err(BulkError::io("opening ", &self.dir))?;
        }
        let tree = self.workspace.trees.provide(manifest, |new| fetch_tree(&self.connection, new)).map_err(invalid)?;
        let fetch = |digest: Option<Digest>, source, name| {
            let path = self.dir.join(name);
            let fetch = |digest| provision::fetch_file(&self.connection, source, &digest, &path).map_err(invalid);
            digest.map(fetch).transpose()
        };
        // It may have passwords.
        fetch(description.makeconf, BlobSource::Server, MAKECONF)?;
        let kit_bytes = fetch(description.kit, BlobSource::Cache, KIT)?;
        if let Some(text) = self.connection.take_warning() {
            eprintln!("tanto: warning: {text}");
        }
        Ok(Provided { description, manifest, tree: tree.unwrap_or_default(), kit_bytes })
    }

    /// Waits for the coordinator without end: the server was there when the client joined.
    fn describe(&self) -> Result<BuildDescription, BulkError> {
        let mut described = self.connection.describe();
        if let Err(error) = &described
            && error.is_transient()
        {
            eprintln!("tanto: waiting for build '{}' at {}: {error}", self.join.build, self.join.url);
        }
        while described.as_ref().is_err_and(ClientError::is_transient) {
            described = persist(|| self.connection.describe());
        }
        described.map_err(invalid)
    }

    fn config(&self, provided: &Provided) -> Result<Config, BulkError> {
        let BuildDescription { kit, makeconf, settings, .. } = &provided.description;
        if makeconf.is_none() && std::env::var_os("MAKECONF").is_some() {
            return Err("the build has no MAKECONF: unset this variable".into());
        }
        let (args, dir) = (self.args, &self.dir);
        let (kit_path, makeconf_path) = (dir.join(KIT), dir.join(MAKECONF));
        let root = std::path::absolute(&args.sandbox_root).map_err(BulkError::io("opening ", &args.sandbox_root))?;
        let files = ClientFiles {
            dir,
            tree: &self.workspace.trees.path(provided.manifest),
            kit: kit.map(|_| kit_path.as_path()),
            makeconf: makeconf.map(|_| makeconf_path.as_path()),
            sandbox: &args.sandbox,
            sandbox_root: &root,
            slots: self.slots as usize,
        };
        let settings = Config::for_client(settings, &files);
        settings.map_err(|error| format!("the settings of the build: {}", error.problem).into())
    }

    fn hello(&self, environment: tanto_protocol::Environment, config: &Config, settings: &BuildSettings) -> Hello {
        Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name.clone(),
            instance: self.instance,
            replace: self.args.replace,
            slots: self.slots,
            cpus: u32::try_from(cpu::count()).unwrap_or(u32::MAX),
            memory_kib: MachineInfo::query().memory_kib,
            disk_kib: page_cache::free_kib(Path::new(&config.state)).unwrap_or(0),
            environment,
            labels: self.args.labels.clone(),
            root: user::effective() == 0 && !settings.one_user,
            running: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Describes the begin of a build to the user.
    fn line(&self, provided: &Provided, hello: &Hello, is_first: bool) -> String {
        let FetchedTree { fetched, bytes, files } = provided.tree;
        let (slots, s) = (hello.slots, if hello.slots == 1 { "" } else { "s" });
        let (free, join) = (ByteSize(hello.disk_kib << 10), &self.join);
        let joined = match (is_first, provided.description.scan) {
            (_, Some(_)) => "joined to scan directories:",
            (true, None) => "joined",
            (false, None) => "the build has other settings; joined again",
        };
        let mut line =
            format!("{}: {joined} {} (build {}): {slots} slot{s}, {free} free", hello.name, join.url, join.build);
        line += &format!("; fetched tree ({fetched} of {files} files, {})", ByteSize(bytes));
        if let Some(bytes) = provided.kit_bytes {
            line += &format!(" and kit ({})", ByteSize(bytes));
        }
        line
    }
}

fn fetch_tree(connection: &Connection, new: &NewTree) -> Result<FetchedTree, ProvisionError> {
    match &new.base {
        Some((known, base)) => provision::fetch_similar_tree(connection, &new.manifest, &new.dir, (known, base)),
        None => provision::fetch_tree(connection, &new.manifest, &new.dir),
    }
}

fn instance() -> Result<InstanceId, BulkError> {
    random::bytes().map(InstanceId).map_err(BulkError::of("reading random numbers"))
}

/// Memory for a further package, in KiB.
fn free_memory() -> u64 {
    resource_sampler::machine()().free_kib.unwrap_or(0)
}

/// A directory of the tree with a package.
fn any_location(tree: &Path) -> Option<String> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let packages = entries(tree).filter(|dir| dir.is_dir()).flat_map(|category| entries(&category).collect::<Vec<_>>());
    let mut packages = packages.filter(|dir| dir.join("Makefile").is_file() && dir.join("DESCR").is_file());
    Some(packages.next()?.strip_prefix(tree).ok()?.to_string_lossy().into_owned())
}

/// A thread that has been joined may take a moment to leave the process.
fn wait_for_one_thread() {
    const LONGEST: Duration = Duration::from_secs(5);
    let began = Instant::now();
    let threads = || procs::stat(std::process::id()).map_or(1, |stat| stat.threads);
    while threads() > 1 && began.elapsed() < LONGEST {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reaches the coordinator through its server.
struct Http(Arc<Connection>);

impl Transport for Http {
    fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError> {
        self.0.request(&request).map_err(transport_error)
    }

    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError> {
        self.0.missing(digests).map_err(transport_error)
    }

    fn take_warning(&self) -> Option<String> {
        self.0.take_warning()
    }

    fn download(&self, digest: Digest, size: u64, to: &Path) -> Result<(), TransportError> {
        let get = || self.0.get_cached(&digest, Some(size), to).map(drop);
        match get() {
            // The server may have noticed its own damage.
            Err(ClientError::Mismatch(_)) => get(),
            result => result,
        }
        .map_err(transport_error)
    }

    fn fetch_blobs(&self, digests: &[Digest], store: &Store, part: &Path) -> Result<(), TransportError> {
        let digests: Vec<_> = digests.iter().map(|digest| tanto_cas::Digest(digest.0)).collect();
        provision::fetch_into(&self.0, &digests, store, part).map_err(|error| match error {
            ProvisionError::Client(error) => transport_error(error),
            error => TransportError::Failed(error.to_string()),
        })
    }

    fn fetch_tree(&self, tree: &NewTree) -> Result<(), TransportError> {
        fetch_tree(&self.0, tree).map(drop).map_err(|error| match error {
            error if error.is_missing_blob() => {
                let message = "the package tree has changed since the coordinator scanned it".to_owned();
                TransportError::Refused(Refusal { code: RefusalCode::NotFound, message })
            }
            ProvisionError::Client(error) => transport_error(error),
            error => TransportError::Failed(error.to_string()),
        })
    }

    fn upload(&self, digest: Digest, from: &Path, sent: &dyn Fn(u64)) -> Result<(), TransportError> {
        self.0.put_counted(&digest, from, sent).map_err(transport_error)
    }

    fn upload_pack(&self, files: &[(Digest, &Path)], sent: &dyn Fn(u64)) -> Result<(), TransportError> {
        self.0.put_pack(files, sent).map_err(transport_error)
    }
}

fn transport_error(error: ClientError) -> TransportError {
    match error {
        ClientError::Refused(refusal) => TransportError::Refused(refusal),
        ClientError::Unreachable(why) => TransportError::Unreachable(why),
        error => TransportError::Failed(error.to_string()),
    }
}
