//! Where packages are built: what the configuration says of it, and sandboxes, if there are to be some. Does not know
//! what is built.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use tanto_bulk::attempt::build_settings::{Fetching, Site};
use tanto_bulk::attempt::platform_vars;
use tanto_bulk::attempt::sandbox::Sandbox;
use tanto_bulk::attempt::workdirs::Works;
use tanto_bulk::config::{Config, NO_SANDBOX, SandboxKind, Stage};
use tanto_sys::error;
use tanto_sys::fs::{lock, mounts};
use tanto_sys::process::namespaces::{self, Namespace};
use tanto_sys::user;

use super::jobs;

/// Is there anything in the configuration that cannot be meant?
pub(super) fn refuse(config: &Config) -> Result<(), Vec<u8>> {
    if config.sandbox == NO_SANDBOX {
        for path in [&config.prefix, &config.pkgdb] {
            may_be_emptied(path, &precious(config))?;
        }
        if !config.sign_keys.is_empty() {
            let why = "without a sandbox a build can look for the key in sign_keys: use one, or say that only in a file of \
                       its own, for publish --config";
            return Err(why.into());
        }
        if config.build_clients > 1 {
            return Err(
                b"there is one prefix: without a sandbox packages are built one at a time; leave build_clients away"
                    .to_vec(),
            );
        }
    }
    if config.bootstrapkit.is_empty() {
        return Err(b"each package begins with an empty prefix: say with 'bootstrapkit' what comes into it".to_vec());
    }
    Ok(())
}

/// Looks whether the unprivileged user exists where packages are built, and has a shell, before anything takes long. What
/// the user's own hooks prepare may make it later.
pub(super) fn check_user(config: &Config, as_user: bool) -> Result<(), Vec<u8>> {
    let name = &config.unprivileged_user;
    let hooks = [&config.client_prepare_chroot, &config.client_prepare_action];
    if name.is_empty() || user::effective() != ROOT || as_user || hooks.iter().any(|hook| !hook.is_empty()) {
        return Ok(());
    }
    let (root, options) = match config.sandbox_root.as_str() {
        root if config.sandbox != NO_SANDBOX && root != "/" => (root, format!("-R {root} ")),
        _ => ("/", String::new()),
    };
    let passwd = Path::new(root).join("etc/passwd");
    let mut text = fs::read_to_string(&passwd).unwrap_or_default();
    if config.sandbox == NO_SANDBOX {
        // Users may also come from a service, which no sandbox reaches.
        let asked = Command::new("getent").args(["passwd", name]).output();
        text += &asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned()).unwrap_or_default();
    }
    let shell = text.lines().find_map(|line| line.strip_prefix(name.as_str())?.strip_prefix(':')?.rsplit(':').next());
    let said = |what: &str, mend: &str| {
        format!("unprivileged_user = \"{name}\": {what}; as root, '{mend}' mends that, and \"\" lets root build")
            .into_bytes()
    };
    match shell {
        None => {
            let what = format!("there is no such user in {}", passwd.display());
            Err(said(&what, &format!("useradd {options}-m -s /bin/sh {name}")))
        }
        Some(shell) if is_usable(Path::new(root), shell) => Ok(()),
        Some(shell) => {
            let what = format!("nothing can be run with the user's shell {shell}");
            Err(said(&what, &format!("usermod {options}-s /bin/sh {name}")))
        }
    }
}

/// Runs this shell commands? Those of users who may not log in end at once.
fn is_usable(root: &Path, shell: &str) -> bool {
    let shell = if shell.is_empty() { "/bin/sh" } else { shell };
    let refuses = ["nologin", "false", "true", "sync", "halt", "shutdown"];
    let path = Path::new(shell);
    let is_there = || fs::symlink_metadata(root.join(path.strip_prefix("/").unwrap_or(path))).is_ok();
    path.is_absolute() && path.file_name().is_some_and(|name| !refuses.iter().any(|it| name == *it)) && is_there()
}

