//! Wakes a thread that waits for descriptors (eventfd).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable from `wake` until `clear`.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> io::Result<EventFd> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // It only fails if the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable.
    pub fn clear(&self) {
        // It only fails if the descriptor is not readable.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::poll::{self, Watch};
    use std::time::Duration;

    #[test]
    fn it_is_readable_until_cleared() {
        let event_fd = EventFd::new().unwrap();
        let is_ready = || {
            let mut watch = [Watch::new(&event_fd)];
            poll::wait(&mut watch, Some(Duration::ZERO)).unwrap();
            watch[0].ready()
        };
        assert!(!is_ready());
        event_fd.wake();
        event_fd.wake();
        assert!(is_ready() && is_ready());
        event_fd.clear();
        assert!(!is_ready());
        event_fd.clear();
    }
}
