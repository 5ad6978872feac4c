//! Many descriptors that can be waited for as one. Does not know what they are.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to read, or the other end's going away.
    Read,
    /// Room to write.
    Write,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
        }
    }
}

/// A set of descriptors; its own is readable as long as one of them has what is waited for.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// So many are told of at a time.
const MAX_EVENTS: usize = 64;

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor, which `ready` calls by this number. It leaves the set when it is closed.
    pub fn add(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(number), interest.flags())?)
    }

    /// Something else is waited for at a descriptor of the set.
    pub fn change(&self, fd: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, EventData::new_u64(number), interest.flags())?)
    }

    /// The numbers of those that have now what is waited for, or some of them. Waits for nothing.
    pub fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        match epoll::wait(&self.0, spare_capacity(&mut events), Some(&Timespec::default())) {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(events.iter().map(|event| event.data.u64()).collect()),
        }
    }

    /// The descriptor of the set, for somebody who waits for other things too.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
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
