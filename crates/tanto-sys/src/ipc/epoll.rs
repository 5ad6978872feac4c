//! Waits for many descriptors through a single one (epoll).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

/// The event to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Readable, or closed by the other end.
    Read,
    /// Writable.
    Write,
    ReadAndWrite,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// A set of descriptors. Its own descriptor is readable while one of them is ready.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Events returned by one call.
const MAX_EVENTS: usize = 64;

impl Epoll {
    /// Creates an empty set.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor, which `ready` reports as `number`. Closing it removes it.
    pub fn add(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(number), interest.flags())?)
    }

    /// Changes the event that is waited for.
    pub fn modify(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, EventData::new_u64(number), interest.flags())?)
    }

    /// Returns the numbers of ready descriptors, possibly not all of them. Never blocks.
    pub fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        match epoll::wait(&self.0, spare_capacity(&mut events), Some(&Timespec::default())) {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(events.iter().map(|event| event.data.u64()).collect()),
        }
    }

    /// Duplicates the descriptor of the set.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::poll::{self, Watch};
    use std::io::{Read, Write};

    #[test]
    fn the_set_is_ready_while_a_member_is() {
        let (mut quiet, mut writer) = io::pipe().unwrap();
        let (loud, _loud_end) = io::pipe().unwrap();
        let set = Epoll::new().unwrap();
        set.add(&quiet, 7, Interest::Read).unwrap();
        set.add(&loud, 8, Interest::Read).unwrap();
        let set_fd = set.try_clone_fd().unwrap();
        let is_ready = || {
            let mut watches = [Watch::new(&set_fd)];
            poll::wait(&mut watches, Some(std::time::Duration::ZERO)).unwrap();
            watches[0].ready()
        };
        assert!(!is_ready() && set.ready().unwrap().is_empty());
        writer.write_all(b"x").unwrap();
        assert!(is_ready());
        assert_eq!(set.ready().unwrap(), [7]);
        assert!(is_ready(), "nobody has read it");
        quiet.read_exact(&mut [0]).unwrap();
        assert!(!is_ready());
        drop(writer);
        assert_eq!(set.ready().unwrap(), [7], "it went away");
        drop(quiet);
        assert!(!is_ready(), "a closed descriptor is no member");
    }
}
