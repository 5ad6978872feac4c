//! Distfiles: what a package lacks of them is fetched into a directory of its own, checked there, and only then brought to
//! where all look for it, whole or not at all. What two packages want at the same time is fetched once. Does not know how a
//! file is fetched or checked: that is for lines of the shell, which call the package's makefile.

pub(crate) mod bring;
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

pub use self::bring::left;
use crate::shell::{code, options, run, shell, values};

/// How the files of one package are fetched and checked.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// A directory that only this package uses, and which is not there before and after.
    pub own: PathBuf,
    /// Where all look for files.
    pub distdir: PathBuf,
    /// In this file, which need hold nothing, each name has a byte; who fetches a file has the lock on that.
    pub lock: PathBuf,
    /// Succeeds if all files are in `distdir`, and are right. Fetches nothing. Empty: nobody can tell.
    pub have: String,
    /// Prints the names of all files, parted by blanks.
    pub names: String,
    /// Fetches into `own` what is not there, and checks all.
    pub get: String,
    /// Run for each fetched file before it gets to `distdir`, with the file, its URL and its path below `distdir` as `$1` to
    /// `$3`. If it fails, the file does not get there. Empty: no hook.
    pub hook: String,
}

/// How often who waits for another looks whether that has ended.
const STEP: Duration = Duration::from_millis(100);
/// So much is kept of what is printed by who only looks.
const LONGEST: usize = 1 << 20;

impl Fetch {
    /// The words of a command line that say all of this.
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

    /// What such words say.
    pub fn read(words: &[Vec<u8>]) -> Option<Fetch> {
        let [own, distdir, lock, have, names, get, hook] =
            values(words, ["own", "distdir", "lock", "have", "names", "get", "hook"])?;
        let paths = [own, distdir, lock].map(PathBuf::from);
        let is_whole = paths.iter().all(|path| path.is_absolute()) && !get.is_empty();
        let [own, distdir, lock] = paths;
        is_whole.then_some(Fetch { own, distdir, lock, have, names, get, hook })
    }

    /// Does it. Says what the line exited with that failed, or 0; an error is the machine's.
    pub fn run(&self) -> io::Result<i32> {
        if self.are_there()? {
            return Ok(0);
        }
        let (said, _) = said(&self.names)?;
        let names = names(&said);
        let lock = lock::open_lock_file(&self.lock)?;
        if self.take(&lock, &names)? && self.are_there()? {
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

    /// Is there nothing to do? What is printed for that is told only then.
    fn are_there(&self) -> io::Result<bool> {
        if self.have.is_empty() {
            return Ok(false);
        }
        let (said, status) = said(&self.have)?;
        if status.success() {
            io::stdout().write_all(&said)?;
        }
        Ok(status.success())
    }

    /// Nobody else fetches these files until the lock file is closed. Says whether somebody did.
    fn take(&self, lock: &File, names: &[&Path]) -> io::Result<bool> {
        let mut places: Vec<(u64, &Path)> = names.iter().map(|name| (place(name), *name)).collect();
        // All take them in the same order: nobody who waits is waited for by who has what comes before.
        places.sort_unstable();
        let mut waited = false;
        let mut alive = None;
        for (at, name) in places {
            while !lock::try_lock_byte(lock, at)? {
                if !waited {
                    println!("tanto: {} is fetched for another package", name.display());
                }
                waited = true;
                // Whoever watches should not take us for something that hangs.
                match &mut alive {
                    None => alive = Some(fs::OpenOptions::new().write(true).open("/dev/null")?),
                    Some(file) => file.write_all(b".")?,
                }
                thread::sleep(STEP);
            }
        }
        Ok(waited)
    }

    /// The directory is there, and has what all have as links.
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
        for name in bring::files(&self.own)? {
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
            bring::publish(&from, &self.distdir.join(&name))?;
        }
        Ok(0)
    }
}

/// What a line prints, as far as that is kept.
fn said(line: &str) -> io::Result<(Vec<u8>, ExitStatus)> {
    let mut child = shell(&format!("exec 2>&1\n{line}")).stdout(Stdio::piped()).spawn()?;
    let (mut said, mut room) = (Vec::new(), [0; 1 << 12]);
    if let Some(out) = &mut child.stdout {
        while let length @ 1.. = out.read(&mut room)? {
            let kept = length.min(LONGEST.saturating_sub(said.len()));
            said.extend_from_slice(&room[..kept]);
        }
    }
    Ok((said, child.wait()?))
}

/// The names in a text. What leads elsewhere is no name.
fn names(text: &[u8]) -> Vec<&Path> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let paths = words.map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
    let mut names: Vec<&Path> =
        paths.filter(|path| path.components().all(|part| matches!(part, Component::Normal(_)))).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The byte of a name. Should two names have the same, one is waited for in vain.
fn place(name: &Path) -> u64 {
    let digest = Sha512::digest(name.as_os_str().as_bytes());
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte)) >> 2
}
