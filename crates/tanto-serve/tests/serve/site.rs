//! A server in a directory of its own, with one build.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tanto_protocol::*;
use tanto_serve::authority::Authorities;
use tanto_serve::client::{self, Connection};
use tanto_serve::tokens::{self, NewSecret};
use tanto_serve::{Limits, Options, Renewal, Server};
use tanto_testing::Scratch;
use tokio::sync::oneshot;

use super::coordinator::Coordinator;

pub struct Site {
    pub dir: Scratch,
    pub address: SocketAddr,
    pub coordinator: Coordinator,
    plain: bool,
    server: Option<Running>,
}

/// A server's thread.
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(options: Options) -> (Running, SocketAddr) {
        let (stop, stopped) = oneshot::channel();
        let (ready, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::bind(options).await.unwrap();
                ready.send(server.address()).unwrap();
                server.run_until(async { stopped.await.unwrap_or(()) }).await;
            });
        });
        (Running { stop, thread }, address.recv().expect("a server"))
    }

    fn end(self) {
        drop(self.stop);
        let ended = self.thread.join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server has panicked");
    }
}

/// Waits until something becomes true; fails after a minute.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Site {
    /// With TLS.
    pub fn new(limits: Limits) -> Site {
        Site::start(limits, false, None)
    }

    /// With TLS and a program that renews the certificate.
    pub fn renewed(renewal: Renewal) -> Site {
        Site::start(Limits::default(), false, Some(renewal))
    }

    /// Without TLS, for requests that are written by hand.
    pub fn plain(limits: Limits) -> Site {
        Site::start(limits, true, None)
    }

    fn start(limits: Limits, plain: bool, renewal: Option<Renewal>) -> Site {
        let dir = Scratch::new("serve");
        for name in ["state", "serve", "serve/builds", "serve/tls"] {
            std::fs::create_dir(dir.at(name)).unwrap();
        }
        std::os::unix::fs::symlink("../../state", dir.at("serve/builds/main")).unwrap();
        issue_leaf(&dir);
        let coordinator = Coordinator::start(&dir.at("state"), "main");
        let (server, address) = Running::start(Options { renewal, ..options(&dir, plain, limits) });
        Site { dir, address, coordinator, plain, server: Some(server) }
    }

    /// Ends the server and starts another one, at another address.
    pub fn restart(&mut self, limits: Limits) {
        self.server.take().expect("a server").end();
        let (server, address) = Running::start(options(&self.dir, self.plain, limits));
        (self.server, self.address) = (Some(server), address);
    }

    /// A join file with a fresh secret.
    pub fn join_file(&self, name: &str, roles: &[Role], pool: Option<u32>) -> JoinFile {
        let day = Duration::from_secs(24 * 3_600);
        self.join_file_for(name, roles, pool, day, None)
    }

    pub fn join_file_for(
        &self,
        name: &str,
        roles: &[Role],
        pool: Option<u32>,
        joinable: Duration,
        lifetime: Option<Duration>,
    ) -> JoinFile {
        let (build, name) = ("main".to_owned(), name.to_owned());
        let new = NewSecret { build, name: name.clone(), roles: Roles(roles.to_vec()), pool, joinable, lifetime };
        JoinFile {
            url: format!("{}://{}", if self.plain { "http" } else { "https" }, self.address),
            build: new.build.clone(),
            secret: tokens::add(&self.dir.at("serve"), &new).unwrap(),
            name,
            authority: authorities(&self.dir).trusted(),
        }
    }

    /// A client's token, which has joined.
    pub fn token(&self, name: &str, roles: &[Role]) -> (JoinFile, String) {
        let file = self.join_file(name, roles, None);
        let answer = client::join(&file, client::random_key().unwrap()).unwrap();
        assert_eq!(answer.name, name);
        (file, answer.token)
    }

    /// A connection, once the server is linked with the coordinator.
    pub fn client(&self, name: &str) -> Connection {
        let (file, token) = self.token(name, &[Role::Build]);
        let connection = Connection::new(&file, &token).unwrap();
        until("a link", || connection.describe().is_ok());
        while self.coordinator_describes() {}
        connection
    }

    /// Removes the requests of `client` from the coordinator's messages.
    fn coordinator_describes(&self) -> bool {
        self.coordinator.next_request().2 != ClientRequest::Describe
    }

    /// Sends bytes over a connection of its own, and returns all that is answered until the server closes it.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends one request by hand; returns the status and all of the answer.
    pub fn request(&self, method: &str, path: &str, token: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = self.raw(&[head.as_bytes(), body].concat());
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer to {method} {path}: {answer:?}")), answer)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.take().expect("a server").end();
    }
}

fn options(dir: &Scratch, plain: bool, limits: Limits) -> Options {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Options { dir: dir.at("serve"), listen, plain, limits, renewal: None, log: |line| eprintln!("serve: {line}") }
}

/// Those of the build, which are created if there are none.
pub fn authorities(dir: &Scratch) -> Authorities {
    Authorities::open(&dir.at("state/ca"), SystemTime::now()).unwrap()
}

/// Issues a certificate for the server, and publishes the authorities.
pub fn issue_leaf(dir: &Scratch) {
    let (names, authorities) = (["127.0.0.1".to_owned(), "localhost".to_owned()], authorities(dir));
    authorities.issue_leaf(&names, &dir.at("serve/tls/leaf.pem"), SystemTime::now()).unwrap();
    std::fs::write(dir.at("serve/tls/authority.pem"), authorities.trusted()).unwrap();
}

pub fn hello(name: &str, slots: u32) -> Hello {
    Hello {
        version: "0".to_owned(),
        name: name.to_owned(),
        instance: InstanceId([1; 16]),
        replace: false,
        slots,
        cpus: 2,
        memory_kib: 1 << 20,
        disk_kib: 1 << 20,
        environment: Environment::new(),
        labels: Vec::new(),
        root: true,
        running: Vec::new(),
        held: Vec::new(),
    }
}

pub fn work(wait_ms: u64) -> WorkRequest {
    WorkRequest { connection: super::coordinator::CONNECTION, number: 1, slots: 1, memory_kib: 1, disk_kib: 1, wait_ms }
}
