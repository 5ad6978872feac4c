//! A server that gets bytes instead of connections, for fuzzing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tanto_protocol::{Digest, Role, Roles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use super::{Limits, Options, ServeError, Server, connection};
use crate::tokens::{self, NewSecret};

/// The text that stands for a valid token in inputs.
const TOKEN: &str = "TOKEN";

pub struct HttpFuzzer {
    runtime: Runtime,
    server: Server,
    token: String,
}

impl HttpFuzzer {
    /// The directory must be empty or missing.
    pub fn new(dir: &Path) -> Result<HttpFuzzer, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServeError::Runtime)?;
        let brief = Duration::from_millis(200);
        let limits =
            Limits { stall: brief, answer: brief, wait: brief, failures: 1e12, blob: 1 << 20, ..Limits::default() };
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = Options { dir: dir.to_owned(), listen, plain: true, limits, renewal: None, log: |_| () };
        let server = runtime.block_on(Server::bind(options))?;
        let new = NewSecret {
            build: "main".to_owned(),
            name: "fuzz".to_owned(),
            roles: Roles(vec![Role::Admin]),
            pool: None,
            joinable: Duration::from_secs(3_600),
            lifetime: None,
        };
        let secret = tokens::add(dir, &new)?;
        let token = tokens::join(dir, "main", &secret, Digest([7; 32]))?.token;
        Ok(HttpFuzzer { runtime, server, token })
    }

    /// Sends the input over a connection, and returns all that is answered.
    pub fn run(&self, input: &[u8]) -> Vec<u8> {
        let input = replace(input, TOKEN.as_bytes(), self.token.as_bytes());
        self.runtime.block_on(async {
            let (client, server) = tokio::io::duplex(1 << 20);
            let (mut reader, mut writer) = tokio::io::split(client);
            let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let served = connection::accept(self.server.shared.clone(), None, server, ip);
            let sent = async {
                // The server may end before it has read everything.
                let _ = writer.write_all(&input).await;
                let _ = writer.shutdown().await;
            };
            let mut answer = Vec::new();
            let _ = tokio::join!(served, sent, reader.read_to_end(&mut answer));
            answer
        })
    }
}

fn replace(input: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        output.extend_from_slice(&rest[..at]);
        output.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    [output, rest.to_vec()].concat()
}
