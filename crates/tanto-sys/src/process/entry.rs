//! Starts a program without Rust's runtime, which reads `/proc/self/maps`, sets up a signal stack and makes a dozen
//! other calls before `main`: a third of the system calls of a build with nothing to do.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};

use rustix::io::FdFlags;

/// Defines the C function `main`, which calls the given `fn() -> i32` and returns its result as the exit code. The
/// program needs `#![no_main]`. A panic of the function aborts the program. Only for glibc, where `std::env::args_os`
/// needs no runtime.
#[macro_export]
macro_rules! entry_point {
    ($run:path) => {
        /// Called by the C library.
        #[unsafe(no_mangle)]
        pub extern "C" fn main(_: std::ffi::c_int, _: *const *const std::ffi::c_char) -> std::ffi::c_int {
            #[cfg(not(target_env = "gnu"))]
            compile_error!("without Rust's runtime, other C libraries than glibc give no arguments");
            if $crate::process::entry::open_standard_descriptors().is_err() {
                return 1;
            }
            // Flushes standard output, too.
            std::process::exit($run())
        }
    };
}

/// Opens `/dev/null` for each closed standard descriptor. Otherwise the next opened file would get its number, and
/// messages would be written to that file.
pub fn open_standard_descriptors() -> io::Result<()> {
    let mut standard = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO].map(|fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    });
    // SAFETY: the pointer and the length are those of the array. With a timeout of 0 the call does not wait.
    while unsafe { libc::poll(standard.as_mut_ptr(), standard.len() as libc::nfds_t, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    for closed in standard.iter().filter(|descriptor| descriptor.revents & libc::POLLNVAL != 0) {
        // Gets the lowest free number, which is this one.
        let opened = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        debug_assert_eq!(opened.as_raw_fd(), closed.fd);
        // Child processes inherit it.
        rustix::io::fcntl_setfd(&opened, FdFlags::empty())?;
        let _ = opened.into_raw_fd();
    }
    Ok(())
}
