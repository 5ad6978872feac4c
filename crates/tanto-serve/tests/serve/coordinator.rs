//! A coordinator that answers the server's link.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tanto_protocol::*;

pub const CONNECTION: ConnectionId = ConnectionId([7; 16]);
/// A request for work that waits this long gets no answer.
pub const HELD: u64 = 1_234;

/// The blobs that the build needs; `None`: it does not say.
type Needed = Arc<Mutex<Option<Vec<Digest>>>>;

pub struct Coordinator {
    received: Mutex<Receiver<ToCoordinator>>,
    stream: Arc<Mutex<Option<UnixStream>>>,
    path: std::path::PathBuf,
    needed: Needed,
    ended_links: Arc<AtomicUsize>,
}

impl Coordinator {
    /// Listens on the socket of a state directory.
    pub fn start(state: &Path, build: &str) -> Coordinator {
        let path = state.join("socket");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, received) = channel();
        let stream = Arc::new(Mutex::new(None));
        let ended_links = Arc::new(AtomicUsize::new(0));
        let needed = Needed::default();
        let (slot, build, ended) = (stream.clone(), build.to_owned(), Arc::clone(&ended_links));
        let needs = Arc::clone(&needed);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.unwrap();
                *slot.lock().unwrap() = Some(connection.try_clone().unwrap());
                // It ends when either side closes.
                let _ = answer_link(connection, &build, &sender, &needs);
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        Coordinator { received: Mutex::new(received), stream, path, needed, ended_links }
    }

    /// The number of links that were made and have ended.
    pub fn ended_links(&self) -> usize {
        self.ended_links.load(Ordering::Relaxed)
    }

    /// Sets the blobs that the build needs.
    pub fn need(&self, digests: Option<&[Digest]>) {
        *self.needed.lock().unwrap() = digests.map(<[Digest]>::to_vec);
    }

    /// The next message that is received.
    pub fn next(&self) -> ToCoordinator {
        self.received.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("a message")
    }

    pub fn next_request(&self) -> (u64, TokenIdentity, ClientRequest) {
        match self.next() {
            ToCoordinator::Request { number, token, request } => (number, token, *request),
            gone => panic!("{gone:?} instead of a request"),
        }
    }

    pub fn send(&self, message: &ToServer) {
        write_frame(self.stream.lock().unwrap().as_ref().expect("a link"), message).unwrap();
    }

    /// Cuts the link; the server may connect again.
    pub fn cut(&self) {
        let stream = self.stream.lock().unwrap().take().expect("a link");
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Cuts the link, and no other can be made.
    pub fn end(&self) {
        std::fs::remove_file(&self.path).unwrap();
        self.cut();
    }
}

fn answer_link(mut stream: UnixStream, build: &str, to: &Sender<ToCoordinator>, needed: &Needed) -> io::Result<()> {
    let mut opening = [0; 13 + 12];
    stream.read_exact(&mut opening)?;
    assert_eq!(&opening, b"tanto bulk 1\n\x08\0\0\0\x04\0\0\0link");
    stream.write_all(b"tanto bulk 1\n")?;
    write_frame(&stream, &ToServer::Build { name: build.to_owned() })?;
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut bytes)?;
        let message = ToCoordinator::decode(&bytes).unwrap();
        if let ToCoordinator::Roots { epoch } = message {
            if let Some(digests) = needed.lock().unwrap().clone() {
                write_frame(&stream, &ToServer::Roots { epoch, digests })?;
            }
            continue;
        }
        if let ToCoordinator::Request { number, request, .. } = &message
            && let Some(answer) = answer(request)
        {
            write_frame(&stream, &ToServer::Answer { number: *number, answer })?;
        }
        let _ = to.send(message);
    }
}

fn write_frame(mut to: &UnixStream, message: &ToServer) -> io::Result<()> {
    let bytes = message.encode().unwrap();
    to.write_all(&[&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat())
}

/// `None`: the request waits.
fn answer(request: &ClientRequest) -> Option<ClientAnswer> {
    let refuse = |code| ClientAnswer::Refused(Refusal { code, message: "<no>\n".to_owned() });
    Some(match request {
        ClientRequest::Describe => ClientAnswer::Describe(description()),
        ClientRequest::Hello(hello) if hello.slots == 0 => refuse(RefusalCode::Environment),
        ClientRequest::Hello(hello) => ClientAnswer::Hello(HelloAnswer {
            connection: CONNECTION,
            heartbeat_ms: 20_000,
            missing_ms: 60_000,
            warnings: vec!["another kernel".to_owned()],
            // The test names the cache.
            blobs: hello.environment.get("blobs").cloned().unwrap_or_default(),
        }),
        ClientRequest::Work(work) if work.wait_ms == HELD => return None,
        ClientRequest::Work(_) => {
            ClientAnswer::Work(WorkAnswer { leases: Vec::new(), reason: "nothing is ready".to_owned() })
        }
        ClientRequest::Heartbeat(_) => ClientAnswer::Heartbeat(HeartbeatAnswer { leases: Vec::new(), drain: true }),
        ClientRequest::Result(_) => ClientAnswer::Result(ResultAnswer::Settled),
        ClientRequest::Scan(_) => ClientAnswer::Scan(ScanAnswer::default()),
        ClientRequest::Bye(bye) if bye.connection != CONNECTION => refuse(RefusalCode::Connection),
        ClientRequest::Bye(_) => ClientAnswer::Bye,
    })
}

pub fn description() -> BuildDescription {
    BuildDescription { build: "main".to_owned(), run: 3, ..BuildDescription::default() }
}
