//! Which program a command names, and whether the worker stands for it. Does not know how the worker is spoken to.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tanto_sys::process::{Environment, ExitStatus, Launcher, Program};

use crate::elf;

use super::connection::Link;
use super::zygote::words;

/// A file as it was when it was looked at: device, inode, size, and the times of its content and of itself in
/// nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp(pub(super) [i128; 5]);

/// A program that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// The file, without links.
    pub(super) program: PathBuf,
    /// The worker stands for it.
    pub(super) ours: bool,
    /// The lld beside it that the worker stands for too.
    pub(super) lld: Option<PathBuf>,
    /// All files that this was found out from.
    pub(super) files: Vec<(PathBuf, Stamp)>,
    /// Those of them that the worker stands for, and their build-ids. Files of two images can have the same stamp.
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
}

impl Identity {
    /// Is every file still what it was?
    pub(super) fn holds(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == Some(*stamp))
    }

    /// Does every file have the build-id that it had?
    pub(super) fn is_same_build(&self) -> bool {
        self.builds.iter().all(|(path, build)| elf::build_id(path).as_ref() == Some(build))
    }
}

/// The file that a command of this name runs, without links; none if there is doubt, or it cannot be a clang.
pub(super) fn find(name: &[u8], path: &[u8]) -> Option<PathBuf> {
    let found = if name.contains(&b'/') {
        PathBuf::from(OsStr::from_bytes(name))
    } else {
        let dirs = path.split(|&byte| byte == b':');
        // A directory that is not named is the one that we are in.
        let files = dirs.map(|dir| Path::new(OsStr::from_bytes(if dir.is_empty() { b"." } else { dir })));
        files.map(|dir| dir.join(OsStr::from_bytes(name))).find(|file| file.exists())?
    };
    let program = found.canonicalize().ok()?;
    let is_clang = program.file_name()?.as_bytes().starts_with(b"clang");
    (is_clang && is_program(&program)).then_some(program)
}

/// What can be run, and is no script that runs something else.
fn is_program(path: &Path) -> bool {
    const MODES: u32 = 0o111;
    const ODD_MODES: u32 = 0o6000;
    let Ok(mode) = fs::metadata(path).map(|it| it.mode()) else { return false };
    let mut magic = [0; 4];
    let is_elf = File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF";
    is_elf && mode & MODES != 0 && mode & ODD_MODES == 0
}

/// The variable that makes clang do what the worker does not, if there is one.
pub fn is_left_alone_because_of(environment: &Environment) -> Option<&[u8]> {
    let odd = environment.iter().find(|(name, value)| match *name {
        b"CLANG_SPAWN_CC1" => *value != b"0" && !value.is_empty(),
        b"CCC_OVERRIDE_OPTIONS" | b"LD_PRELOAD" | b"LD_AUDIT" | b"LD_TRACE_LOADED_OBJECTS" => true,
        b"FORCE_CLANG_DIAGNOSTICS_CRASH" | b"CLANG_CRASH_DIAGNOSTICS_DIR" => true,
        name => name.starts_with(b"CC_PRINT_") || name.starts_with(b"CC_LOG_"),
    });
    odd.map(|(name, _)| name)
}

/// Finds out whether this program is the clang that the worker stands for, by running it. The version is not enough: a
/// distribution's patches leave it as it is.
pub(super) fn ask(program: &Path, link: &Link) -> Option<Identity> {
    let dir = program.parent()?;
    let told = output(program)?;
    let mut lines = told.split(|&byte| byte == b'\n');
    let same_version = lines.next() == Some(&link.clang[..]);
    // What hands everything on to a clang elsewhere says the same, but not this.
    let installed = lines.find_map(|line| line.strip_prefix(b"InstalledDir: "));
    let mut files = vec![program.to_path_buf()];
    files.extend(libraries(program)?);
    let mut builds = Vec::new();
    let ours =
        same_version && installed == Some(dir.as_os_str().as_bytes()) && are_linked(&files, &link.builds, &mut builds);
    let lld = if ours { lld_beside(dir, &link.lld) } else { None };
    let with_libraries = |lld: PathBuf| Some([vec![lld.clone()], libraries(&lld)?].concat());
    let linker = lld.clone().and_then(with_libraries).filter(|its| are_linked(its, &link.builds, &mut builds));
    let lld = lld.filter(|_| linker.is_some());
    files.extend(linker.into_iter().flatten());
    let files = files.into_iter().map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect::<Option<_>>()?;
    Some(Identity { program: program.to_path_buf(), ours, lld, files, builds })
}

