//! Processes whose parents are gone come to us instead of to the machine's first process. Does not know whose they
//! were.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, waitpid};

use crate::error::call_error;
use crate::process::procs::{self, raw_pid};

/// How many in this process want it.
static ADOPTERS: AtomicUsize = AtomicUsize::new(0);

/// While one of these lives, each process below us whose parent ends becomes our child.
#[derive(Debug)]
pub struct Reaper {
    /// The kernel's list of our first thread's children, who are the adopted ones and, as a rule, all.
    list: Option<File>,
    text: Vec<u8>,
}

impl Reaper {
    /// From now on.
    pub fn begin() -> io::Result<Reaper> {
        set(true)?;
        ADOPTERS.fetch_add(1, Ordering::Relaxed);
        let own = std::process::id();
        let list = File::open(format!("/proc/self/task/{own}/children")).ok();
        Ok(Reaper { list, text: vec![0; 4096] })
    }

    /// The numbers of our children, zombies among them, unless they were waited for; those that threads but the
    /// first have started only where the kernel has no lists.
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

/// Takes note of the end of this child, if it has ended, so that nothing is left of it. True if there is no such
/// child any more. Not for children that somebody else waits for.
pub fn reap(pid: u32) -> bool {
    !matches!(waitpid(Some(raw_pid(pid)), WaitOptions::NOHANG), Ok(None))
}

fn set(on: bool) -> io::Result<()> {
    // Any process id switches it on.
    set_child_subreaper(on.then(getpid)).map_err(|error| call_error("prctl", None, error.into()))
}
