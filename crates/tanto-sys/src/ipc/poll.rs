//! Waits until one of several descriptors is ready (poll).

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A descriptor to wait for until it is readable or closed by the other end.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Watch(libc::pollfd);

impl Watch {
    /// Watches a descriptor, which the caller keeps open until the wait is over. A closed one is ready at once.
    pub fn new(fd: &impl AsRawFd) -> Watch {
        Watch(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN | libc::POLLPRI, revents: 0 })
    }

    /// A placeholder that is never ready.
    pub fn none() -> Watch {
        Watch(libc::pollfd { fd: -1, events: 0, revents: 0 })
    }

    /// Returns whether the last wait found it ready.
    pub fn ready(&self) -> bool {
        self.0.revents != 0
    }

    pub fn is_none(&self) -> bool {
        self.0.fd < 0
    }
}

/// Waits until a descriptor is ready, the timeout expires, or a signal is handled. Possibly no descriptor is ready
/// afterwards.
pub fn wait(watches: &mut [Watch], timeout: Option<Duration>) -> io::Result<()> {
    let millis = match timeout {
        // Rounded up: a wait of 0 ms would be a busy loop.
        Some(time) => i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
        None => -1,
    };
    let count = libc::nfds_t::try_from(watches.len()).expect("a slice's length fits");
    // SAFETY: `Watch` is a transparent `pollfd`, and the slice holds `count` of them for the whole call.
    let rc = unsafe { libc::poll(watches.as_mut_ptr().cast::<libc::pollfd>(), count, millis) };
    if rc >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::Interrupted {
        return Err(crate::error::call_error("poll", None, error));
    }
    // On an error, the kernel leaves the old results.
    for watch in watches {
        watch.0.revents = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_readable_descriptor_is_found() {
        let (quiet, _quiet_end) = io::pipe().unwrap();
        let (loud, mut loud_end) = io::pipe().unwrap();
        loud_end.write_all(b"x").unwrap();
        let mut watches = [Watch::new(&quiet), Watch::new(&loud), Watch::none()];
        wait(&mut watches, None).unwrap();
        assert_eq!(watches.map(|w| w.ready()), [false, true, false]);
        assert_eq!(watches.map(|w| w.is_none()), [false, false, true]);
    }

    #[test]
    fn a_closed_other_end_is_ready() {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let mut watches = [Watch::new(&reader)];
        wait(&mut watches, None).unwrap();
        assert!(watches[0].ready());
    }

    #[test]
    fn a_wait_times_out() {
        let (quiet, _end) = io::pipe().unwrap();
        let mut watches = [Watch::new(&quiet)];
        wait(&mut watches, Some(Duration::from_micros(1))).unwrap();
        assert!(!watches[0].ready());
    }
}
