//! Requests from other terminals to a running bulk build, through a Unix socket in the state directory.

mod client;
mod frames;
mod link;
mod server;
#[cfg(test)]
mod tests;

pub use self::client::{AskError, ask};
pub use self::link::LinkEvent;
pub(super) use self::link::is_later;
pub use self::server::Server;

use tanto_protocol::ToServer;

/// The name of the socket in the state directory.
pub const SOCKET: &str = "socket";

/// The code of an answer to `Log`: the package is on another machine, and can be followed.
pub const REMOTE: u8 = 3;

/// A request. Packages are named as on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Status,
    /// Why a ready package waits.
    Why(String),
    /// The output of a running package so far.
    Log {
        package: String,
        /// Only in this stage.
        stage: Option<String>,
    },
    /// The text of a followed package after a position. The answer begins with the position of its end, as 8 bytes, little
    /// endian.
    Follow {
        package: String,
        position: u64,
    },
    /// Build these, again if they are done.
    Retry {
        packages: Vec<String>,
        /// New scan records of their directories, and of those of dependencies that were not known.
        records: Vec<u8>,
    },
    /// Exclude these from this run.
    Skip(Vec<String>),
    /// Terminate these.
    Kill(Vec<String>),
    /// List the clients on other machines.
    Clients,
    /// Give the client with this name no more packages.
    Drain(String),
    /// Give the client with this name no more packages, and build these again, with all that need them.
    Distrust {
        client: String,
        /// PKGNAMEs. Unknown ones are ignored.
        packages: Vec<String>,
    },
    /// Relay the requests of clients on this connection, instead of one answer.
    Link,
}

impl Request {
    /// Returns whether it changes states of packages.
    pub fn changes_packages(&self) -> bool {
        matches!(self, Request::Retry { .. } | Request::Skip(_) | Request::Distrust { .. })
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Response {
    /// The exit code.
    pub code: u8,
    pub out: Vec<u8>,
    /// The error; empty if there is none.
    pub err: Vec<u8>,
}

impl Response {
    pub fn ok(text: impl Into<Vec<u8>>) -> Response {
        Response { out: text.into(), ..Response::default() }
    }

    pub fn refused(why: impl Into<Vec<u8>>) -> Response {
        Response { code: 1, err: why.into(), ..Response::default() }
    }
}

/// The source of requests.
pub trait ControlServer {
    /// Returns a pending request, with the number of its connection.
    fn next(&mut self) -> Option<(u64, Request)>;

    /// Sends the answer to a request.
    fn answer(&mut self, connection: u64, answer: Response);

    /// Returns the next event of the connection to the server of clients. Follows `next`, which receives.
    fn next_link_event(&mut self) -> Option<LinkEvent> {
        None
    }

    /// Sends a message to the server of clients, if it is connected.
    fn send_to_server(&mut self, _: &ToServer) {}
}

/// No requests.
#[derive(Clone, Copy, Debug)]
pub struct NoControl;

impl ControlServer for NoControl {
    fn next(&mut self) -> Option<(u64, Request)> {
        None
    }

    fn answer(&mut self, _: u64, _: Response) {}
}
