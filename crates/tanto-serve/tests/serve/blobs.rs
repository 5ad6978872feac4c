//! Blobs: reads, ranges, packs, uploads in parts, limits, and files that change.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use sha2::{Digest as _, Sha256};
use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::{ClientError, Connection};

use super::site::{Site, until};

fn digest(content: &[u8]) -> Digest {
    Digest(Sha256::digest(content).into())
}

/// Bytes that do not repeat in any chunk.
fn content(length: usize) -> Vec<u8> {
    (0..length.div_ceil(8) as u64)
        .flat_map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .take(length)
        .collect()
}

fn path(digest: &Digest) -> String {
    format!("/v1/main/cas/{digest}")
}

fn provide(site: &Site, client: &Connection, name: &str, content: &[u8]) -> Digest {
    site.dir.write(name, content);
    let digest = digest(content);
    let file = ProvidedFile { digest, size: content.len() as u64, path: site.dir.at(name) };
    site.coordinator.send(&ToServer::Provide { files: vec![file] });
    until("the file is provided", || client.missing(&[digest]).unwrap().is_empty());
    digest
}

#[test]
fn a_blob_comes_back_as_it_was_sent() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    for length in [0, 1, 1 << 20, (3 << 20) + 5] {
        let content = content(length);
        let digest = digest(&content);
        site.dir.write("from", &content);
        assert_eq!(client.missing(&[digest]).unwrap(), [digest]);
        assert_eq!(client.get(&digest, &site.dir.at("none")).unwrap_err().refusal(), Some(RefusalCode::NotFound));
        client.put(&digest, &site.dir.at("from")).unwrap();
        client.put(&digest, &site.dir.at("from")).unwrap();
        assert_eq!(client.missing(&[digest]).unwrap(), []);
        let _ = std::fs::remove_file(site.dir.at("to"));
        assert_eq!(client.get(&digest, &site.dir.at("to")).unwrap(), length as u64);
        assert!(std::fs::read(site.dir.at("to")).unwrap() == content);
        // Now it is there.
        assert_eq!(client.get(&digest, &site.dir.at("to")).unwrap(), length as u64);
    }
}

#[test]
fn an_interrupted_read_continues_and_a_wrong_begin_is_noticed() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let content = content(2 << 20);
    let digest = digest(&content);
    site.dir.write("from", &content);
    client.put(&digest, &site.dir.at("from")).unwrap();
    site.dir.write("to", &content[..1_000_000]);
    assert_eq!(client.get(&digest, &site.dir.at("to")).unwrap(), 2 << 20);
    for wrong in [&b"wrong"[..], &[1; 3 << 20]] {
        site.dir.write("to", wrong);
        let error = client.get(&digest, &site.dir.at("to")).unwrap_err();
        assert!(matches!(error, ClientError::Mismatch(_)), "{error}");
        assert_eq!(client.get(&digest, &site.dir.at("to")).unwrap(), 2 << 20);
        assert!(std::fs::read(site.dir.at("to")).unwrap() == content);
    }
}

#[test]
fn ranges_are_answered_as_http_says() {
    let site = Site::plain(Limits::default());
    let (_, token) = site.token("alpha", &[Role::Build]);
    let digest = digest(b"0123456789");
    let path = path(&digest);
    assert_eq!(site.request("PUT", &path, &token, b"0123456789").0, 201);
    let get = |range: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nRange: {range}\r\n\r\n"
        );
        let answer = site.raw(head.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned(), head.to_owned())
    };
    for (range, status, body) in [
        ("bytes=3-5", "206", "345"),
        ("bytes=0-", "206", "0123456789"),
        ("bytes=9-99999", "206", "9"),
        ("bytes=0-0", "206", "0"),
        ("bytes=10-", "416", ""),
        ("bytes=-3", "200", "0123456789"),
        ("bytes=5-3", "200", "0123456789"),
        ("lines=1-2", "200", "0123456789"),
        ("bytes=99999999999999999999-", "200", "0123456789"),
    ] {
        let (got, text, head) = get(range);
        assert_eq!((&got[..], &text[..]), (status, body), "{range}: {head}");
    }
    assert!(get("bytes=3-5").2.contains("content-range: bytes 3-5/10"));
    assert!(get("bytes=10-").2.contains("content-range: bytes */10"));
    let (status, head) = site.request("HEAD", &path, &token, b"");
    assert!(status == 200 && head.contains("content-length: 10"), "{head}");
}

