//! Runs work in a detached process that outlives this one.

use std::io::{self, Read};

use crate::process::{entry, lifecycle};

/// Starts a process that does `work` and that nobody waits for. It has the memory of this process and its current
/// directory, but no descriptor, no lock and no terminal: `work` must not use a file that was opened before. Fails if this process has other threads, or if the kernel is
/// older than Linux 5.9.
pub fn spawn_detached(work: impl FnOnce()) -> io::Result<()> {
    // Above all descriptors, to learn whether the kernel has the call.
    close_from(libc::c_uint::MAX)?;
    let (mut closed, open) = io::pipe()?;
    if lifecycle::fork()?.is_none() {
        if leave_parent().is_ok() {
            work();
        }
        // Destructors are the parent's: they would remove its files.
        exit_at_once();
    }
    drop(open);
    // Ends when the process has closed all that it inherited: until then it shares the locks of this one.
    closed.read_to_end(&mut Vec::new()).map(|_| ())
}

fn leave_parent() -> io::Result<()> {
    // Fails only for the leader of a process group, which a new process is not.
    let _ = rustix::process::setsid();
    close_from(0)?;
    entry::open_standard_descriptors()
}

/// Closes all descriptors from this one on. Their owners must never use them again.
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

    /// Holds a lock, and ends while its work goes on.
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
    fn work_goes_on_without_descriptors_and_locks() {
        let dir = Scratch::new("detach");
        let (mut closed, open) = io::pipe().unwrap();
        // SAFETY: the copy has one thread, and uses nothing that the others may have locked but memory, which the C
        // library unlocks in copies.
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
        // Does not end while the work has the descriptor.
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
