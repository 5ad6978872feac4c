//! Finds the checkpoint program, and describes how the compilers of a build run.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::process::Environment;

use super::checkpoint_daemon::{Held, held};
use super::identity::{loader_variable, version_line};
use super::startup_costs::{self, StartupCost};
use super::{CheckpointOptions, WorkerOptions, identity_cache};

/// Whether compilers run in forks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClangWorker {
    /// Where possible and cheaper.
    Auto,
    Off,
    /// A compile that cannot run in a fork is an error.
    Require,
}

/// Environment variable with the path of the checkpoint program.
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

/// The cache of clangs that have checkpoints, below Tanto's own state.
const IDENTITY_CACHE: &str = "clang-worker";

/// The startup costs of compilers, below Tanto's own state.
pub const STARTUP_COSTS: &str = "fork-servers";

/// Information from the checkpoint daemon of a build directory.
pub fn checkpoint_usage(state: &StateDirs) -> Option<Held> {
    state.verified_dirs().find_map(|top| held(&top.join(CHECKPOINT_DIR)))
}

/// The options for at most `most` checkpoints; `None` for none. `state`: Tanto's own state directory.
pub fn checkpoints(most: u32, verify_every: u32, state: &Path) -> Option<CheckpointOptions> {
    let is_seen = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    let may_start = is_seen && std::env::var_os("CI").is_none_or(|value| value.is_empty());
    let program = candidates().into_iter().find(|place| is_executable(place)).filter(|_| most > 0)?;
    let (identities, place) = (state.join(IDENTITY_CACHE), state.join(CHECKPOINT_DIR));
    Some(CheckpointOptions { program, identities, place, most, may_start, verify_every })
}

/// Returns the options for forks of compilers, or `None` if they are off. `planned`: the number of commands in the plan.
pub fn find(
    wanted: ClangWorker,
    costs_file: PathBuf,
    planned: usize,
    checkpoints: Option<CheckpointOptions>,
) -> Result<Option<WorkerOptions>, DisabledBy> {
    let required = wanted == ClangWorker::Require;
    if wanted == ClangWorker::Off {
        return Ok(None);
    }
    if required && let Some(name) = loader_variable(&Environment::inherit_with(&[])) {
        return Err(DisabledBy(name.to_vec()));
    }
    Ok(Some(WorkerOptions { costs_file, required, planned, checkpoints }))
}

/// Forks are required, but this environment variable is set.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("--clang-worker=require: {} in the environment requires compilers as processes", String::from_utf8_lossy(.0))]
pub struct DisabledBy(Vec<u8>);

/// Describes how the clangs that builds in this directory have used will run.
pub fn describe(state: &StateDirs) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    if let Some(name) = loader_variable(&Environment::inherit_with(&[])) {
        lines.push([b"compilers run as processes, because of ", name, b" in the environment"].concat());
    }
    let replaced = checkpointed(state);
    let costs: Vec<_> = state.verified_dirs().flat_map(|top| startup_costs::read(&top.join(STARTUP_COSTS))).collect();
    for cost in &costs {
        lines.push(describe_compiler(cost, replaced.contains(&cost.program)));
    }
    if costs.is_empty() {
        lines.push(b"no build here has run two commands with clang yet; gcc and others are always processes".into());
    }
    lines
}

/// The version of LLVM with which the checkpoint program is built.
const CHECKPOINT_MAJOR: &str = "19";

/// `clang 16.0.6: fork server; no checkpoints (...)`
fn describe_compiler(cost: &StartupCost, has_checkpoints: bool) -> Vec<u8> {
    let StartupCost { program, startup_us, fork_us, .. } = cost;
    let text = version_line(program).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let version = text.split("version ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("of unknown version");
    let milliseconds = |us: &u64| *us as f64 / 1000.0;
    let how = if cost.is_fork_cheaper() { "fork server" } else { "processes, since a fork is not cheaper" };
    let saving = format!("{how} (start {:.1} ms, fork {:.1} ms)", milliseconds(startup_us), milliseconds(fork_us));
    let checkpoints = match version.split('.').next() {
        _ if has_checkpoints => "checkpoints".to_string(),
        Some(CHECKPOINT_MAJOR) => "no checkpoints (./install --with-checkpoints adds them)".to_string(),
        _ => format!("no checkpoints (clang {CHECKPOINT_MAJOR} only)"),
    };
    [program.as_os_str().as_bytes(), format!(": clang {version}: {saving}; {checkpoints}").as_bytes()].concat()
}

/// Returns the clangs of builds here that have checkpoints.
fn checkpointed(state: &StateDirs) -> Vec<PathBuf> {
    if !candidates().iter().any(|place| is_executable(place)) {
        return Vec::new();
    }
    let all = state.verified_dirs().flat_map(|top| identity_cache::programs(&top.join(IDENTITY_CACHE)));
    all.filter(|(_, is_replaced)| *is_replaced).map(|(program, _)| program).collect()
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
        assert_eq!(find(ClangWorker::Off, PathBuf::new(), 1, None), Ok(None));
    }
}