#[test]
fn a_broken_upload_keeps_what_arrived_and_continues() {
    let site = Site::plain(Limits::default());
    let (file, token) = site.token("alpha", &[Role::Build]);
    let content = content(3 << 20);
    let digest = digest(&content);
    let path = path(&digest);
    let mut stream = TcpStream::connect(site.address).unwrap();
    let head = format!("Authorization: Bearer {token}\r\nContent-Length: {}", content.len());
    write!(stream, "PATCH {path}?at=0&size={} HTTP/1.1\r\n{head}\r\n\r\n", content.len()).unwrap();
    stream.write_all(&content[..2_500_000]).unwrap();
    drop(stream);
    let arrived = || {
        let (status, head) = site.request("HEAD", &format!("{path}?size={}", content.len()), &token, b"");
        assert_eq!(status, 404);
        head.lines().find_map(|line| line.strip_prefix("upload-offset: ")?.parse::<u64>().ok()).unwrap()
    };
    until("all that was sent is kept", || arrived() == 2_500_000);
    let (status, answer) = site.request("PATCH", &format!("{path}?at=7&size={}", content.len()), &token, b"x");
    assert!(status == 409 && answer.contains("upload-offset: 2500000"), "{answer}");
    // Another client has an upload of its own.
    let (_, other) = site.token("beta", &[Role::Build]);
    let (_, head) = site.request("HEAD", &format!("{path}?size={}", content.len()), &other, b"");
    assert!(head.contains("upload-offset: 0"), "{head}");
    site.dir.write("from", &content);
    Connection::new(&file, &token).unwrap().put(&digest, &site.dir.at("from")).unwrap();
    assert_eq!(site.request("HEAD", &path, &other, b"").0, 200);
    // A whole upload after a part.
    let (status, _) =
        site.request("PATCH", &format!("{}?at=0&size=4", self::path(&self::digest(b"abcd"))), &token, b"ab");
    assert_eq!(status, 202);
    assert_eq!(site.request("PUT", &self::path(&self::digest(b"abcd")), &token, b"abcd").0, 201);
}

#[test]
fn wrong_contents_and_sizes_are_refused() {
    let site = Site::plain(Limits { blob: 10, ..Limits::default() });
    let (_, token) = site.token("alpha", &[Role::Build]);
    let path = path(&digest(b"right"));
    let request = |method, query: &str, body: &[u8]| site.request(method, &format!("{path}{query}"), &token, body).0;
    assert_eq!(request("PUT", "", b"wrong"), 422);
    assert_eq!(request("PUT", "", b"more than ten bytes"), 413);
    assert_eq!(request("PATCH", "?at=0&size=11", b"x"), 413);
    for query in
        ["", "?at=0", "?size=5", "?at=x&size=5", "?at=0&at=0&size=5", "?at=4&size=5", "?at=18446744073709551615&size=5"]
    {
        assert_eq!(request("PATCH", query, b"xy"), 400, "{query}");
    }
    for digest in ["..", "%2e%2e", &"A".repeat(64), &"0".repeat(63), &format!("{}/x", "0".repeat(64))] {
        assert_eq!(site.request("GET", &format!("/v1/main/cas/{digest}"), &token, b"").0, 404);
    }
    assert_eq!(request("DELETE", "", b""), 405);
    assert_eq!(request("PUT", "", b"right"), 201);
    assert_eq!(request("PUT", "", b"right"), 200);
}

#[test]
fn a_full_disk_and_a_full_store_are_said_so() {
    for limits in [Limits { disk_reserve: u64::MAX, ..Limits::default() }, Limits { store: 3, ..Limits::default() }] {
        let site = Site::plain(limits);
        let (file, token) = site.token("alpha", &[Role::Build]);
        assert_eq!(site.request("PUT", &path(&digest(b"four")), &token, b"four").0, 507);
        site.dir.write("from", "four");
        let error = Connection::new(&file, &token).unwrap().put(&digest(b"four"), &site.dir.at("from")).unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}

#[test]
fn provided_files_are_read_until_they_change() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let content = content(1 << 20);
    let digest = provide(&site, &client, "package.tgz", &content);
    assert_eq!(client.get(&digest, &site.dir.at("first")).unwrap(), 1 << 20);
    let mut changed = content.clone();
    changed[500_000] ^= 1;
    site.dir.write("package.tgz", &changed);
    let error = client.get(&digest, &site.dir.at("second")).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error}");
    assert_eq!(client.missing(&[digest]).unwrap(), [digest], "it is forgotten");
    let digest = provide(&site, &client, "package.tgz", &changed);
    site.dir.write("package.tgz", "shorter");
    assert_eq!(client.get(&digest, &site.dir.at("third")).unwrap_err().refusal(), Some(RefusalCode::NotFound));
}

