//! Requests that are malformed, too large, too slow or too many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tanto_protocol::Role;
use tanto_serve::Limits;

use super::site::{Site, until};

/// Limits under which a stalled connection ends soon.
fn short() -> Limits {
    Limits { stall: Duration::from_millis(300), unverified_time: Duration::from_millis(600), ..Limits::default() }
}

#[test]
fn malformed_requests_are_refused_and_the_server_works_on() {
    let site = Site::plain(Limits::default());
    let (_, token) = site.token("alpha", &[Role::Build]);
    let statuses = [
        ("POST", "/v1/main/none", 404),
        ("POST", "/v2/main/work", 404),
        ("POST", "/v1/../work", 404),
        ("GET", "/v1/main/work", 405),
        ("POST", "/v1/main/work", 400),
        ("POST", "/", 404),
    ];
    for (method, path, expected) in statuses {
        assert_eq!(site.request(method, path, &token, b"{\"x\":1}").0, expected, "{method} {path}");
    }
    for bytes in
        [&b"\0\xff\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxxxxxxxxxxxxxx"]
    {
        assert!(!site.raw(bytes).contains(" 200 "));
    }
    let long = format!("POST /v1/main/work HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    assert!(site.raw(long.as_bytes()).contains(" 431 "));
    assert_eq!(site.request("POST", "/v1/main/work", "x", b"").0, 401);
}

#[test]
fn bodies_have_limits_and_an_announced_length() {
    let site = Site::plain(Limits::default());
    let (_, token) = site.token("alpha", &[Role::Build]);
    let head = |more: &str| {
        format!("POST /v1/main/work HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\r\n\r\n")
    };
    assert!(site.raw(head("Content-Length: 4097").as_bytes()).starts_with("HTTP/1.1 413 "));
    assert!(site.raw(head("Content-Length: 99999999999999").as_bytes()).starts_with("HTTP/1.1 413 "));
    assert!(
        site.raw((head("Transfer-Encoding: chunked") + "2\r\n{}\r\n0\r\n\r\n").as_bytes()).starts_with("HTTP/1.1 411 ")
    );
    // Without a token, the length is not even looked at.
    assert!(
        site.raw(b"POST /v1/main/work HTTP/1.1\r\nConnection: close\r\nContent-Length: 9999999\r\n\r\n")
            .starts_with("HTTP/1.1 401 ")
    );
}

#[test]
fn slow_headers_and_bodies_end_the_connection() {
    let site = Site::plain(short());
    let (_, token) = site.token("alpha", &[Role::Build]);
    let mut slow = TcpStream::connect(site.address).unwrap();
    let mut bytes = b"POST /v1/main/work HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
    until("one byte at a time keeps no connection", || slow.write_all(&[*bytes.next().unwrap()]).is_err());
    let head = format!("POST /v1/main/work HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n{{");
    let answer = site.raw(head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn a_connection_without_a_token_ends() {
    let site = Site::plain(Limits { unverified_time: Duration::from_millis(300), ..Limits::default() });
    let mut idle = TcpStream::connect(site.address).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let end = idle.read(&mut [0; 16]);
    assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
}

#[test]
fn requests_of_one_connection_are_paced() {
    let limits = Limits { requests_at_once: 3.0, requests_per_second: 0.001, ..Limits::default() };
    let site = Site::plain(limits);
    let (_, token) = site.token("alpha", &[Role::Build]);
    let one = format!(
        "POST /v1/main/work HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 1\r\n\r\n-"
    );
    let last = one.replace("Host: x", "Connection: close");
    let answer = site.raw((one.repeat(4) + &last).as_bytes());
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["400", "400", "400", "429", "429"]);
    assert!(answer.contains("retry-after: 1"), "{answer}");
}

#[test]
fn failed_logins_of_an_address_are_limited() {
    let site = Site::plain(Limits { failures: 5.0, failure_seconds: 1e6, ..Limits::default() });
    let (_, token) = site.token("alpha", &[Role::Build]);
    // A connection that has logged in before goes on.
    let mut good = TcpStream::connect(site.address).unwrap();
    let one = format!("POST /v1/main/work HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 1\r\n\r\n-");
    let mut answer = [0; 12];
    good.write_all(one.as_bytes()).unwrap();
    good.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
    let bad = "POST /v1/main/work HTTP/1.1\r\nContent-Length: 0\r\n\r\n".repeat(7);
    let answer = site.raw(bad.as_bytes());
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["401", "401", "401", "401", "401", "429"], "{answer}");
    assert_eq!(site.raw(bad.as_bytes()), "", "the address is refused");
    good.write_all(one.as_bytes()).unwrap();
    let mut rest = [0; 4_096];
    assert!(good.read(&mut rest).unwrap() > 0);
}
