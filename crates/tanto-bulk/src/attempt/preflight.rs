//! Checks of the configuration and the machine before anything takes long.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use tanto_sys::fs::lock;
use tanto_sys::user;

use crate::config::{Config, NO_SANDBOX};
use crate::error::BulkError;

const ROOT: u32 = 0;

/// Refuses configurations that could destroy files or leak the signing key.
pub fn check_config(config: &Config) -> Result<(), BulkError> {
    if config.sandbox == NO_SANDBOX {
        for path in [&config.prefix, &config.pkgdb] {
            check_emptied(path, &precious_paths(config))?;
        }
        if !config.sign_keys.is_empty() {
            return Err(
                "without a sandbox, builds can read the key in sign_keys: use a sandbox, or set sign_keys only \
                        in a separate file for publish --config"
                    .into(),
            );
        }
        if config.build_clients > 1 {
            return Err("without a sandbox there is one prefix, so packages are built one at a time: remove \
                        build_clients"
                .into());
        }
    }
    match config.bootstrapkit.is_empty() {
        true => Err("each package starts with an empty prefix: set 'bootstrapkit' to its initial contents".into()),
        false => Ok(()),
    }
}

/// Checks that the unprivileged user exists in the sandbox template and has a shell. Skipped if hooks may create it later.
pub fn check_user(config: &Config, as_user: bool) -> Result<(), BulkError> {
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
        // Users may also come from a name service, which no sandbox reaches.
        let entry = Command::new("getent").args(["passwd", name]).output();
        text += &entry.map(|entry| String::from_utf8_lossy(&entry.stdout).into_owned()).unwrap_or_default();
    }
    let shell = text.lines().find_map(|line| line.strip_prefix(name.as_str())?.strip_prefix(':')?.rsplit(':').next());
    let (problem, remedy) = match shell {
        None => (format!("no such user in {}", passwd.display()), format!("useradd {options}-m -s /bin/sh {name}")),
        Some(shell) if is_usable_shell(Path::new(root), shell) => return Ok(()),
        Some(shell) => {
            (format!("its shell {shell} cannot run commands"), format!("usermod {options}-s /bin/sh {name}"))
        }
    };
    let remedy = format!("run '{remedy}' as root, or set unprivileged_user = \"\" to build as root");
    Err(format!("unprivileged_user = \"{name}\": {problem}; {remedy}").into())
}

/// Whether a login shell runs commands; `nologin` and its like exit at once.
fn is_usable_shell(root: &Path, shell: &str) -> bool {
    let shell = if shell.is_empty() { "/bin/sh" } else { shell };
    let refusing = ["nologin", "false", "true", "sync", "halt", "shutdown"];
    let path = Path::new(shell);
    let exists = || fs::symlink_metadata(root.join(path.strip_prefix("/").unwrap_or(path))).is_ok();
    path.is_absolute() && path.file_name().is_some_and(|name| !refusing.iter().any(|it| name == *it)) && exists()
}

/// Locks the prefix and its database against other builds without a sandbox. The locks last as long as the files.
pub fn lock_prefix(config: &Config) -> Result<Vec<File>, BulkError> {
    if config.sandbox != NO_SANDBOX {
        return Ok(Vec::new());
    }
    let mut locks = Vec::new();
    let is_separate = !Path::new(&config.pkgdb).starts_with(&config.prefix);
    for (key, dir) in [("prefix", &config.prefix)].into_iter().chain(is_separate.then_some(("pkgdb", &config.pkgdb))) {
        fs::create_dir_all(dir).map_err(BulkError::io("opening ", dir))?;
        let file = File::open(dir).map_err(BulkError::io("opening ", dir))?;
        if !lock::try_lock_exclusive(&file).map_err(BulkError::io("locking ", dir))? {
            return Err(format!(
                "another build without a sandbox is using {dir}, which is emptied before each package: wait for it, or \
                 set another '{key}' for this build"
            )
            .into());
        }
        locks.push(file);
    }
    Ok(locks)
}

/// Directories of the system that are never emptied.
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

/// Paths that must not be inside a directory that is emptied.
fn precious_paths(config: &Config) -> Vec<PathBuf> {
    let ours = [&config.pkgsrc, &config.packages, &config.bulklog, &config.state, &config.bootstrapkit];
    let paths = SYSTEM.iter().map(PathBuf::from).chain(ours.map(PathBuf::from));
    paths.chain(std::env::var_os("HOME").map(PathBuf::from)).chain(std::env::current_dir()).collect()
}

/// Whether the work directory of a killed build may be removed.
pub fn may_be_removed(path: &Path, config: &Config) -> bool {
    check_emptied(&path.to_string_lossy(), &precious_paths(config)).is_ok()
}

/// Checks a directory that is emptied before each package. Links count as their targets.
fn check_emptied(path: &str, precious: &[PathBuf]) -> Result<(), String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let emptied = Path::new(path);
    let leads_up = emptied.components().any(|part| part == Component::ParentDir);
    match precious.iter().find(|it| it.starts_with(emptied) || real(it).starts_with(real(emptied))) {
        Some(lost) => {
            Err(format!("refusing to use {path}: it is emptied before each package and contains {}", lost.display()))
        }
        None if leads_up || !emptied.is_absolute() => {
            Err(format!("refusing to use {path}: it is emptied before each package, so it must not have '..' in it"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn directories_with_precious_paths_are_refused() {
        let place = Scratch::new("bulk-emptied");
        place.write("builds/tree/x", "");
        std::os::unix::fs::symlink("builds", place.at("link")).unwrap();
        let config = Config { pkgsrc: place.text().to_owned() + "/builds/tree", ..Config::default() };
        let may = |path: &str| check_emptied(path, &precious_paths(&config));
        let inside = |path: &str| format!("{}/{path}", place.text());
        for path in ["/", "/usr", "/usr/local", "/var", "/tmp", "builds", "/pkg/../usr"] {
            assert!(may(path).is_err(), "{path}");
        }
        for path in ["builds", "builds/.", "builds/tree", "link", "."] {
            assert!(may(&inside(path)).unwrap_err().contains("is emptied before each package and contains "), "{path}");
        }
        for path in ["prefix", "builds/prefix", "builds/tree-2"] {
            assert_eq!(may(&inside(path)), Ok(()), "{path}");
        }
        assert_eq!((may("/usr/pkg"), may("/var/db/pkg")), (Ok(()), Ok(())));
    }
}