/// Keeps other builds without a sandbox away from the prefix and its database, which each package begins by emptying.
/// The locks are on the directories themselves, and go with the files that are returned.
pub(super) fn keep_prefix(config: &Config) -> Result<Vec<File>, Vec<u8>> {
    if config.sandbox != NO_SANDBOX {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    let is_apart = !Path::new(&config.pkgdb).starts_with(&config.prefix);
    for (key, dir) in [("prefix", &config.prefix)].into_iter().chain(is_apart.then_some(("pkgdb", &config.pkgdb))) {
        let failed = |error| super::files::failed("opening ", dir.as_bytes(), &error);
        fs::create_dir_all(dir).map_err(failed)?;
        let file = File::open(dir).map_err(failed)?;
        if !lock::try_lock_exclusive(&file).map_err(|error| super::files::failed("locking ", dir.as_bytes(), &error))? {
            return Err(format!(
                "another build without a sandbox is using {dir}, which each package begins by emptying: wait for it, or \
                 give this build a '{key}' of its own"
            )
            .into_bytes());
        }
        kept.push(file);
    }
    Ok(kept)
}

/// The machine as this process sees it, and sandboxes in it.
pub(super) struct Spaces {
    config: Config,
    /// What nobody sees in a sandbox.
    hidden: Vec<String>,
    /// We are root only here.
    as_user: bool,
    /// Made when it is needed for the first time.
    sandbox: OnceCell<Sandbox>,
}

impl Spaces {
    /// Nobody can be anybody else in sandboxes.
    pub(super) fn have_one_user(&self) -> bool {
        self.as_user
    }

    /// What all sandboxes share.
    pub(super) fn sandbox(&self) -> Result<&Sandbox, String> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let Some(kind) = SandboxKind::named(&self.config.sandbox) else { return Err("there are no sandboxes".into()) };
        let made = Sandbox::prepare(&self.config, kind, &door()?, self.as_user, &self.hidden)?;
        Ok(self.sandbox.get_or_init(|| made))
    }
}

/// If there are to be sandboxes, this process is in namespaces of its own from then on: what it mounts goes when it ends,
/// however that happens. Nobody sees `hidden` in them. To be called while it has one thread.
pub(super) fn enter(config: &Config, hidden: Option<&str>) -> Result<Option<Rc<Spaces>>, Vec<u8>> {
    if config.sandbox == NO_SANDBOX {
        return Ok(None);
    }
    // Who signs alone has the key, and who coordinates the database.
    let own = [config.state.as_str(), &config.sign_keys];
    let hidden: Vec<String> = own.into_iter().chain(hidden).map(str::to_owned).collect();
    let why = |error| {
        let why = String::from_utf8_lossy(&error::text(&error)).into_owned();
        format!("this machine lets us make no sandbox: {why}; sandbox = \"none\" does without")
    };
    let spaces = |as_user| Some(Rc::new(Spaces { config: config.clone(), hidden, as_user, sandbox: OnceCell::new() }));
    leave().map(spaces).map_err(|error| why(error).into_bytes())
}

/// Where packages are built.
pub(super) fn of(config: &Config, spaces: Option<&Spaces>) -> Result<Site, Vec<u8>> {
    let as_user = spaces.is_some_and(|spaces| spaces.as_user);
    let is_root = user::effective() == ROOT && !as_user;
    let unprivileged = Some(&config.unprivileged_user).filter(|user| !user.is_empty());
    if let (true, Some(user)) = (as_user, unprivileged) {
        eprintln!("tanto: there is only one user here: nothing is done as '{user}'");
    }
    let text = |text: &String| text.clone();
    let shut_in = spaces.map(|spaces| shut_in(config, spaces)).transpose().map_err(String::into_bytes)?;
    let (sandbox, facts) =
        shut_in.map_or_else(|| (None, platform_vars::ask(config, None)), |(it, facts)| (Some(it), facts));
    Ok(Site {
        pkgsrc: text(&config.pkgsrc),
        make: text(&config.make),
        prefix: text(&config.prefix),
        pkgdb: text(&config.pkgdb),
        packages: text(&config.packages),
        logs: text(&config.bulklog),
        bootstrapkit: text(&config.bootstrapkit),
        pkg_add: text(&config.pkg_add),
        pkg_delete: text(&config.pkg_delete),
        make_jobs: jobs::of_each(config),
        makes: jobs::makes(config)?,
        suffix: text(&config.pkg_sufx),
        user: unprivileged.filter(|_| is_root).cloned(),
        one_user: as_user,
        unprivileged_checksum: config.use_unprivileged_checksum,
        environment: config.environment.clone(),
        facts,
        sandbox,
        memory: jobs::memory(config, clients(config), as_user).filter(|_| spaces.is_some()),
        clients: clients(config),
        wrkobjdir: text(&config.wrkobjdir),
        distdir: text(&config.distdir),
        fetching: fetching(config),
        door: door()?,
        keep_wrkdir: config.keep_wrkdir,
        keep_prefix: config.keep_prefix,
        prepare_action: text(&config.client_prepare_action),
        sync_package: text(&config.sync_package),
        sync_buildlog: text(&config.sync_buildlog),
        limits: Stage::ALL.into_iter().map(|stage| (stage, config.limits(stage.name()))).collect(),
        works: Works::of(&config.state),
    })
}

