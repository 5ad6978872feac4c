//! Adopts and reaps orphaned descendants (child subreaper).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, waitpid};

use crate::error::call_error;
use crate::process::procs::{self, raw_pid};

/// The number of live `Reaper`s.
static ADOPTERS: AtomicUsize = AtomicUsize::new(0);

/// While one exists, orphaned descendants become children of this process.
#[derive(Debug)]
pub struct Reaper {
    /// The kernel's list of children of the first thread, which include all adopted ones.
    list: Option<File>,
    text: Vec<u8>,
}

impl Reaper {
    pub fn begin() -> io::Result<Reaper> {
        set(true)?;
        ADOPTERS.fetch_add(1, Ordering::Relaxed);
        let own = std::process::id();
        let list = File::open(format!("/proc/self/task/{own}/children")).ok();
        Ok(Reaper { list, text: vec![0; 4096] })
    }

    /// Returns the ids of children, with zombies. Children of other threads than the first are included only if the
    /// kernel does not list children.
    pub fn children(&mut self) -> io::Result<Vec<u32>> {
        let Some(list) = &self.list else {
            let own = std::process::id();
            return Ok(procs::all()?.iter().filter(|it| it.parent == own).map(|it| it.process.pid()).collect());
        };
        loop {
            let length = list.read_at(&mut self.text, 0)?;
            if length < self.text.len() {
                let words = self.text[..length].split(|&byte| byte == b' ');
                return Ok(words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect());
            }
            self.text.resize(2 * length, 0);
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if ADOPTERS.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = set(false);
        }
    }
}

/// Reaps a child if it has ended. Returns true if there is no such child any more. Not for children that other code
/// waits for.
pub fn reap(pid: u32) -> bool {
    !matches!(waitpid(Some(raw_pid(pid)), WaitOptions::NOHANG), Ok(None))
}

fn set(on: bool) -> io::Result<()> {
    // Any process id enables it.
    set_child_subreaper(on.then(getpid)).map_err(|error| call_error("prctl", None, error.into()))
}
