//! Guests of every kind, and a build that must not mind.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tanto_sys::ipc::poll::{self, Watch};
use tanto_sys::ipc::unix_socket;
use tanto_testing::{Random, Scratch, seeds};

use super::frames::{self, Wrong};
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
    ]
}

#[test]
fn what_is_said_is_understood() {
    for request in requests() {
        let bytes = request.bytes();
        let words = frames::frame(&bytes).unwrap().unwrap();
        assert_eq!(Request::of(&words), Ok(request));
        assert!((0..bytes.len()).all(|cut| frames::frame(&bytes[..cut]) == Ok(None)), "it is not whole");
    }
    let answer = Answer { code: 3, out: b"out\n\0".to_vec(), err: b"\xff".to_vec() };
    assert_eq!(Answer::of(&frames::frame(&answer.bytes()).unwrap().unwrap()), Ok(answer));
}

#[test]
fn what_is_no_request_is_noticed() {
    let frame = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let cases: [&[u8]; 4] = [b"", b"\x01\0\0", b"\x09\0\0\0x", b"\x04\0\0\0what"];
    for case in cases {
        let bytes = frame(case);
        let words = frames::frame(&bytes).map(|words| words.unwrap());
        assert!(words.is_err() || Request::of(&words.unwrap()) == Err(Wrong::Nonsense), "{case:?}");
    }
    assert_eq!(frames::frame(&u32::MAX.to_le_bytes()), Err(Wrong::TooLong));
    assert_eq!(frames::greeted(b"GET / HTTP/1.1\r\n"), Err(Wrong::Stranger));
    assert_eq!(frames::greeted(b"tanto bulk 99999999999999999999999999999"), Err(Wrong::Stranger));
    assert_eq!(frames::greeted(b"tanto bulk 7\n"), Err(Wrong::Version(b"7".to_vec())));
    assert_eq!((frames::greeted(b"tanto"), frames::greeted(&frames::greeting())), (Ok(None), Ok(Some(13))));
}

#[test]
fn mutated_requests_do_no_harm() {
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

/// A door, with what a build does there.
struct House {
    place: Scratch,
    server: Server,
}

impl House {
    fn new(name: &str) -> House {
        let place = Scratch::new(name);
        House { server: Server::open(&place.at("")).unwrap(), place }
    }

    fn state(&self) -> PathBuf {
        self.place.at("")
    }

    /// Answers whoever asks, until this thread has its own answer.
    fn serve<T>(&mut self, guest: thread::JoinHandle<T>) -> T {
        let bell = self.server.bell().unwrap();
        while !guest.is_finished() {
            poll::wait(&mut [Watch::new(&bell)], Some(Duration::from_millis(5))).unwrap();
            while let Some((number, request)) = self.server.next() {
                self.server.answer(number, Answer::said(format!("{request:?}")));
            }
        }
        guest.join().unwrap()
    }
}

#[test]
fn a_request_has_an_answer() {
    let mut house = House::new("door");
    for request in requests() {
        let (state, asked) = (house.state(), request.clone());
        let answer = house.serve(thread::spawn(move || ask(&state, &asked))).unwrap();
        assert_eq!(answer, Answer::said(format!("{request:?}")));
    }
}

#[test]
fn large_ones_go_in_pieces() {
    let mut house = House::new("door-large");
    let state = house.state();
    let request = Request::Retry { packages: Vec::new(), records: vec![b'x'; 3 << 20] };
    let answer = house.serve(thread::spawn(move || ask(&state, &request))).unwrap();
    assert!(answer.out.len() > 3 << 20);
}

#[test]
fn who_is_silent_slow_or_lying_keeps_nobody_waiting() {
    let mut house = House::new("door-others");
    let connect = |house: &House| unix_socket::connect(&house.state(), SOCKET).unwrap();
    let silent: Vec<UnixStream> = (0..5).map(|_| connect(&house)).collect();
    let mut slow = connect(&house);
    slow.write_all(b"tanto bu").unwrap();
    let mut lying = connect(&house);
    lying.write_all(&[&frames::greeting()[..], &u32::MAX.to_le_bytes()].concat()).unwrap();
    let mut gone = connect(&house);
    gone.write_all(&[frames::greeting(), Request::Status.bytes()].concat()).unwrap();
    drop(gone);
    let state = house.state();
    assert_eq!(house.serve(thread::spawn(move || ask(&state, &Request::Status))).unwrap().out, b"Status");
    let lied = house.serve(thread::spawn(move || {
        let mut heard = Vec::new();
        lying.read_to_end(&mut heard).unwrap();
        heard
    }));
    assert!(lied.ends_with(b"the request is too long\0\0\0\0"), "{lied:?}");
    slow.write_all(&[&frames::greeting()[8..], &Request::Status.bytes()].concat()).unwrap();
    let heard = house.serve(thread::spawn(move || {
        let mut heard = Vec::new();
        slow.read_to_end(&mut heard).unwrap();
        heard
    }));
    assert!(heard.ends_with(b"Status"));
    drop(silent);
}

#[test]
fn another_version_is_told_so() {
    let place = Scratch::new("door-version");
    let listener = unix_socket::listen(&place.at(""), SOCKET).unwrap();
    listener.set_nonblocking(false).unwrap();
    let state = place.at("");
    let guest = thread::spawn(move || ask(&state, &Request::Status));
    listener.accept().unwrap().0.write_all(b"tanto bulk 7\n").unwrap();
    let told = guest.join().unwrap().unwrap_err().told();
    assert_eq!(told, "the build that runs is another Tanto's: it speaks version 7, and this one 1");
}

#[test]
fn a_dead_door_is_nobodys() {
    let house = House::new("door-dead");
    let state = house.state();
    std::mem::forget(house.server);
    let server = Server::open(&state).unwrap();
    drop(server);
    assert!(matches!(ask(&state, &Request::Status), Err(Unheard::Nobody)));
    drop(house.place);
}
