//! Uploads in few requests and few bytes: packs of small blobs, and compressed parts of large ones.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tanto_protocol::*;
use tanto_serve::Limits;

use super::site::{Site, until};

fn digest(content: &[u8]) -> Digest {
    Digest(Sha256::digest(content).into())
}

/// Text like that of a log.
fn log(lines: usize) -> Vec<u8> {
    (0..lines).flat_map(|line| format!("cc -O2 -c file{line}.c -o file{line}.o\n").into_bytes()).collect()
}

/// A counter of the server.
fn counter(site: &Site, name: &str) -> u64 {
    let (_, token) = site.token(&format!("watch-{}", random()), &[Role::Watch]);
    let (_, text) = site.request("GET", "/v1/main/metrics", &token, b"");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.map_or(0, |value| value.parse().unwrap())
}

fn random() -> String {
    tanto_serve::client::random_key().unwrap().to_string()[..8].to_owned()
}

#[test]
fn small_blobs_are_sent_in_one_request() {
    let site = Site::plain(Limits::default());
    let client = site.client("alpha");
    let contents: Vec<Vec<u8>> = (0..300).map(|number| log(number * 10)).collect();
    let write = |(number, content): (usize, &Vec<u8>)| {
        site.dir.write(&format!("log-{number}"), content);
        (digest(content), site.dir.at(&format!("log-{number}")))
    };
    let files: Vec<(Digest, PathBuf)> = contents.iter().enumerate().map(write).collect();
    let files: Vec<(Digest, &Path)> = files.iter().map(|(digest, path)| (*digest, &**path)).collect();
    client.put_pack(&files, &|_| ()).unwrap();
    client.put_pack(&files, &|_| ()).unwrap();
    let digests: Vec<Digest> = files.iter().map(|(digest, _)| *digest).collect();
    assert_eq!(client.missing(&digests).unwrap(), []);
    for (digest, path) in [files[0], files[299]] {
        client.get(&digest, &site.dir.at("to")).unwrap();
        assert!(std::fs::read(site.dir.at("to")).unwrap() == std::fs::read(path).unwrap());
        std::fs::remove_file(site.dir.at("to")).unwrap();
    }
    assert_eq!(counter(&site, "tanto_requests_total{route=\"put-pack\",status=\"201\"}"), 2);
    let (bytes, sent) =
        (contents.iter().map(Vec::len).sum::<usize>() as u64, counter(&site, "tanto_received_bytes_total"));
    assert!(sent < bytes / 4, "{sent} of {bytes} bytes");
}

#[test]
fn large_blobs_are_sent_in_compressed_parts_and_continue() {
    let site = Site::plain(Limits::default());
    let client = site.client("alpha");
    let content = log(600_000);
    let digest = digest(&content);
    assert!(content.len() as u64 > 2 * MAX_PART, "{}", content.len());
    site.dir.write("from", &content);
    // The begin arrives from another request.
    let (_, token) = site.token("beta", &[Role::Build]);
    let path = |at: usize| format!("/v1/main/cas/{digest}?at={at}&size={}", content.len());
    assert_eq!(site.request("PATCH", &path(0), &token, &content[..1_000]).0, 202);
    client.put(&digest, &site.dir.at("from")).unwrap();
    client.get(&digest, &site.dir.at("to")).unwrap();
    assert!(std::fs::read(site.dir.at("to")).unwrap() == content);
    let sent = counter(&site, "tanto_received_bytes_total");
    assert!(sent < content.len() as u64 / 4, "{sent} of {} bytes", content.len());
}

#[test]
fn parts_that_cannot_be_compressed_arrive_too() {
    let site = Site::plain(Limits::default());
    let client = site.client("alpha");
    let noise = (0..=MAX_PART / 32).flat_map(|number| digest(&number.to_le_bytes()).0);
    let content: Vec<u8> = log(10_000).into_iter().chain(noise).collect();
    site.dir.write("from", &content);
    client.put(&digest(&content), &site.dir.at("from")).unwrap();
    client.get(&digest(&content), &site.dir.at("to")).unwrap();
    assert!(std::fs::read(site.dir.at("to")).unwrap() == content);
}

/// Sends an encoded body by hand.
fn send(site: &Site, line: &str, encoding: &str, token: &str, body: &[u8]) -> (u16, String) {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = site.raw(&[head.as_bytes(), body].concat());
    (answer[9..12].parse().unwrap(), answer)
}

#[test]
fn a_compressed_part_has_limits() {
    let site = Site::plain(Limits::default());
    let (_, token) = site.token("alpha", &[Role::Build]);
    let content = log(100_000);
    let path = |at: usize| format!("/v1/main/cas/{}?at={at}&size={}", digest(&content), content.len());
    let compressed = |content: &[u8]| zstd::stream::encode_all(content, 3).unwrap();
    let (other, _) = send(&site, &format!("PATCH {}", path(0)), "gzip", &token, b"x");
    let (whole, _) = send(&site, &format!("PUT {}", path(0)), "zstd", &token, &compressed(&content));
    assert_eq!((other, whole), (415, 415));
    let send = |at: usize, body: &[u8]| send(&site, &format!("PATCH {}", path(at)), "zstd", &token, body);
    let (status, answer) = send(0, &compressed(&content[..2_000_000]));
    assert!(status == 202 && answer.contains("upload-offset: 2000000"), "{answer}");
    let (status, answer) = send(0, &compressed(&content[..2_000_000]));
    assert!(status == 409 && answer.contains("upload-offset: 2000000"), "{answer}");
    let bomb = compressed(&vec![0; 64 << 20]);
    for bad in [&bomb[..], b"no zstd", &compressed(&content[2_000_000..])[..100], &compressed(&vec![0; content.len()])]
    {
        assert_eq!(send(2_000_000, bad).0, 400);
    }
    assert_eq!(send(2_000_000, &compressed(&content[2_000_000..])).0, 201);
    until("it is there", || site.request("HEAD", &path(0), &token, b"").0 == 200);
}

#[test]
fn bad_packs_are_refused() {
    let site = Site::plain(Limits { failures: 1e6, ..Limits::default() });
    let (_, token) = site.token("alpha", &[Role::Build]);
    let pack = |blobs: &[(Digest, &[u8])]| {
        let lines = blobs
            .iter()
            .flat_map(|(digest, content)| [format!("{digest} {}\n", content.len()).as_bytes(), content].concat());
        zstd::stream::encode_all(&[&lines.collect::<Vec<u8>>()[..], b"end\n"].concat()[..], 3).unwrap()
    };
    let put = |body: &[u8]| site.request("PUT", "/v1/main/pack", &token, body).0;
    let (good, wrong) = (digest(b"good"), digest(b"wrong"));
    let large = vec![0; MAX_PACKED as usize + 1];
    let many: Vec<(Digest, &[u8])> = (0..=MAX_DIGESTS).map(|_| (digest(b""), &b""[..])).collect();
    assert_eq!(put(b"no zstd"), 400);
    assert_eq!(put(&pack(&[(good, b"good")])[..30]), 400);
    assert_eq!(put(&pack(&[(good, b"good"), (wrong, b"other")])), 422);
    assert_eq!(put(&pack(&[(digest(&large), &large)])), 413);
    assert_eq!(put(&pack(&many)), 413);
    assert_eq!(put(&vec![0; 18 << 20]), 413);
    let (_, answer) = site.request("POST", "/v1/main/missing", &token, format!("[\"{good}\",\"{wrong}\"]").as_bytes());
    assert!(answer.contains(&wrong.to_string()) && !answer.contains(&good.to_string()), "{answer}");
}
