//! Package signing by a separate process, the only one that sees the key.
//!
//! The publisher sends the name, the digest and the content of each package (`client`). The signer reads the package's
//! metadata and refuses another name or other content (`signer`). It opens no file that a request names.

pub mod client;
mod frames;
pub mod process;
mod signed_archive;
pub mod signer;
#[cfg(test)]
mod tests;
mod verify;
