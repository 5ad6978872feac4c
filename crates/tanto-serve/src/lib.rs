//! HTTPS between the clients of a bulk build and its coordinator: the server, the client's transport, tokens and
//! certificates. The only crate with an async runtime.

pub mod authority;
mod blobs;
pub mod client;
mod files;
mod link;
mod secret;
mod server;
pub mod server_dir;
pub mod tokens;

pub use self::server::{HttpFuzzer, Limits, Options, Renewal, ServeError, Server, fuzz_route, serve};
