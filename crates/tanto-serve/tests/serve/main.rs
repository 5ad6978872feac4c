//! Tests of the server and the client's transport over real sockets, with a fake coordinator.

mod blobs;
mod cache;
mod collection;
mod coordinator;
mod documentation;
mod hostile;
mod metrics;
mod packs;
mod provision;
mod relay;
mod routes;
mod site;
mod tls;
mod tokens;
mod trees;
