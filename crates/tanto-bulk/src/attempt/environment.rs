//! Creates the build environment from the configuration: mount namespace, sandboxes, memory and job tokens.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tanto_exec::jobserver::Jobserver;
use tanto_exec::jobserver::broker::TokenBroker;
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions};
use tanto_exec::resource_sampler;
use tanto_exec::runner::process::RunnerOptions;
use tanto_sys::fs::{mounts, page_cache};
use tanto_sys::machine::cpu;
use tanto_sys::process::namespaces::{self, Namespace};
use tanto_sys::user;

use super::build_settings::BuildSettings;
use super::make_wrappers::MakeWrappers;
use super::platform_vars;
use super::sandbox::Sandbox;
use crate::config::{Config, NO_SANDBOX, SandboxKind, Scratch};
use crate::error::{BulkError, cause};

const ROOT: u32 = 0;

/// A mount namespace of this process, and the sandboxes in it.
pub struct Environment {
    config: Config,
    /// Paths that are hidden in sandboxes.
    hidden: Vec<String>,
    /// This process is root only in its user namespace, where no other user exists.
    pub as_user: bool,
    /// Created on first use.
    sandbox: OnceCell<Sandbox>,
}

impl Environment {
    /// Enters a mount namespace if the configuration asks for sandboxes: its mounts vanish with this process. The paths of
    /// the state, the signing keys and `hidden` are hidden in sandboxes. The process must have one thread.
    pub fn enter(config: &Config, hidden: Option<&str>) -> Result<Option<Rc<Environment>>, BulkError> {
        if config.sandbox == NO_SANDBOX {
            return Ok(None);
        }
        // By default, it is in the state directory.
        let server_dir = Some(config.server_dir.as_str()).filter(|dir| Path::new(dir).exists());
        let own = [config.state.as_str(), &config.sign_keys];
        let hidden: Vec<String> = own.into_iter().chain(server_dir).chain(hidden).map(str::to_owned).collect();
        let as_user = enter_namespace().map_err(|error| {
            let why = cause(&error);
            format!("cannot create a sandbox: {why}. Set sandbox = \"none\" to build without one")
        })?;
        Ok(Some(Rc::new(Environment { config: config.clone(), hidden, as_user, sandbox: OnceCell::new() })))
    }

    /// Returns the environment of another configuration with the same state and kind of sandbox. That of this one must not be
    /// used afterwards.
    pub fn renewed(&self, config: &Config) -> Rc<Environment> {
        let (config, hidden) = (config.clone(), self.hidden.clone());
        Rc::new(Environment { config, hidden, as_user: self.as_user, sandbox: OnceCell::new() })
    }

    /// Returns the data that all sandboxes share.
    pub fn sandbox(&self) -> Result<&Sandbox, String> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let kind = SandboxKind::named(&self.config.sandbox).ok_or("sandboxes are turned off")?;
        let made = Sandbox::prepare(&self.config, kind, &program()?, self.as_user, &self.hidden)?;
        Ok(self.sandbox.get_or_init(|| made))
    }
}

/// Returns whether this process is root only in a user namespace.
fn enter_namespace() -> io::Result<bool> {
    let as_user = user::effective() != ROOT || namespaces::unshare(&[Namespace::Mounts]).is_err();
    if as_user {
        namespaces::unshare_as_root(&[Namespace::Mounts])?;
    }
    mounts::make_all_slave()?;
    Ok(as_user)
}

fn program() -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(program.to_string_lossy().into_owned())
}

/// Returns the settings of all attempts. Checks that the sandbox works.
pub fn settings(config: &Config, environment: Option<&Environment>) -> Result<BuildSettings, BulkError> {
    let as_user = environment.is_some_and(|it| it.as_user);
    let is_root = user::effective() == ROOT && !as_user;
    let unprivileged = Some(&config.unprivileged_user).filter(|user| !user.is_empty());
    if let (true, Some(user)) = (as_user, unprivileged) {
        eprintln!("tanto: the sandbox has only one user: no stage runs as '{user}'");
    }
    let (sandbox, platform_vars) = match environment {
        None => (None, platform_vars::ask(config, None)),
        Some(environment) => {
            let sandbox = environment.sandbox()?.clone();
            let programs = [config.make.as_str(), &config.pkg_add, &config.pkg_delete];
            let output = sandbox.check_usable(&config.pkgsrc, &programs, &platform_vars::print_line(config))?;
            (Some(sandbox), platform_vars::parse(&output))
        }
    };
    let clients = match config.build_clients {
        _ if config.sandbox == NO_SANDBOX => 1,
        0 => cpu::count(),
        count => count,
    };
    Ok(BuildSettings {
        make_wrappers: make_wrappers(config)?,
        user: unprivileged.filter(|_| is_root).cloned(),
        one_user: as_user,
        platform_vars,
        sandbox,
        memory: environment.and_then(|_| scratch_bytes(config, clients, as_user)),
        clients,
        program: program()?,
        ..BuildSettings::new(config)
    })
}

/// Returns the options of the runner of attempts.
pub fn runner_options(config: &Config, settings: &BuildSettings) -> RunnerOptions {
    // Files in memory are attributed to the package and not to a command.
    let cgroups = if settings.memory.is_some() { CgroupUse::AllWithoutFiles } else { CgroupUse::All };
    let watch = Some(WatchOptions { limits: config.limits.watched(), leftovers: Leftovers::Kill, cgroups });
    let broker = TokenBroker::new(job_tokens(config), make_jobs(config));
    let jobserver = Some(Jobserver::Broker(broker));
    RunnerOptions { parallelism: settings.clients, watch, jobserver, ..RunnerOptions::default() }
}

/// Returns the number of job tokens for all packages.
pub fn job_tokens(config: &Config) -> usize {
    if config.jobs == 0 { cpu::count() } else { config.jobs }
}

/// MAKE_JOBS.
pub fn make_jobs(config: &Config) -> usize {
    if config.make_jobs == 0 { job_tokens(config) } else { config.make_jobs }
}

/// Writes the make wrappers through which packages share job tokens; `None` if each package has one job.
fn make_wrappers(config: &Config) -> Result<Option<MakeWrappers>, BulkError> {
    if make_jobs(config) == 1 {
        return Ok(None);
    }
    // Without a sandbox, the unprivileged user can read the logs but not the state.
    let place = if config.sandbox == NO_SANDBOX { config.meta_dir() } else { PathBuf::from(&config.state) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let makes = MakeWrappers::write(&place.join("makes"), &config.make, &path);
    makes.map(Some).map_err(BulkError::of("writing the make wrappers"))
}

/// Below this, most packages would be moved to the disk.
const MIN_SCRATCH: u64 = 256 << 20;

/// Returns the bytes that each package may write in memory; `None`: packages write on the disk.
fn scratch_bytes(config: &Config, clients: usize, as_user: bool) -> Option<u64> {
    let bytes = match config.scratch_size {
        Scratch::Most(bytes) => return Some(bytes),
        Scratch::Disk => return None,
        // Overlays of an unprivileged user need extended attributes.
        Scratch::Auto if as_user && !page_cache::tmpfs_supports_xattrs() => return None,
        // The other half is for processes.
        Scratch::Auto => resource_sampler::machine()().free_kib? * 1024 / 2 / clients.max(1) as u64,
    };
    (bytes >= MIN_SCRATCH).then_some(bytes)
}
