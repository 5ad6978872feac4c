//! Identifies the program that a command names, and whether checkpoints replace it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tanto_sys::process::{Environment, ExitStatus, Launcher, Program, find_program};

use crate::elf;

use super::frames::{self, PROTOCOL, Reply};
use super::server_process::words;

/// Time after which a change of a file shows in its stamp.
const MIN_AGE: Duration = Duration::from_secs(1);

/// Identifies the version of a file: device, inode, size, mtime and ctime in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp(pub(super) [i128; 5]);

/// An identified program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// Path without symbolic links.
    pub(super) program: PathBuf,
    /// The checkpoint program replaces it.
    pub(super) is_replaced: bool,
    /// The lld beside it, if the checkpoint program replaces that too.
    pub(super) lld: Option<PathBuf>,
    /// All files that the result depends on.
    pub(super) files: Vec<(PathBuf, Stamp)>,
    /// Build-ids of the replaced files. Files of two images can have the same stamp.
    pub(super) builds: Vec<(PathBuf, Vec<u8>)>,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        let it = fs::metadata(path).ok()?;
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Some(Stamp([
            it.dev().into(),
            it.ino().into(),
            it.size().into(),
            nanoseconds(it.mtime(), it.mtime_nsec()),
            nanoseconds(it.ctime(), it.ctime_nsec()),
        ]))
    }

    pub(super) fn inode(&self) -> i128 {
        self.0[1]
    }

    /// Returns whether the file has not changed since a moment before this time. One that has may have been opened
    /// before the change.
    pub(super) fn is_older(&self, time: SystemTime) -> bool {
        let limit = time.checked_sub(MIN_AGE).and_then(|limit| limit.duration_since(UNIX_EPOCH).ok());
        limit.and_then(|limit| i128::try_from(limit.as_nanos()).ok()).is_some_and(|limit| self.0[4] < limit)
    }
}

impl Identity {
    /// Returns whether no file has changed.
    pub(super) fn is_unchanged(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == Some(*stamp))
    }

    /// Returns whether all files still have the same build-id.
    pub(super) fn is_same_build(&self) -> bool {
        self.builds.iter().all(|(path, build)| elf::build_id(path).as_ref() == Some(build))
    }
}

/// The program that a command of some name would run.
pub(super) struct FoundProgram {
    /// As the command finds it.
    pub(super) path: PathBuf,
    /// Without symbolic links.
    pub(super) real: PathBuf,
}

/// Returns the program that a command of this name would run; `None` in doubt, or if it is neither clang nor lld.
pub(super) fn find(name: &[u8], path: &[u8]) -> Option<FoundProgram> {
    let found = find_program(name, path, Path::new(""))?;
    let real = found.canonicalize().ok()?;
    (is_compiler_or_linker(real.file_name()?.as_bytes()) && is_program(&real))
        .then_some(FoundProgram { path: found, real })
}

/// `clang`, `clang++-19`, `aarch64-linux-gnu-clang`, `ld.lld` and the like.
fn is_compiler_or_linker(file: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"clang", b"clang++", b"lld", b"ld.lld"];
    let version = file.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let name = &file[..file.len() - version];
    let name = if version > 0 { name.strip_suffix(b"-").unwrap_or(name) } else { name };
    let last = name.strip_suffix(b"clang").or(name.strip_suffix(b"clang++"));
    NAMES.contains(&name) || last.is_some_and(|prefix| prefix.ends_with(b"-"))
}

/// Returns whether the file is executable and no script.
fn is_program(path: &Path) -> bool {
    const MODES: u32 = 0o111;
    const ODD_MODES: u32 = 0o6000;
    let Ok(mode) = fs::metadata(path).map(|it| it.mode()) else { return false };
    let mut magic = [0; 4];
    let is_elf = File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF";
    is_elf && mode & MODES != 0 && mode & ODD_MODES == 0
}

/// Returns a variable of the dynamic loader that has to take effect in each process, if there is one.
pub fn loader_variable(environment: &Environment) -> Option<&[u8]> {
    const NAMES: [&[u8]; 6] =
        [b"LD_PRELOAD", b"LD_AUDIT", b"LD_TRACE_LOADED_OBJECTS", b"LD_DEBUG", b"LD_PROFILE", b"LD_SHOW_AUXV"];
    environment.iter().map(|(name, _)| name).find(|name| NAMES.contains(name))
}

/// Returns a variable that makes clang do something that a checkpoint does not, if there is one.
pub(super) fn checkpoint_variable(environment: &Environment) -> Option<&[u8]> {
    let odd = environment.iter().find(|(name, value)| match *name {
        b"CLANG_SPAWN_CC1" => *value != b"0" && !value.is_empty(),
        b"CCC_OVERRIDE_OPTIONS" => true,
        b"FORCE_CLANG_DIAGNOSTICS_CRASH" | b"CLANG_CRASH_DIAGNOSTICS_DIR" => true,
        name => name.starts_with(b"CC_PRINT_") || name.starts_with(b"CC_LOG_"),
    });
    odd.map(|(name, _)| name)
}

