//! One build at a time in a build directory: a second one waits for its turn, unless a job of the first started it.
//! Does not know what is built.
//!
//! The holder locks `.tanto/lock` below the build directory and writes its identity there. Each job finds the
//! identities of all Tantos above it in its environment; where something has emptied that, the chain of parent
//! processes tells the same.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tanto_sys::identity::Process;
use tanto_sys::{lock, own};

/// The environment variable that names the Tantos above a job: identities with blanks between.
pub const ANCESTORS: &str = "TANTO_ANCESTORS";

/// How long one waits before one says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest content of a lock file that is taken for an identity.
const LONGEST_IDENTITY: u64 = 64;

/// A build's right to its directory; given back when dropped.
pub enum Turn {
    /// It has the lock.
    Mine(File),
    /// A build above this one has it, and waits for this one.
    Ancestors,
    /// The directory cannot be locked: it is read-only or full, or its file system has no locks.
    Nobodys,
}

impl Turn {
    /// Waits for the turn in `builddir` (empty: the current directory). `waiting` is called once, with the holder's
    /// process number where it is known, if that takes over a second. The second value says that it had to wait:
    /// what was read before may have changed.
    pub fn take(builddir: &[u8], waiting: impl FnOnce(Option<&str>)) -> (Turn, bool) {
        let Ok(mut file) = open(builddir) else { return (Turn::Nobodys, false) };
        match lock::try_exclusive(&file) {
            Ok(true) => {}
            Ok(false) if holder(&mut file).is_some_and(|holder| is_above(&holder)) => return (Turn::Ancestors, false),
            Ok(false) => {
                let who = holder(&mut file);
                let pid = who.as_deref().and_then(|who| who.split('.').next());
                return match lock::exclusive(&file, PATIENCE, || waiting(pid)) {
                    Ok(()) => (Turn::Mine(file), true),
                    Err(_) => (Turn::Nobodys, true),
                };
            }
            Err(_) => return (Turn::Nobodys, false),
        }
        (Turn::Mine(file), false)
    }

    /// Nobody else builds in the directory.
    pub fn is_mine(&self) -> bool {
        matches!(self, Turn::Mine(_))
    }

    /// Writes this process's identity into the lock file; to be called before the first job starts. Where that
    /// cannot be done the lock is given up: a build that a job starts would wait for it for ever.
    pub fn sign(&mut self) {
        if let Turn::Mine(file) = self
            && write_own_identity(file).is_err()
        {
            *self = Turn::Nobodys;
        }
    }
}

fn write_own_identity(file: &mut File) -> io::Result<()> {
    let own = Process::own()?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{own}\n").as_bytes())
}

/// The value of `ANCESTORS` for the jobs of this process.
pub fn for_jobs() -> Option<OsString> {
    let own = Process::own().ok()?.to_string();
    Some(match std::env::var_os(ANCESTORS) {
        Some(mut above) if !above.is_empty() => {
            above.push(" ");
            above.push(own);
            above
        }
        _ => own.into(),
    })
}

fn open(builddir: &[u8]) -> io::Result<File> {
    let dir: PathBuf = Path::new(OsStr::from_bytes(builddir)).join(".tanto");
    let path = dir.join("lock");
    match lock::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            own::make_top(&dir)?;
            lock::open(&path)
        }
        done => done,
    }
}

/// Who has signed the lock file.
fn holder(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.rewind().ok()?;
    Read::by_ref(file).take(LONGEST_IDENTITY).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

fn is_above(holder: &str) -> bool {
    let above = std::env::var_os(ANCESTORS).unwrap_or_default();
    above.as_bytes().split(|&byte| byte == b' ').any(|one| one == holder.as_bytes())
        || Process::parse(holder.as_bytes()).is_some_and(Process::is_ancestor)
}
