//! GNU make's jobserver as a server: shares the job slots of a build with the builds that its commands start.
//!
//! One of N slots belongs to Tanto; each other is a byte in a pipe. Tanto takes one for each command beyond the first,
//! as any client does, so that all builds together never run more than N commands.
//!
//! A killed client does not return its tokens, and nobody can count the tokens held by others. But when no command
//! runs, all tokens that are not in the pipe are lost, and are added again.

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::ipc::token_pipe::{self, SharedPipe, TokenPipe};

use super::{Client, JobserverError, makeflags};

/// Fits into every pipe.
pub const MOST_SLOTS: usize = 4096;

/// make writes no other byte.
const TOKEN: u8 = b'+';

#[derive(Debug)]
pub struct Server {
    client: Client,
    place: Pool,
    /// Without Tanto's own slot.
    tokens: usize,
}

#[derive(Debug)]
enum Pool {
    /// Inherited by commands.
    Pipe(SharedPipe),
    Fifo(Named),
}

/// A named pipe that is removed on drop.
#[derive(Debug)]
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        // It may already be gone.
        let _ = fs::remove_file(&self.0);
    }
}

impl Server {
    /// Creates 1 to `MOST_SLOTS` slots in a pipe that commands inherit.
    pub fn pipe(slots: usize) -> Result<Server, JobserverError> {
        let ends = SharedPipe::new().map_err(JobserverError::CreatePipe)?;
        let tokens = ends.tokens().map_err(JobserverError::Pipe)?;
        Server::new(slots, tokens, Pool::Pipe(ends))
    }

    /// Creates 1 to `MOST_SLOTS` slots in a new named pipe for this user. `path` is absolute and must not exist.
    pub fn fifo(slots: usize, path: &Path) -> Result<Server, JobserverError> {
        let shown = || path.as_os_str().as_bytes().to_vec();
        token_pipe::make_fifo(path).map_err(|error| JobserverError::CreateFifo(shown(), error))?;
        let named = Named(path.to_owned());
        let tokens = TokenPipe::open(path).map_err(|error| JobserverError::Fifo(shown(), error))?;
        Server::new(slots, tokens, Pool::Fifo(named))
    }

    fn new(slots: usize, tokens: TokenPipe, place: Pool) -> Result<Server, JobserverError> {
        assert!((1..=MOST_SLOTS).contains(&slots), "{slots} slots are for the caller to refuse");
        let server = Server { client: Client::of(tokens), place, tokens: slots - 1 };
        server.fill().map_err(JobserverError::FillPipe)?;
        Ok(server)
    }

    /// Returns the value of `MAKEFLAGS` for commands, based on Tanto's own.
    pub fn makeflags(&self, ours: &[u8]) -> Vec<u8> {
        let auth = match &self.place {
            Pool::Pipe(ends) => {
                let [reader, writer] = ends.raw_fds();
                format!("{reader},{writer}").into_bytes()
            }
            Pool::Fifo(Named(path)) => [b"fifo:", path.as_os_str().as_bytes()].concat(),
        };
        makeflags::naming(ours, self.tokens + 1, &auth)
    }

    /// Returns the descriptors that commands inherit.
    pub fn descriptors(&self) -> Option<[RawFd; 2]> {
        match &self.place {
            Pool::Pipe(ends) => Some(ends.raw_fds()),
            Pool::Fifo(_) => None,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Restores lost tokens. Call when no command runs and no slot is in use. Tokens that a leftover process returns
    /// later are removed here, too.
    pub(super) fn restore_tokens(&self) {
        debug_assert!(!self.client.own_is_taken, "a slot is in use");
        // An error is harmless: one command at a time can always run.
        let _ = self.fill();
    }

    fn fill(&self) -> io::Result<()> {
        let there = self.client.tokens.count()?;
        for _ in there..self.tokens {
            self.client.tokens.put(TOKEN)?;
        }
        for _ in self.tokens..there {
            self.client.tokens.take()?;
        }
        Ok(())
    }
}
