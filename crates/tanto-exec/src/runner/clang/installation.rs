//! Finds the installed clang worker, and describes it and the clangs that it stands in for.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::process::Environment;

use super::checkpoint_daemon::{Held, held};
use super::identity::{conflicting_variable, replaced_version};
use super::identity_cache::programs;
use super::{CheckpointOptions, WorkerOptions};

/// Whether compilers run in the compile worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClangWorker {
    /// If there is one.
    Auto,
    Off,
    /// Fail the build if there is none.
    Require,
}

/// Environment variable with the path of the worker.
pub const WORKER_VARIABLE: &str = "TANTO_CLANG_WORKER";

/// All candidates, in order of preference.
pub fn candidates() -> Vec<PathBuf> {
    let named = std::env::var_os(WORKER_VARIABLE).filter(|place| !place.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().ok();
    let dir = own.as_deref().and_then(Path::parent);
    let beside = dir.into_iter().flat_map(|dir| {
        // The installed path, then paths relative to a build of Tanto.
        ["../libexec/tanto/clang-worker", "clang-worker/clang-worker", "../clang-worker/clang-worker"]
            .map(|place| dir.join(place))
    });
    named.into_iter().chain(beside).collect()
}

pub fn is_executable(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// The directory of the checkpoint daemon, below Tanto's own state.
pub const CHECKPOINT_DIR: &str = "checkpoints";

/// The cache of known clangs, below Tanto's own state.
pub const IDENTITY_CACHE: &str = "clang-worker";

/// The Debian packages needed to build the worker.
pub const DEBIAN_PACKAGES: &str =
    "clang-19 lld-19 cmake g++ llvm-19-dev libclang-19-dev liblld-19-dev libpolly-19-dev zlib1g-dev libzstd-dev";

/// Information from the checkpoint daemon of a build directory.
pub fn checkpoint_usage(state: &StateDirs) -> Option<Held> {
    state.verified_dirs().find_map(|top| held(&top.join(CHECKPOINT_DIR)))
}

/// The options for at most `most` checkpoints; `None` for none.
pub fn checkpoints(most: u32, verify_every: u32, place: PathBuf) -> Option<CheckpointOptions> {
    let is_seen = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    let may_start = is_seen && std::env::var_os("CI").is_none_or(|value| value.is_empty());
    (most > 0).then_some(CheckpointOptions { place, most, may_start, verify_every })
}

/// Returns the worker's options, or `None` if it is off or missing.
pub fn find(
    wanted: ClangWorker,
    known: PathBuf,
    checkpoints: Option<CheckpointOptions>,
) -> Result<Option<WorkerOptions>, WorkerError> {
    let required = wanted == ClangWorker::Require;
    if wanted == ClangWorker::Off {
        return Ok(None);
    }
    if required && let Some(name) = conflicting_variable(&Environment::inherit_with(&[])) {
        return Err(WorkerError::DisabledBy(name.to_vec()));
    }
    match candidates().into_iter().find(|place| is_executable(place)) {
        Some(program) => Ok(Some(WorkerOptions { program, cache: known, required, checkpoints })),
        None if required => Err(WorkerError::NotFound),
        None => Ok(None),
    }
}

/// The reason a required worker cannot be used.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(&self.message()))]
pub enum WorkerError {
    /// This environment variable is set.
    DisabledBy(Vec<u8>),
    NotFound,
}

impl WorkerError {
    /// The message; it contains paths as they are.
    pub fn message(&self) -> Vec<u8> {
        match self {
            WorkerError::DisabledBy(name) => {
                [b"--clang-worker=require: ", &name[..], b" in the environment requires compilers as processes"]
                    .concat()
            }
            WorkerError::NotFound => {
                let paths = candidates().into_iter().flat_map(|path| [b"\n  ", path.as_os_str().as_bytes()].concat());
                let remedy = format!(
                    "\nTo build it, run: apt-get install {DEBIAN_PACKAGES}; ./install\n\
                     --clang-worker=auto continues without it"
                );
                let text = b"--clang-worker=require: clang worker not found:".iter().copied();
                text.chain(paths).chain(remedy.into_bytes()).collect()
            }
        }
    }
}

/// The path of the compile worker, the clang that it replaces, and the clangs that builds in this directory have used.
pub fn describe(state: &StateDirs) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    if let Some(name) = conflicting_variable(&Environment::inherit_with(&[])) {
        lines.push([b"not used, because of ", name, b" in the environment"].concat());
    }
    let places = candidates();
    match places.iter().find(|place| is_executable(place)) {
        Some(place) => {
            lines.push(place.as_os_str().as_bytes().to_vec());
            let clang =
                replaced_version(place).unwrap_or_else(|| b"nothing: it does not run. Run ./install again".into());
            lines.push([&b"stands for "[..], &clang].concat());
        }
        None => {
            lines.extend(places.iter().map(|place| [place.as_os_str().as_bytes(), b" (none)"].concat()));
            lines.push(format!("./install builds it, after: apt-get install {}", DEBIAN_PACKAGES).into());
        }
    }
    let met: Vec<_> = state.verified_dirs().flat_map(|place| programs(&place.join(IDENTITY_CACHE))).collect();
    if met.is_empty() {
        lines.push(b"no build here has used a clang with it yet; gcc and other compilers are always processes".into());
    }
    for (program, is_ours) in met {
        let how: &[u8] = if is_ours {
            b" runs in it"
        } else {
            b" is another build of clang, and a process: ./install builds the worker anew"
        };
        lines.push([b"builds here: ", program.as_os_str().as_bytes(), how].concat());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_beside_the_program() {
        let places = candidates();
        let ends = |end: &str| places.iter().any(|place| place.ends_with(end));
        assert!(ends("../libexec/tanto/clang-worker") && ends("clang-worker/clang-worker"));
    }

    #[test]
    fn directory_is_not_executable() {
        assert!(is_executable(Path::new("/bin/sh")));
        assert!(
            !is_executable(Path::new("/bin"))
                && !is_executable(Path::new("/nowhere"))
                && !is_executable(Path::new("/etc/passwd"))
        );
    }

    #[test]
    fn disabled_worker_is_not_searched() {
        assert_eq!(find(ClangWorker::Off, PathBuf::new(), None), Ok(None));
    }
}
