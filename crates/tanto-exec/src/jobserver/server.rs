//! The job slots of a build, shared with the builds that its commands start: GNU make's jobserver, as a server. Does not
//! know who takes part.
//!
//! Of N slots one is ours, and lies nowhere; each other is a byte in a pipe. We take them as any client does, one for
//! each command beyond the first, and whoever a command starts takes one for each of its own beyond its first. So all
//! together never run more than N, and nobody needs to know of anybody else.
//!
//! Whoever is killed with slots in hand gives none back. How many a command's processes hold nobody can tell from
//! outside; but when no command runs, all that is not in the pipe is lost, and is put there again.

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::error::text;
use tanto_sys::ipc::token_pipe::{self, SharedPipe, TokenPipe, TokenPipeError};

use super::{Client, fifo_refused, makeflags, pipe_refused};

/// As many as fit into every pipe.
pub const MOST_SLOTS: usize = 4096;

/// What stands for a slot; make writes no other.
const TOKEN: u8 = b'+';

/// The slots of a build.
#[derive(Debug)]
pub struct Server {
    client: Client,
    place: Pool,
    /// All but our own.
    tokens: usize,
}

/// Where the tokens lie.
#[derive(Debug)]
enum Pool {
    /// In a pipe that commands inherit.
    Pipe(SharedPipe),
    /// In a named pipe.
    Fifo(Named),
}

/// A named pipe that goes when we go.
#[derive(Debug)]
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        // Somebody may have been before us.
        let _ = fs::remove_file(&self.0);
    }
}

impl Server {
    /// So many slots (1 to `MOST_SLOTS`) in a pipe that commands inherit. The error is for the user.
    pub fn pipe(slots: usize) -> Result<Server, Vec<u8>> {
        let ends = SharedPipe::new().map_err(|error| [b"pipe: ", &text(&error)[..]].concat())?;
        let tokens = ends.tokens().map_err(pipe_refused)?;
        Server::new(slots, tokens, Pool::Pipe(ends))
    }

    /// So many slots (1 to `MOST_SLOTS`) in a named pipe that is made here, for this user alone. The path is absolute;
    /// nothing may be there. The error is for the user.
    pub fn fifo(slots: usize, path: &Path) -> Result<Server, Vec<u8>> {
        let shown = path.as_os_str().as_bytes();
        token_pipe::make_fifo(path).map_err(|error| [b"mkfifo ", shown, b": ", &text(&error)].concat())?;
        let named = Named(path.to_owned());
        let tokens = TokenPipe::open(path).map_err(|why: TokenPipeError| fifo_refused(shown, &why))?;
        Server::new(slots, tokens, Pool::Fifo(named))
    }

    fn new(slots: usize, tokens: TokenPipe, place: Pool) -> Result<Server, Vec<u8>> {
        assert!((1..=MOST_SLOTS).contains(&slots), "{slots} slots are for the caller to refuse");
        let server = Server { client: Client::of(tokens), place, tokens: slots - 1 };
        server.fill().map_err(|error| text(&error))?;
        Ok(server)
    }

    /// The value of `MAKEFLAGS` for commands, from the one that we found.
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

    /// The descriptors that commands must inherit, if any.
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

    /// No command runs, and no slot is in use: puts back what was lost with those who held it. What a command has left
    /// behind may give back later what was put there for it; that is taken out again.
    pub(super) fn settle(&self) {
        debug_assert!(!self.client.own_is_taken, "a slot is in use");
        // Nothing can be done about it: one command at a time can always run.
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
