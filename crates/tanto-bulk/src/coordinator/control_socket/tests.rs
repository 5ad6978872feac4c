//! Connections of all kinds, which must not disturb a build.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tanto_protocol::{Message, ToCoordinator};
use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::ipc::unix_socket;
use tanto_testing::{Random, Scratch, seeds};

use super::frames::{self, FrameError};
use super::*;

fn requests() -> Vec<Request> {
    let names = vec!["a-1".to_owned(), "b-2nb3".to_owned()];
    vec![
        Request::Status,
        Request::Log { package: "a-1".into(), stage: None },
        Request::Log { package: "a-1".into(), stage: Some("build".into()) },
        Request::Retry { packages: names.clone(), records: b"PKGNAME=a-1\n\0".to_vec() },
        Request::Skip(names.clone()),
        Request::Kill(names),
        Request::Clients,
        Request::Drain("builder-2".into()),
        Request::Distrust { client: "builder-2".into(), packages: vec!["a-1".into(), "b-1".into()] },
        Request::Distrust { client: "builder-2".into(), packages: Vec::new() },
    ]
}

#[test]
fn requests_are_decoded_as_they_were_encoded() {
    for request in requests().into_iter().chain([Request::Link]) {
        let bytes = request.bytes();
        let words = frames::frame(&bytes).unwrap().unwrap();
        assert_eq!(Request::of(&words), Ok(request));
        assert!((0..bytes.len()).all(|cut| frames::frame(&bytes[..cut]) == Ok(None)), "it is not whole");
    }
    let answer = Response { code: 3, out: b"out\n\0".to_vec(), err: b"\xff".to_vec() };
    assert_eq!(Response::of(&frames::frame(&answer.bytes()).unwrap().unwrap()), Ok(answer));
}

#[test]
fn malformed_requests_are_refused() {
    let frame = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let cases: [&[u8]; 4] = [b"", b"\x01\0\0", b"\x09\0\0\0x", b"\x04\0\0\0what"];
    for case in cases {
        let bytes = frame(case);
        let words = frames::frame(&bytes).map(|words| words.unwrap());
        assert!(words.is_err() || Request::of(&words.unwrap()) == Err(FrameError::Malformed), "{case:?}");
    }
    assert_eq!(frames::frame(&u32::MAX.to_le_bytes()), Err(FrameError::TooLong));
    assert_eq!(frames::greeting_end(b"GET / HTTP/1.1\r\n"), Err(FrameError::NoGreeting));
    assert_eq!(frames::greeting_end(b"tanto bulk 99999999999999999999999999999"), Err(FrameError::NoGreeting));
    assert_eq!(frames::greeting_end(b"tanto bulk 7\n"), Err(FrameError::Version(b"7".to_vec())));
    assert_eq!((frames::greeting_end(b"tanto"), frames::greeting_end(&frames::greeting())), (Ok(None), Ok(Some(13))));
}

#[test]
fn mutated_requests_are_harmless() {
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let all = requests();
        let mut bytes = random.pick(&all).bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.number() as u8;
        }
        bytes.truncate(1 + random.below(bytes.len()));
        if let Ok(Some(words)) = frames::frame(&bytes) {
            let _ = Request::of(&words);
        }
    }
}

/// A server, and the loop of a build.
struct World {
    place: Scratch,
    server: Server,
}

impl World {
    fn new(name: &str) -> World {
        let place = Scratch::new(name);
        World { server: Server::open(&place.at("")).unwrap(), place }
    }

    fn state(&self) -> PathBuf {
        self.place.at("")
    }

    /// Answers requests until the client has ended.
    fn serve<T>(&mut self, client: thread::JoinHandle<T>) -> T {
        let wake_fd = self.server.wake_fd().unwrap();
        while !client.is_finished() {
            poll::wait(&mut [Watch::new(&wake_fd)], Some(Duration::from_millis(5))).unwrap();
            while let Some((number, request)) = self.server.next() {
                self.server.answer(number, Response::ok(format!("{request:?}")));
            }
        }
        client.join().unwrap()
    }
}

#[test]
fn request_gets_an_answer() {
    let mut world = World::new("door");
    for request in requests() {
        let (state, asked) = (world.state(), request.clone());
        let answer = world.serve(thread::spawn(move || ask(&state, &asked))).unwrap();
        assert_eq!(answer, Response::ok(format!("{request:?}")));
    }
}

#[test]
fn large_messages_are_sent_in_parts() {
    let mut world = World::new("door-large");
    let state = world.state();
    let request = Request::Retry { packages: Vec::new(), records: vec![b'x'; 3 << 20] };
    let answer = world.serve(thread::spawn(move || ask(&state, &request))).unwrap();
    assert!(answer.out.len() > 3 << 20);
}

#[test]
fn bad_connections_do_not_delay_others() {
    let mut world = World::new("door-others");
    let connect = |world: &World| unix_socket::connect(&world.state(), SOCKET).unwrap();
    let silent: Vec<UnixStream> = (0..5).map(|_| connect(&world)).collect();
    let mut slow = connect(&world);
    slow.write_all(b"tanto bu").unwrap();
    let mut lying = connect(&world);
    lying.write_all(&[&frames::greeting()[..], &u32::MAX.to_le_bytes()].concat()).unwrap();
    let mut gone = connect(&world);
    gone.write_all(&[frames::greeting(), Request::Status.bytes()].concat()).unwrap();
    drop(gone);
    let state = world.state();
    assert_eq!(world.serve(thread::spawn(move || ask(&state, &Request::Status))).unwrap().out, b"Status");
    let lied = world.serve(thread::spawn(move || {
        let mut heard = Vec::new();
        lying.read_to_end(&mut heard).unwrap();
        heard
    }));
    assert!(lied.ends_with(b"the request is too long\0\0\0\0"), "{lied:?}");
    slow.write_all(&[&frames::greeting()[8..], &Request::Status.bytes()].concat()).unwrap();
    let heard = world.serve(thread::spawn(move || {
        let mut heard = Vec::new();
        slow.read_to_end(&mut heard).unwrap();
        heard
    }));
    assert!(heard.ends_with(b"Status"));
    drop(silent);
}

