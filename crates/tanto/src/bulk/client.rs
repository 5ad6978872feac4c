//! `tanto bulk client`: joins a build, fetches its files, and builds packages for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tanto_bulk::attempt::build_settings::BuildSettings;
use tanto_bulk::attempt::environment::{self, runner_options};
use tanto_bulk::attempt::preflight;
use tanto_bulk::client::BuildClient;
use tanto_bulk::client::transport::{Transport, TransportError};
use tanto_bulk::config::{ClientFiles, Config, NO_SANDBOX};
use tanto_bulk::coordinator::{prepare, state_dir};
use tanto_bulk::error::BulkError;
use tanto_bulk::machine_environment::build_environment;
use tanto_exec::command_output::CommandOutput;
use tanto_exec::resource_sampler;
use tanto_exec::run::BuildOutcome;
use tanto_exec::text::units::ByteSize;
use tanto_protocol::{BuildDescription, ClientAnswer, ClientRequest, Digest, Hello, InstanceId, JoinAnswer, JoinFile};
use tanto_serve::client::provision::{self, FetchedTree, persist};
use tanto_serve::client::{self, ClientError, Connection, membership};
use tanto_serve::tokens;
use tanto_sys::fs::{page_cache, private_files};
use tanto_sys::machine::cpu;
use tanto_sys::machine::info::MachineInfo;
use tanto_sys::process::procs;
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
    let slots = slots(args);
    let provided = Provided::fetch(&join, &member, &dir)?;
    let config = provided.config(args, &dir, slots)?;
    preflight::check_config(&config)?;
    let _prefix = preflight::lock_prefix(&config)?;
    wait_for_one_thread();
    let environment = prepare::prepare(&config, &mut state)?;
    preflight::check_user(&config, environment.as_ref().is_some_and(|it| it.as_user))?;
    let mut settings = environment::settings(&config, environment.as_deref())?;
    if let Some(location) = any_location(Path::new(config.tree_dir())) {
        settings.check_unprivileged(&location);
    }
    let hello = hello(args, &member, &provided.description, (&config, &settings), slots)?;
    println!("{}", provided.line(&join, &hello));
    let transport = Http(Connection::new(&join, &member.token).map_err(invalid)?);
    let runner = runner_options(&config, &settings);
    let transport: Arc<dyn Transport> = Arc::new(transport);
    let tree = provided.description.tree;
    let (max_idle, cache_bytes) = (args.max_idle, args.cache_size.saturating_mul(1_024));
    let client =
        BuildClient { settings: &settings, runner, transport, hello, tree, dir, cache_bytes, max_idle, free_memory };
    client.run(&mut shown()?)
}

/// The default is `tanto/client-NAME` below the user's directory of states.
fn client_dir(given: Option<&Path>, name: &str) -> Result<PathBuf, BulkError> {
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
    tree: FetchedTree,
    /// The size of the kit, in bytes.
    kit_bytes: Option<u64>,
}

const TREE: &str = "tree";
const KIT: &str = "kit";
const MAKECONF: &str = "mk.conf";

impl Provided {
    fn fetch(join: &JoinFile, member: &JoinAnswer, dir: &Path) -> Result<Provided, BulkError> {
        let connection = Connection::new(join, &member.token).map_err(invalid)?;
        let description = match connection.describe() {
            Err(error) if error.is_transient() => {
                eprintln!("tanto: waiting for build '{}' at {}: {error}", join.build, join.url);
                persist(|| connection.describe())
            }
            described => described,
        };
        let description = description.map_err(invalid)?;
        let manifest = description.tree.ok_or("the build provides no package tree yet")?;
        let tree = provision::fetch_tree(&connection, &manifest, dir).map_err(invalid)?;
        let fetch = |digest: Option<Digest>, name| {
            digest
                .map(|digest| provision::fetch_file(&connection, &digest, &dir.join(name)).map_err(invalid))
                .transpose()
        };
        fetch(description.makeconf, MAKECONF)?;
        let kit_bytes = fetch(description.kit, KIT)?;
        Ok(Provided { description, tree, kit_bytes })
    }

    fn config(&self, args: &ClientArgs, dir: &Path, slots: u32) -> Result<Config, BulkError> {
        let BuildDescription { kit, makeconf, settings, .. } = &self.description;
        if makeconf.is_none() && std::env::var_os("MAKECONF").is_some() {
            return Err("the build has no MAKECONF: unset this variable".into());
        }
        let (tree, kit_path, makeconf_path) = (dir.join(TREE), dir.join(KIT), dir.join(MAKECONF));
        let root = std::path::absolute(&args.sandbox_root).map_err(BulkError::io("opening ", &args.sandbox_root))?;
        let files = ClientFiles {
            dir,
            tree: &tree,
            kit: kit.map(|_| kit_path.as_path()),
            makeconf: makeconf.map(|_| makeconf_path.as_path()),
            sandbox: &args.sandbox,
            sandbox_root: &root,
            slots: slots as usize,
        };
        let settings = Config::for_client(settings, &files);
        settings.map_err(|error| format!("the settings of the build: {}", error.problem).into())
    }

    /// Describes the start to the user.
    fn line(&self, join: &JoinFile, hello: &Hello) -> String {
        let FetchedTree { fetched, bytes, files } = self.tree;
        let (slots, s) = (hello.slots, if hello.slots == 1 { "" } else { "s" });
        let free = ByteSize(hello.disk_kib << 10);
        let mut line =
            format!("{}: joined {} (build {}): {slots} slot{s}, {free} free", hello.name, join.url, join.build);
        line += &format!("; fetched tree ({fetched} of {files} files, {})", ByteSize(bytes));
        if let Some(bytes) = self.kit_bytes {
            line += &format!(" and kit ({})", ByteSize(bytes));
        }
        line
    }
}

fn hello(
    args: &ClientArgs,
    member: &JoinAnswer,
    description: &BuildDescription,
    (config, settings): (&Config, &BuildSettings),
    slots: u32,
) -> Result<Hello, BulkError> {
    let mut instance = InstanceId([0; 16]);
    let random = client::random_key().map_err(BulkError::of("reading random numbers"))?;
    instance.0.copy_from_slice(&random.0[..16]);
    Ok(Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: member.name.clone(),
        instance,
        replace: args.replace,
        slots,
        cpus: u32::try_from(cpu::count()).unwrap_or(u32::MAX),
        memory_kib: MachineInfo::query().memory_kib,
        disk_kib: page_cache::free_kib(Path::new(&config.state)).unwrap_or(0),
        environment: build_environment(config, description),
        labels: args.labels.clone(),
        root: user::effective() == 0 && !settings.one_user,
        running: Vec::new(),
        held: Vec::new(),
    })
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
struct Http(Connection);

impl Transport for Http {
    fn request(&self, request: ClientRequest) -> Result<ClientAnswer, TransportError> {
        self.0.request(&request).map_err(transport_error)
    }

    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, TransportError> {
        self.0.missing(digests).map_err(transport_error)
    }

    fn download(&self, digest: Digest, to: &Path) -> Result<(), TransportError> {
        let get = || self.0.get(&digest, to).map(drop);
        match get() {
            // The server may have noticed its own damage.
            Err(ClientError::Mismatch(_)) => get(),
            result => result,
        }
        .map_err(transport_error)
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
