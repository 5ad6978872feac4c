//! Signed packages, made by a process of its own: it alone sees the key. Does not know how a signature is made, nor which
//! user that process is.
//!
//! Who publishes says which name and which content may be signed, and sends the content (`Client`). The signer looks at
//! what the package says of itself and refuses another name, or other content (`signer`). It opens no file that it is
//! told of.

pub mod client;
mod frames;
mod seal;
pub mod signer;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use seal::{Form, seal};
