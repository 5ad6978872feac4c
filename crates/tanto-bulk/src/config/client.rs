//! The configuration of a client on another machine: the coordinator's keys that packages can see, and the client's own
//! directories and sandboxes.

use std::path::Path;

use toml::de::DeTable;

use super::keys::SHARED;
use super::read::{self, ConfigError, ConfigProblem, ENVIRONMENT, STAGE};
use super::{Config, MAKECONF, NO_SANDBOX};

/// The files and settings of a client's machine.
#[derive(Clone, Debug)]
pub struct ClientFiles<'a> {
    /// The client's directory, which is absolute.
    pub dir: &'a Path,
    /// The downloaded package tree.
    pub tree: &'a Path,
    /// The downloaded bootstrap kit.
    pub kit: Option<&'a Path>,
    /// The downloaded file of MAKECONF.
    pub makeconf: Option<&'a Path>,
    /// A `SandboxKind`, or `NO_SANDBOX`.
    pub sandbox: &'a str,
    pub sandbox_root: &'a Path,
    /// Packages at a time.
    pub slots: usize,
}

pub(super) fn read(shared: &str, files: &ClientFiles<'_>) -> Result<Config, ConfigError> {
    refuse_other_keys(shared)?;
    let mut config = read::read(shared)?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let below = |name: &str| path(&files.dir.join(name));
    config.state = below("state");
    config.packages = below("packages");
    config.bulklog = below("bulklog");
    config.distdir = below("distfiles");
    config.bootstrapkit = files.kit.map(path).unwrap_or_default();
    config.sandbox = files.sandbox.to_owned();
    config.sandbox_root = path(files.sandbox_root);
    config.build_clients = if files.sandbox == NO_SANDBOX { 0 } else { files.slots };
    match files.sandbox {
        NO_SANDBOX => config.pkgsrc = path(files.tree),
        _ => config.tree_source = Some(path(files.tree)),
    }
    if let Some(makeconf) = files.makeconf {
        config.environment.insert(MAKECONF.to_owned(), path(makeconf));
    }
    config.settle(files.dir);
    Ok(config)
}

/// The coordinator sets only keys that packages can see: no line that runs outside of their sandboxes.
fn refuse_other_keys(shared: &str) -> Result<(), ConfigError> {
    // Errors of the syntax are reported by the next step.
    let Ok(table) = DeTable::parse(shared) else { return Ok(()) };
    let is_shared = |name: &str| SHARED.contains(&name) || [STAGE, ENVIRONMENT].contains(&name);
    match table.get_ref().iter().find(|(name, _)| !is_shared(name.get_ref())) {
        Some((name, _)) => {
            let message = format!("the build must not set '{}' for its clients", name.get_ref());
            Err(ConfigError { at: name.span().start, problem: ConfigProblem::Message(message) })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sandbox: &'static str) -> ClientFiles<'static> {
        ClientFiles {
            dir: Path::new("/c"),
            tree: Path::new("/c/tree"),
            kit: Some(Path::new("/c/kit")),
            makeconf: Some(Path::new("/c/mk.conf")),
            sandbox,
            sandbox_root: Path::new("/"),
            slots: 3,
        }
    }

    fn coordinator() -> Config {
        let text = "pkgsrc = '/usr/src'\nstate = '/s'\nbootstrapkit = '/kit.tgz'\nmake_jobs = 2\ntimeout = '2h'\n\
                    sync_package = 'rm -rf /'\nkeep_wrkdir = true\ndisk_limit = '1G'\n\
                    [stage.build]\nmemory_limit = '8G'\n[stage.scan]\ntimeout = '0'\n\
                    [stage.clean]\n[environment]\nMAKECONF = '/etc/mk.conf'\nX = 'y'\n";
        Config::read(text, Path::new("/here")).unwrap()
    }

    #[test]
    fn client_has_the_settings_of_the_build_and_its_own_paths() {
        let theirs = coordinator();
        let ours = Config::for_client(&theirs.shared(), &files("bind")).unwrap();
        assert_eq!((ours.limits, &ours.stages), (theirs.limits, &theirs.stages));
        assert_eq!((ours.pkgsrc.as_str(), ours.tree_dir()), ("/usr/src", "/c/tree"));
        assert_eq!((ours.make_jobs, ours.keep_wrkdir, ours.build_clients), (2, true, 3));
        assert_eq!((&*ours.state, &*ours.bootstrapkit, &*ours.distdir), ("/c/state", "/c/kit", "/c/distfiles"));
        assert_eq!((&*ours.environment["MAKECONF"], &*ours.environment["X"]), ("/c/mk.conf", "y"));
        assert_eq!(ours.sync_package, "", "hooks stay with the coordinator");
        let outside = Config::for_client(&theirs.shared(), &files(NO_SANDBOX)).unwrap();
        assert_eq!((outside.pkgsrc.as_str(), outside.tree_dir()), ("/c/tree", "/c/tree"));
    }

    #[test]
    fn shared_settings_hide_everything_else() {
        let shared = coordinator().shared();
        assert!(shared.contains("bootstrapkit = \"yes\""), "{shared}");
        assert!(!shared.contains("/kit.tgz") && !shared.contains("rm -rf") && !shared.contains("state"), "{shared}");
    }

    #[test]
    fn other_keys_are_refused() {
        for key in ["client_prepare_chroot", "sync_package", "post_fetch_hook", "sandbox", "state"] {
            let error = Config::for_client(&format!("make_jobs = 1\n{key} = 'x'\n"), &files("bind")).unwrap_err();
            assert_eq!((error.at, error.problem.to_string().contains(key)), (14, true), "{key}");
        }
    }
}
