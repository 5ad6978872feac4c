//! Fetches missing distfiles into a private directory, verifies them there, and then moves them into DISTDIR. Packages
//! that need the same file at the same time fetch it once. Shell lines, which call the package's makefile, fetch and
//! verify.

pub(crate) mod atomic_move;
#[cfg(test)]
mod tests;
pub(crate) mod urls;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha512};
use tanto_sys::fs::{dir_tree, lock};

pub use self::atomic_move::leftovers;
use crate::shell::{code, options, run, shell, values};

/// Fetching the distfiles of one package.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The private directory, which exists only while this runs.
    pub own: PathBuf,
    /// DISTDIR.
    pub distdir: PathBuf,
    /// The lock file, in which each file name has a byte. Its lock belongs to the process that fetches the file.
    pub lock: PathBuf,
    /// Succeeds if all files in `distdir` are right; fetches nothing. Empty: not checked.
    pub have: String,
    /// Prints the names of all files, separated by blanks.
    pub names: String,
    /// Fetches missing files into `own` and verifies all.
    pub get: String,
    /// A hook for each fetched file before it gets its place, with the file, its URL and its path below `distdir` as
    /// `$1` to `$3`. If it fails, the file is dropped. Empty: no hook.
    pub hook: String,
}

/// The interval between attempts to lock a file.
const STEP: Duration = Duration::from_millis(100);
/// The maximum length of output that is kept, in bytes.
const MAX_OUTPUT: usize = 1 << 20;

impl Fetch {
    /// Encodes the fields as options of a command line.
    pub fn words(&self) -> String {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        options(&[
            ("own", &path(&self.own)),
            ("distdir", &path(&self.distdir)),
            ("lock", &path(&self.lock)),
            ("have", &self.have),
            ("names", &self.names),
            ("get", &self.get),
            ("hook", &self.hook),
        ])
    }

    /// Decodes these options; `None` if they are malformed.
    pub fn read(words: &[Vec<u8>]) -> Option<Fetch> {
        let [own, distdir, lock, have, names, get, hook] =
            values(words, ["own", "distdir", "lock", "have", "names", "get", "hook"])?;
        let paths = [own, distdir, lock].map(PathBuf::from);
        let is_whole = paths.iter().all(|path| path.is_absolute()) && !get.is_empty();
        let [own, distdir, lock] = paths;
        is_whole.then_some(Fetch { own, distdir, lock, have, names, get, hook })
    }

    /// Fetches missing files. Returns the exit code of the line that failed, or 0. An error is a machine failure.
    pub fn run(&self) -> io::Result<i32> {
        if self.are_complete()? {
            return Ok(0);
        }
        let (output, _) = output_of(&self.names)?;
        let names = names(&output);
        let lock = lock::open_lock_file(&self.lock)?;
        if self.lock_files(&lock, &names)? && self.are_complete()? {
            return Ok(0);
        }
        self.begin(&names)?;
        let mut code = code(shell(&self.get).status()?);
        if code == 0 {
            code = self.publish()?;
        }
        dir_tree::remove(&self.own)?;
        Ok(code)
    }

    /// Returns whether all files are in `distdir`. Prints the output of the check only then.
    fn are_complete(&self) -> io::Result<bool> {
        if self.have.is_empty() {
            return Ok(false);
        }
        let (output, status) = output_of(&self.have)?;
        if status.success() {
            io::stdout().write_all(&output)?;
        }
        Ok(status.success())
    }

    /// Locks the files until the lock file is closed. Returns whether it had to wait.
    fn lock_files(&self, lock: &File, names: &[&Path]) -> io::Result<bool> {
        let mut places: Vec<(u64, &Path)> = names.iter().map(|name| (lock_offset(name), *name)).collect();
        // The common order excludes deadlocks.
        places.sort_unstable();
        let mut waited = false;
        let mut alive = None;
        for (at, name) in places {
            while !lock::try_lock_byte(lock, at)? {
                if !waited {
                    println!("tanto: waiting for {}: another package is fetching it", name.display());
                }
                waited = true;
                // Output shows the monitor that this process does not hang.
                match &mut alive {
                    None => alive = Some(fs::OpenOptions::new().write(true).open("/dev/null")?),
                    Some(file) => file.write_all(b".")?,
                }
                thread::sleep(STEP);
            }
        }
        Ok(waited)
    }

    /// Creates the directory, with links to existing files.
    fn begin(&self, names: &[&Path]) -> io::Result<()> {
        dir_tree::remove(&self.own)?;
        fs::create_dir(&self.own)?;
        for name in names {
            let (from, to) = (self.distdir.join(name), self.own.join(name));
            if from.is_file() {
                to.parent().map_or(Ok(()), fs::create_dir_all)?;
                symlink(from, to)?;
            }
        }
        if self.hook.is_empty() { Ok(()) } else { urls::prepare(&self.own) }
    }

    /// Moves the fetched files to `distdir`.
    fn publish(&self) -> io::Result<i32> {
        let urls = urls::read(&self.own);
        for name in atomic_move::files(&self.own)? {
            let from = self.own.join(&name);
            if !self.hook.is_empty() {
                let url = urls.get(&name).map_or("", String::as_str);
                let words = [from.to_string_lossy(), name.to_string_lossy()];
                let status = run(&self.hook, "post_fetch_hook", &[&words[0], url, &words[1]])?;
                if !status.success() {
                    println!("tanto: post_fetch_hook refused {}: {status}", name.display());
                    return Ok(code(status));
                }
            }
            atomic_move::publish(&from, &self.distdir.join(&name))?;
        }
        Ok(0)
    }
}

/// Returns the beginning of a line's output, and its status.
fn output_of(line: &str) -> io::Result<(Vec<u8>, ExitStatus)> {
    let mut child = shell(&format!("exec 2>&1\n{line}")).stdout(Stdio::piped()).spawn()?;
    let (mut output, mut buffer) = (Vec::new(), [0; 1 << 12]);
    if let Some(out) = &mut child.stdout {
        while let length @ 1.. = out.read(&mut buffer)? {
            let kept = length.min(MAX_OUTPUT.saturating_sub(output.len()));
            output.extend_from_slice(&buffer[..kept]);
        }
    }
    Ok((output, child.wait()?))
}

/// Returns the names in a text. Skips names that lead elsewhere.
fn names(text: &[u8]) -> Vec<&Path> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let paths = words.map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
    let mut names: Vec<&Path> =
        paths.filter(|path| path.components().all(|part| matches!(part, Component::Normal(_)))).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the byte of a name in the lock file. Names with the same byte exclude each other needlessly.
fn lock_offset(name: &Path) -> u64 {
    let digest = Sha512::digest(name.as_os_str().as_bytes());
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte)) >> 2
}
