//! A client reads blobs from a cache, and from the server if the cache does not work.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::Connection;

use super::site::{Site, hello};

/// How a cache answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Right,
    /// The bytes from an offset on.
    Range(usize),
    Wrong,
    /// Without the last byte.
    Truncated,
    /// Without a length, and more than the blob has.
    Endless,
    Status(&'static str),
    Closed,
}

/// A server that has one blob. It keeps the headers of requests.
struct Cache {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Cache {
    fn new(blob: &[u8], answer: Answer) -> Cache {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::default());
        let (blob, log) = (blob.to_vec(), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &blob, answer, &log);
            }
        });
        Cache { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn serve(mut stream: &TcpStream, blob: &[u8], answer: Answer, log: &Mutex<Vec<String>>) {
    let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    log.lock().unwrap().push(lines.collect::<Vec<_>>().join("\n").to_lowercase());
    let head = |status: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n").into_bytes()
    };
    let wrong = vec![b'x'; blob.len()];
    let reply = match answer {
        Answer::Right => [&head("200 OK", blob.len()), blob].concat(),
        Answer::Range(at) => [&head("206 Partial Content", blob.len() - at), &blob[at..]].concat(),
        Answer::Wrong => [&head("200 OK", wrong.len()), &wrong[..]].concat(),
        Answer::Truncated => [&head("200 OK", blob.len()), &blob[..blob.len() - 1]].concat(),
        Answer::Status(status) => [&head(status, 4), &b"sad\n"[..]].concat(),
        Answer::Closed => Vec::new(),
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            while stream.write_all(blob).is_ok() {}
            return;
        }
    };
    let _ = stream.write_all(&reply);
}

/// Tells the client of a cache.
fn use_cache(client: &Connection, url: &str) {
    let environment = [("blobs".to_owned(), url.to_owned())].into();
    client.hello(Hello { environment, ..hello("alpha", 1) }).unwrap();
}

/// A blob that the server has.
fn upload(site: &Site, client: &Connection) -> (Vec<u8>, Digest) {
    let blob: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let digest = Digest(tanto_cas::Digest::of(&blob).0);
    site.dir.write("blob", &blob);
    client.put(&digest, &site.dir.at("blob")).unwrap();
    (blob, digest)
}

#[test]
fn a_working_cache_is_read_in_place_of_the_server_and_gets_no_token() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let (blob, digest) = upload(&site, &client);
    let cache = Cache::new(&blob, Answer::Right);
    use_cache(&client, &format!("http://{}/cas/", cache.address));
    let to = site.dir.at("to");
    for size in [Some(blob.len() as u64), None] {
        let _ = std::fs::remove_file(&to);
        assert_eq!(client.get_cached(&digest, size, &to).unwrap(), blob.len() as u64);
        assert_eq!(std::fs::read(&to).unwrap(), blob);
        let requests = cache.requests();
        assert_eq!(requests.len(), 1);
        assert!(requests[0].starts_with(&format!("get /cas/{digest} http/1.1\n")), "{requests:?}");
        assert!(!requests[0].contains("authorization"), "{requests:?}");
    }
    // The description of a later build names none.
    client.describe().unwrap();
    std::fs::remove_file(&to).unwrap();
    client.get_cached(&digest, None, &to).unwrap();
    assert_eq!((cache.requests().len(), client.take_warning()), (0, None));
}

#[test]
fn a_transfer_continues_at_the_cache() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let (blob, digest) = upload(&site, &client);
    let to = site.dir.at("to");
    for (begin, answer, requests) in [
        (&blob[..1_000], Answer::Range(1_000), 1),
        (&blob[..1_000], Answer::Right, 1),
        // The begin is that of another blob.
        (&b"other"[..], Answer::Right, 1),
    ] {
        std::fs::write(&to, begin).unwrap();
        let cache = Cache::new(&blob, answer);
        use_cache(&client, &format!("http://{}", cache.address));
        client.get_cached(&digest, Some(blob.len() as u64), &to).unwrap();
        let asked = cache.requests();
        assert_eq!(asked.len(), requests, "{answer:?}");
        assert!(asked[0].contains(&format!("\nrange: bytes={}-", begin.len())), "{asked:?}");
        assert_eq!(std::fs::read(&to).unwrap(), blob);
    }
    assert_eq!(client.take_warning(), None);
}

#[test]
fn a_broken_cache_is_left_alone_and_the_server_is_read() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let (blob, digest) = upload(&site, &client);
    let to = site.dir.at("to");
    let read = || {
        let _ = std::fs::remove_file(&to);
        client.get_cached(&digest, Some(blob.len() as u64), &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), blob);
    };
    for (answer, why) in [
        (Answer::Wrong, "it sent something else"),
        (Answer::Truncated, ""),
        (Answer::Endless, "it sent something else"),
        (Answer::Status("301 Moved Permanently\r\nLocation: /elsewhere"), "status 301"),
        (Answer::Status("403 Forbidden"), "status 403"),
        (Answer::Status("502 Bad Gateway"), "status 502"),
        (Answer::Closed, ""),
    ] {
        let cache = Cache::new(&blob, answer);
        let url = format!("http://{}/cas", cache.address);
        use_cache(&client, &url);
        (0..3).for_each(|_| read());
        assert_eq!(cache.requests().len(), 1, "{answer:?}");
        let warning = client.take_warning().unwrap();
        assert!(warning.starts_with(&format!("{url} does not work: ")) && warning.contains(why), "{warning}");
        assert_eq!(client.take_warning(), None);
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{free}/cas"), format!("https://{free}/cas")] {
        use_cache(&client, &url);
        read();
        assert!(client.take_warning().unwrap().starts_with(&url));
    }
}

#[test]
fn single_blobs_may_be_missing() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    let (blob, digest) = upload(&site, &client);
    let cache = Cache::new(&blob, Answer::Status("404 Not Found"));
    use_cache(&client, &format!("http://{}/cas", cache.address));
    let to = site.dir.at("to");
    for _ in 0..10 {
        // Its begin is kept.
        std::fs::write(&to, &blob[..1_000]).unwrap();
        client.get_cached(&digest, Some(blob.len() as u64), &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), blob);
    }
    assert_eq!(cache.requests().len(), 8);
    assert!(client.take_warning().unwrap().contains("none of the last 8 files"));
}
