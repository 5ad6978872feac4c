//! Where the compile worker is. Does not know what it does.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tanto_exec::runner::clang;
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::process::Environment;

use crate::settings::layer::{ClangWorker, Kept};

/// The variable that names its program.
pub const PLACE_VARIABLE: &str = "TANTO_CLANG_WORKER";

/// All places where it may be, the first that is looked at first.
pub fn places() -> Vec<PathBuf> {
    let named = std::env::var_os(PLACE_VARIABLE).filter(|place| !place.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().ok();
    let dir = own.as_deref().and_then(Path::parent);
    let beside = dir.into_iter().flat_map(|dir| {
        // Where it is installed; where it is built, beside Tanto itself or its directory.
        ["../libexec/tanto/clang-worker", "clang-worker/clang-worker", "../clang-worker/clang-worker"]
            .map(|place| dir.join(place))
    });
    named.into_iter().chain(beside).collect()
}

/// Can it be run?
pub fn is_there(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// The directory of who keeps checkpoints, in that of our own state.
pub const KEPT: &str = "checkpoints";

/// The file that remembers which clangs the worker stands for, in the same place.
pub const KNOWN: &str = "clang-worker";

/// What the worker is built from, for Debian.
pub const PACKAGES: &str =
    "clang-19 lld-19 cmake g++ llvm-19-dev libclang-19-dev liblld-19-dev libpolly-19-dev zlib1g-dev libzstd-dev";

/// So many checkpoints at most.
pub fn most_kept(kept: Kept) -> u32 {
    match kept {
        // Each takes some ten to a hundred MiB; who edits goes to and fro between a handful of files.
        Kept::Auto => 8,
        Kept::AtMost(most) => most,
    }
}

/// The checkpoints that are kept for builds in the directory to which `state` belongs.
pub fn held(state: &StateDirs) -> Option<clang::Held> {
    state.verified_dirs().find_map(|top| clang::held(&top.join(KEPT)))
}

/// The checkpoints as the user wants them, kept by somebody in this directory; none if they are off.
pub fn checkpoints(kept: Kept, doubted: u32, place: PathBuf) -> Option<clang::CheckpointOptions> {
    let most = most_kept(kept);
    let is_seen = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    let may_start = is_seen && std::env::var_os("CI").is_none_or(|value| value.is_empty());
    (most > 0).then_some(clang::CheckpointOptions { place, most, may_start, verify_every: doubted })
}

/// The worker as the user wants it, which remembers in `known` what it stands for. An error, for the user: there is none,
/// and it is required.
pub fn find(
    wanted: ClangWorker,
    known: PathBuf,
    checkpoints: Option<clang::CheckpointOptions>,
) -> Result<Option<clang::WorkerOptions>, Vec<u8>> {
    let required = wanted == ClangWorker::Require;
    if wanted == ClangWorker::Off {
        return Ok(None);
    }
    if required && let Some(name) = clang::is_left_alone_because_of(&Environment::inherit_with(&[])) {
        return Err([b"--clang-worker=require: ", name, b" in the environment wants compilers as processes"].concat());
    }
    match places().into_iter().find(|place| is_there(place)) {
        Some(program) => Ok(Some(clang::WorkerOptions { program, cache: known, required, checkpoints })),
        None if required => Err(nowhere()),
        None => Ok(None),
    }
}

fn nowhere() -> Vec<u8> {
    let mut text = b"--clang-worker=require: there is no compile worker:".to_vec();
    for place in places() {
        text.extend_from_slice(b"\n  ");
        text.extend_from_slice(place.as_os_str().as_bytes());
    }
    let mend = format!("\n./install builds it, after: apt-get install {PACKAGES}; --clang-worker=auto does without");
    text.extend_from_slice(mend.as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_us() {
        let places = places();
        let ends = |end: &str| places.iter().any(|place| place.ends_with(end));
        assert!(ends("../libexec/tanto/clang-worker") && ends("clang-worker/clang-worker"));
    }

    #[test]
    fn a_directory_is_no_program() {
        assert!(is_there(Path::new("/bin/sh")));
        assert!(
            !is_there(Path::new("/bin")) && !is_there(Path::new("/nowhere")) && !is_there(Path::new("/etc/passwd"))
        );
    }

    #[test]
    fn checkpoints_are_as_many_as_the_user_wants() {
        assert_eq!(checkpoints(Kept::AtMost(0), 1, PathBuf::new()), None);
        let wanted =
            |kept| checkpoints(kept, 3, PathBuf::from("place")).map(|wanted| (wanted.most, wanted.verify_every));
        assert_eq!(wanted(Kept::Auto), Some((8, 3)));
        assert_eq!(wanted(Kept::AtMost(2)), Some((2, 3)));
    }

    #[test]
    fn who_wants_none_gets_none() {
        assert_eq!(find(ClangWorker::Off, PathBuf::new(), None), Ok(None));
    }
}