/// The programs that a checkpoint program replaces.
pub(super) struct Replaced {
    /// First line of `clang --version`.
    clang: Vec<u8>,
    /// Beginning of `ld.lld --version`.
    lld: Vec<u8>,
    /// GNU build-ids of the programs and libraries.
    builds: Vec<Vec<u8>>,
}

impl Replaced {
    /// Asks the checkpoint program.
    pub(super) fn by(checkpoint_program: &Path) -> Option<Replaced> {
        match frames::decode(&run(checkpoint_program, b"--hello", &[])?)? {
            Reply::Hello { version: PROTOCOL, clang, lld, builds } => Some(Replaced { clang, lld, builds }),
            _ => None,
        }
    }
}

/// Runs this program to find out whether the checkpoint program replaces it. The version is not enough: distributions
/// patch without changing it.
pub(super) fn identify(program: &Path, by: &Replaced) -> Option<Identity> {
    let dir = program.parent()?;
    let text = version(program)?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let is_same_version = lines.next() == Some(&by.clang[..]);
    // A wrapper prints the same version, but not this.
    let installed = lines.find_map(|line| line.strip_prefix(b"InstalledDir: "));
    let mut files = vec![program.to_path_buf()];
    files.extend(libraries(program)?);
    let mut builds = Vec::new();
    let is_replaced = is_same_version
        && installed == Some(dir.as_os_str().as_bytes())
        && are_same_builds(&files, &by.builds, &mut builds);
    let lld = if is_replaced { lld_in(dir, &by.lld) } else { None };
    let with_libraries = |lld: PathBuf| Some([vec![lld.clone()], libraries(&lld)?].concat());
    let linker = lld.clone().and_then(with_libraries).filter(|its| are_same_builds(its, &by.builds, &mut builds));
    let lld = lld.filter(|_| linker.is_some());
    files.extend(linker.into_iter().flatten());
    let files = files.into_iter().map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect::<Option<_>>()?;
    Some(Identity { program: program.to_path_buf(), is_replaced, lld, files, builds })
}

/// Returns whether the first of these files, a program, and the LLVM libraries among the others are from the build that
/// the checkpoint program was linked with. Adds their build-ids to `builds`.
fn are_same_builds(files: &[PathBuf], linked: &[Vec<u8>], builds: &mut Vec<(PathBuf, Vec<u8>)>) -> bool {
    let is_llvms = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"libLLVM") || name.starts_with(b"libclang")
    };
    let checked = files.iter().enumerate().filter(|(at, path)| *at == 0 || is_llvms(path));
    let read = checked.map(|(_, path)| elf::build_id(path).map(|build| (path.clone(), build)));
    let Some(read) = read.collect::<Option<Vec<_>>>() else { return false };
    let are_known = read.iter().all(|(_, build)| linked.contains(build));
    builds.extend(read);
    are_known
}

/// Returns the lld of this version in this directory. Other names than `ld.lld` select other linkers.
fn lld_in(dir: &Path, version: &[u8]) -> Option<PathBuf> {
    let name = dir.join("ld.lld");
    let program = name.canonicalize().ok().filter(|program| is_program(program))?;
    has_words(&self::version(&name)?, version).then_some(program)
}

fn has_words(text: &[u8], with: &[u8]) -> bool {
    text.strip_prefix(with).is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\n')))
}

/// Returns the first line of the program's `--version`; `None` if it cannot be run.
pub(super) fn version_line(program: &Path) -> Option<Vec<u8>> {
    let line = version(program)?.split(|&byte| byte == b'\n').next()?.to_vec();
    (!line.is_empty()).then_some(line)
}

fn version(program: &Path) -> Option<Vec<u8>> {
    run(program, b"--version", &[])
}

/// Returns the libraries that the program loads, according to the loader.
fn libraries(program: &Path) -> Option<Vec<PathBuf>> {
    let traced = run(program, b"--version", &[(OsString::from("LD_TRACE_LOADED_OBJECTS"), OsString::from("1"))])?;
    let path = |line: &[u8]| {
        let line = line.strip_prefix(b"\t")?;
        let from = line.iter().position(|&byte| byte == b'/')?;
        let until = from + line[from..].windows(2).position(|two| two == b" (")?;
        Some(PathBuf::from(OsString::from_vec(line[from..until].to_vec())))
    };
    Some(traced.split(|&byte| byte == b'\n').filter_map(path).collect())
}

/// Returns the output of the program with this option and these additional variables.
fn run(program: &Path, option: &[u8], extra: &[(OsString, OsString)]) -> Option<Vec<u8>> {
    const MOST: usize = 64 << 10;
    let mut launcher = Launcher::new(Environment::inherit_with(extra));
    let words = words(&[program.as_os_str().as_bytes(), option]);
    let mut child = launcher.spawn_piped(Program::Argv(&words)).ok()?;
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match child.read_output(&mut buffer) {
            Ok(0) => break,
            Ok(length) if text.len() < MOST => text.extend_from_slice(&buffer[..length]),
            _ => child.close_output(),
        }
    }
    (child.wait().ok()?.status == ExitStatus::Code(0)).then_some(text)
}

#[cfg(test)]
mod tests;