#[test]
fn other_version_is_reported() {
    let place = Scratch::new("door-version");
    let listener = unix_socket::listen(&place.at(""), SOCKET).unwrap();
    listener.set_nonblocking(false).unwrap();
    let state = place.at("");
    let client = thread::spawn(move || ask(&state, &Request::Status));
    listener.accept().unwrap().0.write_all(b"tanto bulk 7\n").unwrap();
    let message = client.join().unwrap().unwrap_err().message();
    assert_eq!(message, "the running build uses another version of Tanto: protocol 7, not 1");
}

#[test]
fn stale_socket_is_replaced() {
    let world = World::new("door-dead");
    let state = world.state();
    std::mem::forget(world.server);
    let server = Server::open(&state).unwrap();
    drop(server);
    assert!(matches!(ask(&state, &Request::Status), Err(AskError::NoBuild)));
    drop(world.place);
}

/// Connects to a server as the server of clients does.
fn link(place: &Scratch) -> UnixStream {
    let mut stream = unix_socket::connect(&PathBuf::from(place.text()), SOCKET).unwrap();
    stream.write_all(&[frames::greeting(), Request::Link.bytes()].concat()).unwrap();
    stream
}

/// Returns the next event, which comes soon.
fn next_event(server: &mut Server) -> LinkEvent {
    loop {
        assert_eq!(server.next(), None);
        if let Some(event) = server.next_link_event() {
            return event;
        }
        thread::yield_now();
    }
}

fn framed(message: &ToCoordinator) -> Vec<u8> {
    let bytes = message.encode().unwrap();
    [&(bytes.len() as u32).to_le_bytes(), &bytes[..]].concat()
}

#[test]
fn messages_are_relayed_in_both_directions_however_they_are_cut() {
    let place = Scratch::new("bulk-link");
    let mut server = Server::open(&PathBuf::from(place.text())).unwrap();
    let mut stream = link(&place);
    assert_eq!(next_event(&mut server), LinkEvent::Up);
    let messages: Vec<ToCoordinator> = (0..50).map(|number| ToCoordinator::Gone { number }).collect();
    let bytes: Vec<u8> = messages.iter().flat_map(framed).collect();
    let mut random = Random::new(1);
    let mut received = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let cut = (1 + random.below(40)).min(rest.len());
        stream.write_all(&rest[..cut]).unwrap();
        rest = &rest[cut..];
        assert_eq!(server.next(), None);
        while let Some(event) = server.next_link_event() {
            received.push(event);
        }
    }
    while received.len() < messages.len() {
        received.push(next_event(&mut server));
    }
    let expected: Vec<LinkEvent> = messages.into_iter().map(|it| LinkEvent::Message(Box::new(it))).collect();
    assert_eq!(received, expected);
}

#[test]
fn a_large_message_is_sent_in_parts() {
    let place = Scratch::new("bulk-link-large");
    let mut server = Server::open(&PathBuf::from(place.text())).unwrap();
    let mut stream = link(&place);
    assert_eq!(next_event(&mut server), LinkEvent::Up);
    let files: Vec<_> = (0..20_000_u64)
        .map(|size| tanto_protocol::ProvidedFile { digest: tanto_protocol::Digest([7; 32]), size, path: "/x".into() })
        .collect();
    let message = ToServer::Provide { files };
    server.send_to_server(&message);
    let reader = thread::spawn(move || {
        let mut greeting = vec![0; frames::greeting().len()];
        stream.read_exact(&mut greeting).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut bytes).unwrap();
        ToServer::decode(&bytes).unwrap()
    });
    while !reader.is_finished() {
        assert_eq!(server.next(), None);
        thread::yield_now();
    }
    assert_eq!(reader.join().unwrap(), message);
    assert!(matches!(next_event(&mut server), LinkEvent::Down(_)), "the reader has closed the connection");
}

#[test]
fn malformed_messages_cut_the_link() {
    let place = Scratch::new("bulk-link-bad");
    let mut server = Server::open(&PathBuf::from(place.text())).unwrap();
    for bad in [&b"\xff\xff\xff\xff"[..], b"\x02\0\0\0{}", b"\x03\0\0\0abc"] {
        let mut stream = link(&place);
        assert_eq!(next_event(&mut server), LinkEvent::Up);
        stream.write_all(bad).unwrap();
        assert!(matches!(next_event(&mut server), LinkEvent::Down(_)), "{bad:?}");
    }
}

#[test]
fn a_new_server_replaces_the_old_one() {
    let place = Scratch::new("bulk-link-twice");
    let mut server = Server::open(&PathBuf::from(place.text())).unwrap();
    let _first = link(&place);
    assert_eq!(next_event(&mut server), LinkEvent::Up);
    let mut second = link(&place);
    assert!(matches!(next_event(&mut server), LinkEvent::Down(_)));
    assert_eq!(next_event(&mut server), LinkEvent::Up);
    let message = ToCoordinator::Gone { number: 3 };
    second.write_all(&framed(&message)).unwrap();
    assert_eq!(next_event(&mut server), LinkEvent::Message(Box::new(message)));
}