#[test]
fn a_tree_comes_in_packs() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let contents: Vec<Vec<u8>> = (0..50).map(|number| content(number * 100)).collect();
    for (number, content) in contents.iter().enumerate() {
        site.dir.write(&format!("tree/{number}/Makefile"), content);
    }
    site.dir.write("tree/large", content(2 << 20));
    let mut cache = tanto_cas::tree::DigestCache::load(&site.dir.at("cache"));
    let manifest =
        tanto_cas::tree::scan(&site.dir.at("tree"), &tanto_cas::tree::ScanOptions::default(), &mut cache).unwrap();
    let digest = provide(&site, &client, "manifest", &manifest.text());
    site.coordinator.send(&ToServer::ProvideTree { manifest: digest, root: site.dir.at("tree") });
    let wanted: Vec<Digest> =
        manifest.blobs().map(|blob| Digest(blob.digest.0)).collect::<HashSet<_>>().into_iter().collect();
    until("the tree is provided", || client.missing(&wanted).unwrap().is_empty());
    let store = tanto_cas::Store::open(&site.dir.at("store"), tanto_cas::store::StoreLimits::default()).unwrap();
    assert_eq!(client.get_pack(&wanted, &store).unwrap(), 50);
    let wanted: Vec<tanto_cas::Digest> = wanted.iter().map(|digest| tanto_cas::Digest(digest.0)).collect();
    let left = store.missing(&wanted).unwrap();
    assert_eq!(left, [tanto_cas::Digest::of(&content(2 << 20))], "large blobs come alone");
    assert_eq!(client.get(&Digest(left[0].0), &site.dir.at("large")).unwrap(), 2 << 20);
    assert_eq!(client.missing(&vec![digest; 3_001]).unwrap(), [], "in two requests");
    // A file that changes after the scan is never sent, and other files still are.
    for (name, was) in [("7/Makefile", content(700)), ("large", content(2 << 20))] {
        site.dir.write(&format!("tree/{name}"), vec![7; was.len()]);
        let error = client.get(&Digest(tanto_cas::Digest::of(&was).0), &site.dir.at("changed")).unwrap_err();
        assert_eq!(error.refusal(), Some(RefusalCode::NotFound), "{name}: {error}");
    }
    let store = tanto_cas::Store::open(&site.dir.at("other"), tanto_cas::store::StoreLimits::default()).unwrap();
    let wanted: Vec<Digest> = wanted.iter().map(|digest| Digest(digest.0)).collect();
    assert_eq!(client.get_pack(&wanted, &store).unwrap(), 49);
}

#[test]
fn a_client_has_a_limited_number_of_uploads() {
    let site = Site::plain(Limits { uploads: 2, ..Limits::default() });
    let (_, token) = site.token("alpha", &[Role::Build]);
    let begin = |content: &[u8]| {
        let mut stream = TcpStream::connect(site.address).unwrap();
        let head = format!("Authorization: Bearer {token}\r\nContent-Length: {}", content.len());
        write!(stream, "PUT {} HTTP/1.1\r\n{head}\r\n\r\n{}", path(&digest(content)), content[0] as char).unwrap();
        stream
    };
    let (mut first, _second) = (begin(b"first"), begin(b"second"));
    // Until both have begun, others are accepted.
    let mut number = 0;
    until("one more is refused", || {
        number += 1;
        let content = format!("more {number}").into_bytes();
        site.request("PUT", &path(&digest(&content)), &token, &content).0 == 429
    });
    let (_, other) = site.token("beta", &[Role::Build]);
    assert_eq!(site.request("PUT", &path(&digest(b"third")), &other, b"third").0, 201);
    first.write_all(b"irst").unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    until("another is accepted", || site.request("PUT", &path(&digest(b"fourth")), &token, b"fourth").0 == 201);
}