/// Are the first of these files, a program, and LLVM's libraries among the others of the build that the worker was linked
/// with? Adds what was read to `builds`.
fn are_linked(files: &[PathBuf], linked: &[Vec<u8>], builds: &mut Vec<(PathBuf, Vec<u8>)>) -> bool {
    let is_llvms = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"libLLVM") || name.starts_with(b"libclang")
    };
    let judged = files.iter().enumerate().filter(|(at, path)| *at == 0 || is_llvms(path));
    let read = judged.map(|(_, path)| elf::build_id(path).map(|build| (path.clone(), build)));
    let Some(read) = read.collect::<Option<Vec<_>>>() else { return false };
    let are_known = read.iter().all(|(_, build)| linked.contains(build));
    builds.extend(read);
    are_known
}

/// The lld in this directory, if it is of this version. Under another name than `ld.lld` it would be another linker.
fn lld_beside(dir: &Path, version: &[u8]) -> Option<PathBuf> {
    let name = dir.join("ld.lld");
    let program = name.canonicalize().ok().filter(|program| is_program(program))?;
    begins(&output(&name)?, version).then_some(program)
}

/// Does the text begin with these words?
fn begins(text: &[u8], with: &[u8]) -> bool {
    text.strip_prefix(with).is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\n')))
}

/// Returns the first line that a worker prints of the clang that it stands for; `None` if it cannot be run.
pub fn stands_for(worker: &Path) -> Option<Vec<u8>> {
    let line = output(worker)?.split(|&byte| byte == b'\n').next()?.to_vec();
    (!line.is_empty()).then_some(line)
}

fn output(program: &Path) -> Option<Vec<u8>> {
    run(program, &[])
}

/// The libraries that the program loads, as the loader says; none of a program that needs no loader.
fn libraries(program: &Path) -> Option<Vec<PathBuf>> {
    let traced = run(program, &[(OsString::from("LD_TRACE_LOADED_OBJECTS"), OsString::from("1"))])?;
    let path = |line: &[u8]| {
        let line = line.strip_prefix(b"\t")?;
        let from = line.iter().position(|&byte| byte == b'/')?;
        let until = from + line[from..].windows(2).position(|two| two == b" (")?;
        Some(PathBuf::from(OsString::from_vec(line[from..until].to_vec())))
    };
    Some(traced.split(|&byte| byte == b'\n').filter_map(path).collect())
}

/// What the program prints of its version, in our environment and this.
fn run(program: &Path, extra: &[(OsString, OsString)]) -> Option<Vec<u8>> {
    const MOST: usize = 64 << 10;
    let mut launcher = Launcher::new(Environment::inherit_with(extra));
    let words = words(&[program.as_os_str().as_bytes(), b"--version"]);
    let mut child = launcher.spawn_piped(Program::Argv(&words)).ok()?;
    let mut text = Vec::new();
    let mut room = [0; 4096];
    loop {
        match child.read_output(&mut room) {
            Ok(0) => break,
            Ok(length) if text.len() < MOST => text.extend_from_slice(&room[..length]),
            _ => child.close_output(),
        }
    }
    (child.wait().ok()?.status == ExitStatus::Code(0)).then_some(text)
}

#[cfg(test)]
mod tests;
