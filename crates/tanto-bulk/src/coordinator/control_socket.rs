//! The way from other terminals to a bulk build that runs: what may be asked, how it is written, and who waits for an
//! answer. Does not know what is answered.

mod client;
mod frames;
mod server;
#[cfg(test)]
mod tests;

pub use self::client::{Unheard, ask};
pub use self::server::Server;

/// The name of the socket in the state directory.
pub const SOCKET: &str = "socket";

/// What somebody wants of a build. Packages are named as users name them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// How it stands.
    Status,
    /// What a package prints that is being built, in this stage or in any.
    Log {
        /// Which.
        package: String,
        /// In which.
        stage: Option<String>,
    },
    /// These are to be built (again).
    Retry {
        /// Which.
        packages: Vec<String>,
        /// What their directories say now, and those of what they need and what was not known before; as a scan has it.
        records: Vec<u8>,
    },
    /// These are not to be built in this run.
    Skip(Vec<String>),
    /// The build of these is to end.
    Kill(Vec<String>),
}

/// What they are told.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Answer {
    /// For the exit code.
    pub code: u8,
    /// For standard output.
    pub out: Vec<u8>,
    /// What is wrong, if something is.
    pub err: Vec<u8>,
}

impl Answer {
    /// All is well.
    pub fn said(text: impl Into<Vec<u8>>) -> Answer {
        Answer { out: text.into(), ..Answer::default() }
    }

    /// It cannot be done.
    pub fn refused(why: impl Into<Vec<u8>>) -> Answer {
        Answer { code: 1, err: why.into(), ..Answer::default() }
    }
}

/// Where requests come from and answers go to.
pub trait Desk {
    /// The next request, and the number of whoever asks; none if there is none now.
    fn next(&mut self) -> Option<(u64, Request)>;

    /// The answer for this one.
    fn answer(&mut self, guest: u64, answer: Answer);
}

/// The desk of a build that nobody can ask anything.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Desk for Nobody {
    fn next(&mut self) -> Option<(u64, Request)> {
        None
    }

    fn answer(&mut self, _: u64, _: Answer) {}
}
