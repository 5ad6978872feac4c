//! Runs work in a detached process that outlives this one.

use std::io::{self, Read};

use crate::process::{entry, lifecycle};

/// Starts a process that runs `work` in the background. It inherits memory and current directory, but no descriptor,
/// lock or terminal: `work` must not use files that were opened before. Fails if this process has other threads, or
/// before Linux 5.9.
pub fn spawn_detached(work: impl FnOnce()) -> io::Result<()> {
    // Closes nothing; fails if the kernel lacks the call.
    close_from(libc::c_uint::MAX)?;
    let (mut closed, open) = io::pipe()?;
    if lifecycle::fork()?.is_none() {
        if leave_parent().is_ok() {
            work();
        }
        // Destructors would remove the parent's files.
        exit_at_once();
    }
    drop(open);
    // Returns when the process has closed all inherited descriptors; until then it shares the locks of this one.
    closed.read_to_end(&mut Vec::new()).map(|_| ())
}

fn leave_parent() -> io::Result<()> {
    // Fails only for the leader of a process group, which a new process is not.
    let _ = rustix::process::setsid();
    close_from(0)?;
    entry::open_standard_descriptors()
}

/// Closes all descriptors from `first` on. Their owners must not use them again.
fn close_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::close_range(first, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn exit_at_once() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::lock;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::time::Duration;
    use tanto_testing::Scratch;

    fn wait_for(path: &Path) {
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes a lock and ends while the work goes on.
    fn start_and_end(dir: &Path) {
        let held = lock::open_dir(dir).unwrap();
        assert!(lock::try_lock_exclusive(&held).unwrap());
        spawn_detached(|| {
            wait_for(&dir.join("go"));
            std::fs::write(dir.join("done"), "").unwrap();
        })
        .unwrap();
    }

    #[test]
    fn work_continues_without_descriptors_and_locks() {
        let dir = Scratch::new("detach");
        let (mut closed, open) = io::pipe().unwrap();
        // SAFETY: the copy has one thread, and uses nothing that other threads may have locked except memory, which the
        // C library unlocks in copies.
        let process = unsafe { libc::fork() };
        if process == 0 {
            let ended = catch_unwind(AssertUnwindSafe(|| start_and_end(dir.path())));
            // SAFETY: ends the process.
            unsafe { libc::_exit(ended.is_err().into()) }
        }
        let mut status = 0;
        // SAFETY: `status` is a place for the answer.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0);
        drop(open);
        // The work has no copy of the descriptor.
        closed.read_to_end(&mut Vec::new()).unwrap();
        assert!(lock::try_lock_exclusive(&lock::open_dir(dir.path()).unwrap()).unwrap());
        assert!(!dir.at("done").exists());
        dir.write("go", "");
        wait_for(&dir.at("done"));
    }

    #[test]
    fn a_process_with_other_threads_is_refused() {
        let (ends, waits) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || waits.recv());
        assert!(spawn_detached(|| ()).is_err());
        drop(ends);
        let _ = other.join();
    }
}