/// How many packages are built at a time.
fn clients(config: &Config) -> usize {
    match config.build_clients {
        _ if config.sandbox == NO_SANDBOX => 1,
        0 => tanto_sys::machine::cpu::count(),
        count => count,
    }
}

/// The program itself.
fn door() -> Result<String, String> {
    let door = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(door.to_string_lossy().into_owned())
}

fn fetching(config: &Config) -> Fetching {
    Fetching {
        lock: format!("{}/fetching", config.state),
        master_site_override: config.master_site_override.clone(),
        ignore_interactive_fetch: config.ignore_interactive_fetch,
        post_fetch_hook: config.post_fetch_hook.clone(),
    }
}

/// The sandbox, in which all works that is needed, and what makefiles need not ask there.
fn shut_in(config: &Config, spaces: &Spaces) -> Result<(Sandbox, Vec<String>), String> {
    let sandbox = spaces.sandbox()?.clone();
    let programs = [config.make.as_str(), &config.pkg_add, &config.pkg_delete];
    let said = sandbox.try_out(&config.pkgsrc, &programs, &platform_vars::question(config))?;
    Ok((sandbox, platform_vars::known(&said)))
}

/// Into a mount namespace of our own; true if we are root only there.
fn leave() -> io::Result<bool> {
    let as_user = user::effective() != ROOT || namespaces::unshare(&[Namespace::Mounts]).is_err();
    if as_user {
        namespaces::unshare_as_root(&[Namespace::Mounts])?;
    }
    mounts::make_all_slave()?;
    Ok(as_user)
}

const ROOT: u32 = 0;
/// Whose loss would be the machine's.
const SYSTEM: [&str; 20] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/share",
    "/var/lib",
    "/var/log",
];

/// What must not lie in a directory that is emptied.
fn precious(config: &Config) -> Vec<PathBuf> {
    let ours = [&config.pkgsrc, &config.packages, &config.bulklog, &config.state, &config.bootstrapkit];
    let paths = SYSTEM.iter().map(PathBuf::from).chain(ours.map(PathBuf::from));
    paths.chain(std::env::var_os("HOME").map(PathBuf::from)).chain(std::env::current_dir()).collect()
}

/// May what a killed build has worked in be removed? There is nothing else in it then.
pub(super) fn may_be_removed(path: &Path, config: &Config) -> bool {
    may_be_emptied(&path.to_string_lossy(), &precious(config)).is_ok()
}

/// The prefix is removed before each package. Links count as what they lead to.
fn may_be_emptied(path: &str, precious: &[PathBuf]) -> Result<(), Vec<u8>> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let emptied = Path::new(path);
    let leads_up = emptied.components().any(|part| part == std::path::Component::ParentDir);
    let lost = precious.iter().find(|it| it.starts_with(emptied) || real(it).starts_with(real(emptied)));
    match lost {
        Some(lost) => {
            let lost = lost.display();
            Err(format!("{path} is emptied before each package, and {lost} is in it: that cannot be meant")
                .into_bytes())
        }
        None if leads_up || !emptied.is_absolute() => {
            Err(format!("{path} is emptied before each package: name it without '..'").into_bytes())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn nothing_is_emptied_that_holds_something_else() {
        let place = Scratch::new("bulk-emptied");
        place.write("builds/tree/x", "");
        std::os::unix::fs::symlink("builds", place.at("link")).unwrap();
        let config = Config { pkgsrc: place.text().to_owned() + "/builds/tree", ..Config::default() };
        let may = |path: &str| may_be_emptied(path, &precious(&config)).map_err(|why| String::from_utf8(why).unwrap());
        let inside = |path: &str| format!("{}/{path}", place.text());
        for path in ["/", "/usr", "/usr/local", "/var", "/tmp", "builds", "/pkg/../usr"] {
            assert!(may(path).is_err(), "{path}");
        }
        for path in ["builds", "builds/.", "builds/tree", "link", "."] {
            assert!(may(&inside(path)).unwrap_err().contains("is emptied before each package, and "), "{path}");
        }
        for path in ["prefix", "builds/prefix", "builds/tree-2"] {
            assert_eq!(may(&inside(path)), Ok(()), "{path}");
        }
        assert_eq!((may("/usr/pkg"), may("/var/db/pkg")), (Ok(()), Ok(())));
    }
}
