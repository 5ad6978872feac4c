//! Many descriptors that can be waited for as one. Does not know what they are.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to read, or the other end's going away.
    Read,
    /// Room to write.
    Write,
}

/// A set of descriptors; its own is readable as long as one of them has what is waited for.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// So many are told of at a time.
const MOST: usize = 64;

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: touches no memory of ours.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: a new descriptor, which nobody else has.
            fd => Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    /// Adds a descriptor, which `ready` calls by this number. It leaves the set when it is closed.
    pub fn add(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, interest)
    }

    /// Something else is waited for at a descriptor of the set.
    pub fn change(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, interest)
    }

    /// The numbers of those that have now what is waited for, or some of them. Waits for nothing.
    pub fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: `events` has room for `MOST` of them.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), MOST as libc::c_int, 0) };
        match usize::try_from(count) {
            Ok(count) => Ok(events[..count].iter().map(|event| event.u64).collect()),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
                error => Err(error),
            },
        }
    }

    /// The descriptor of the set, for somebody who waits for other things too.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    fn control(&self, what: libc::c_int, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: number };
        // SAFETY: both descriptors are open while they are borrowed; `event` is valid for the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd.as_fd().as_raw_fd(), &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::poll::{self, Watch};
    use std::io::{Read, Write};

    #[test]
    fn the_set_is_ready_as_long_as_one_is() {
        let (mut quiet, mut rope) = io::pipe().unwrap();
        let (loud, _loud_end) = io::pipe().unwrap();
        let set = Epoll::new().unwrap();
        set.add(&quiet, 7, Interest::Read).unwrap();
        set.add(&loud, 8, Interest::Read).unwrap();
        let bell = set.bell().unwrap();
        let rings = || {
            let mut watches = [Watch::new(&bell)];
            poll::wait(&mut watches, Some(std::time::Duration::ZERO)).unwrap();
            watches[0].ready()
        };
        assert!(!rings() && set.ready().unwrap().is_empty());
        rope.write_all(b"x").unwrap();
        assert!(rings());
        assert_eq!(set.ready().unwrap(), [7]);
        assert!(rings(), "nobody has read it");
        quiet.read_exact(&mut [0]).unwrap();
        assert!(!rings());
        drop(rope);
        assert_eq!(set.ready().unwrap(), [7], "it went away");
        drop(quiet);
        assert!(!rings(), "who is closed has left");
    }
}
