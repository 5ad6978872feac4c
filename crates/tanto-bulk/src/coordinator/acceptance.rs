//! Accepts the results of clients outside of the coordinator's loop.
//!
//! The coordinator (`Acceptance`) sends the files of a result to a process that it starts once (`Acceptor`). That one copies
//! logs, copies and installs packages, and has each package opened by another process (`Inspector`), which has given up
//! everything but two ends of a socket: a hostile archive can at worst end it. That process also compares packages.

mod acceptor;
mod compare;
mod copies;
pub mod inspect;
mod inspector;
mod link;
mod messages;
#[cfg(test)]
mod tests;

pub use self::acceptor::serve as accept;
pub use self::inspector::serve as inspect_packages;
pub use self::link::Acceptance;
pub use self::messages::{
    AcceptAnswer, AcceptRequest, AcceptedPackage, AcceptorRequest, CompareRequest, Destination, IncomingFile,
    IncomingPackage, StoredPackage, Taken,
};
