//! Requests reach the coordinator, and its answers the client.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::Connection;

use super::coordinator::{CONNECTION, Coordinator, HELD, description};
use super::site::{Site, hello, until, work};

fn heartbeat() -> Heartbeat {
    Heartbeat { connection: CONNECTION, number: 1, memory_kib: 1, disk_kib: 1, leases: Vec::new() }
}

fn report() -> ResultReport {
    let result = AttemptResult::of(AttemptOutcome::Failed { why: "it is broken".to_owned() });
    ResultReport {
        connection: CONNECTION,
        lease: LeaseId([3; 16]),
        result,
        packages: Vec::new(),
        logs: Vec::new(),
        distfiles: Vec::new(),
    }
}

#[test]
fn all_requests_are_relayed_with_the_identity_of_the_token() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    assert_eq!(client.describe().unwrap(), description());
    assert_eq!(client.hello(hello("alpha", 2)).unwrap().warnings, ["another kernel"]);
    assert_eq!(client.work(work(0)).unwrap().reason, "nothing is ready");
    assert!(client.heartbeat(heartbeat()).unwrap().drain);
    assert_eq!(client.result(report()).unwrap(), ResultAnswer::Settled);
    client.bye(Bye { connection: CONNECTION }).unwrap();
    let expected = [
        ClientRequest::Describe,
        ClientRequest::Hello(Box::new(hello("alpha", 2))),
        ClientRequest::Work(work(0)),
        ClientRequest::Heartbeat(heartbeat()),
        ClientRequest::Result(Box::new(report())),
        ClientRequest::Bye(Bye { connection: CONNECTION }),
    ];
    let mut last = 0;
    for expected in expected {
        let (number, token, request) = site.coordinator.next_request();
        assert!(number > last, "numbers increase");
        last = number;
        assert_eq!((request, token.roles), (expected, Roles(vec![Role::Build])));
    }
}

#[test]
fn refusals_of_the_coordinator_have_their_status_and_code() {
    let site = Site::plain(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let client = Connection::new(&file, &token).unwrap();
    until("a link", || client.describe().is_ok());
    let error = client.hello(hello("alpha", 0)).unwrap_err();
    assert_eq!((error.refusal(), error.is_transient()), (Some(RefusalCode::Environment), false));
    assert_eq!(error.to_string(), "<no>\n");
    let error = client.bye(Bye { connection: ConnectionId([0; 16]) }).unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalCode::Connection));
    let body = format!("{{\"connection\":\"{}\"}}", "0".repeat(32));
    let (status, answer) = site.request("POST", "/v1/main/bye", &token, body.as_bytes());
    assert_eq!(status, 410);
    assert!(answer.ends_with(r#"{"code":"connection","message":"<no>\n"}"#), "{answer}");
    assert!(answer.contains("content-type: application/json"), "{answer}");
}

#[test]
fn a_client_has_the_name_of_its_token() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let error = client.hello(hello("beta", 2)).unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalCode::Role), "{error}");
}

#[test]
fn a_long_poll_ends_when_the_link_drops_and_the_next_request_finds_the_new_link() {
    let site = Site::new(Limits::default());
    let client = Arc::new(site.client("alpha"));
    let waiting = std::thread::spawn({
        let client = client.clone();
        move || client.work(work(HELD))
    });
    let (first, ..) = site.coordinator.next_request();
    site.coordinator.cut();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!((error.refusal(), error.is_transient()), (Some(RefusalCode::Unavailable), true));
    until("a new link", || client.work(work(0)).is_ok());
    let (second, ..) = site.coordinator.next_request();
    assert!(second > first, "numbers are not used again");
}

#[test]
fn without_a_coordinator_requests_are_unavailable_until_one_starts() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    site.coordinator.end();
    until("the link is down", || client.describe().is_err());
    assert_eq!(client.describe().unwrap_err().refusal(), Some(RefusalCode::Unavailable));
    let _next = Coordinator::start(&site.dir.at("state"), "main");
    until("a new coordinator", || client.describe().is_ok());
}

#[test]
fn the_coordinator_of_another_build_is_not_used() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    site.coordinator.end();
    until("the link is down", || client.describe().is_err());
    let other = Coordinator::start(&site.dir.at("state"), "other");
    until("the server has left it", || other.ended_links() > 0);
    assert_eq!(client.describe().unwrap_err().refusal(), Some(RefusalCode::Unavailable));
}

#[test]
fn the_coordinator_learns_that_a_client_has_gone() {
    let site = Site::plain(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let client = Connection::new(&file, &token).unwrap();
    until("a link", || client.describe().is_ok());
    while site.coordinator.next_request().2 != ClientRequest::Describe {}
    let body = serde_json::to_vec(&work(HELD)).unwrap();
    let mut stream = TcpStream::connect(site.address).unwrap();
    let head = format!("Host: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {}", body.len());
    write!(stream, "POST /v1/main/work HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    stream.write_all(&body).unwrap();
    let (number, ..) = site.coordinator.next_request();
    drop(stream);
    assert_eq!(site.coordinator.next(), ToCoordinator::Gone { number });
    // A late answer to it is ignored.
    site.coordinator.send(&ToServer::Answer { number, answer: ClientAnswer::Bye });
    assert_eq!(client.describe().unwrap(), description());
}

#[test]
fn a_hundred_clients_work_at_once() {
    let site = Site::new(Limits::default());
    site.client("first");
    let file = site.join_file("pool", &[Role::Build], Some(100));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    let answer = tanto_serve::client::join(&file, tanto_serve::client::random_key().unwrap()).unwrap();
                    let client = Connection::new(&file, &answer.token).unwrap();
                    client.hello(hello(&answer.name, 1)).unwrap();
                    for _ in 0..5 {
                        client.heartbeat(heartbeat()).unwrap();
                    }
                    answer.name
                })
            })
            .collect();
        let mut names: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 100, "each client has its own name");
    });
}
