//! A signer and a client over a socket.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use tanto_testing::{Random, Scratch};

use super::client::Client;
use super::*;
use crate::package::archive::tests::{gzip, tar};
use crate::package::archive::{Metadata, Package};

const SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----\nnone\n";

fn package(name: &str) -> Vec<u8> {
    gzip(&tar(&[("+CONTENTS", format!("@name {name}\n@cwd /pkg\nbin/x\n").as_bytes()), ("bin/x", &[7; 100_000])]))
}

fn file(place: &Scratch, content: &[u8]) -> File {
    let path = place.at("package");
    std::fs::write(&path, content).unwrap();
    File::open(path).unwrap()
}

/// Runs a signer for one client.
fn with_signer<T>(ask: impl FnOnce(&mut Client<UnixStream>) -> T) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let signer = scope.spawn(move || signer::serve(theirs, |_| Ok(SIGNATURE.to_vec())));
        let reply = ask(&mut Client::new(ours));
        let _ = signer.join().unwrap();
        reply
    })
}

fn signed(place: &Scratch, name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
    let mut file = file(place, content);
    let digest = client::digest(&mut file).unwrap();
    let reply = with_signer(|client| client.sign(name, digest, &mut file)).map_err(|failed| failed.to_string())?;
    let mut archive = Vec::new();
    let parts = (&reply.0[..], &reply.1[..]);
    signed_archive::write(&mut archive, parts, ("package-name-1.0.tgz", &mut file), digest)
        .map_err(|error| error.to_string())?;
    Ok(archive)
}

#[test]
fn signed_package_reads_like_the_original() {
    let place = Scratch::new("sign");
    let archive = signed(&place, "lib-1", &package("lib-1")).unwrap();
    let mut package = Package::read(&archive[..]).unwrap();
    let signed = package.metadata().signed().unwrap().clone();
    assert_eq!(
        (&signed.name[..], signed.form, &signed.signature[..]),
        (&b"lib-1"[..], "+PKG_GPG_SIGNATURE", SIGNATURE)
    );
    let member = package.next_file().unwrap().unwrap();
    assert_eq!((&member.path[..], member.size), (&b"bin/x"[..], 100_000));
    assert_eq!(std::io::copy(&mut package.content(), &mut std::io::sink()).unwrap(), 100_000);
}

#[test]
fn unexpected_packages_are_refused() {
    let place = Scratch::new("sign-refused");
    let lib = package("lib-1");
    assert_eq!(signed(&place, "other-1", &lib), Err("it contains lib-1".into()));
    assert_eq!(signed(&place, "lib-1", &[b'x'; 2000]), Err("not a binary package".into()));
    let archive = signed(&place, "lib-1", &lib).unwrap();
    assert_eq!(signed(&place, "lib-1", &archive), Err("it is already signed".into()));
    let mut file = file(&place, &lib);
    let found = with_signer(|client| {
        let found = [client.sign("lib-1", [7; 64], &mut file), client.sign("lib-1", [0; 64], &mut file)];
        // A refusal does not affect the next request.
        let digest = client::digest(&mut file).unwrap();
        assert!(client.sign("lib-1", digest, &mut file).is_ok());
        found.map(|it| it.unwrap_err().to_string())
    });
    assert!(found.iter().all(|it| it == "its digest is not that of the package to sign"), "{found:?}");
}

#[test]
fn changed_package_is_refused() {
    let place = Scratch::new("sign-changed");
    let mut before = file(&place, &package("lib-1"));
    let digest = client::digest(&mut before).unwrap();
    let (text, signature) = with_signer(|client| client.sign("lib-1", digest, &mut before)).unwrap();
    let mut after = file(&place, &package("lib-2"));
    let archive = signed_archive::write(&mut std::io::sink(), (&text, &signature), ("lib-1.tgz", &mut after), digest);
    assert_eq!(archive.unwrap_err().to_string(), "the package does not match its signature");
}

#[test]
fn last_block_is_not_empty() {
    let place = Scratch::new("sign-blocks");
    let mut content = tar(&[("+CONTENTS", b"@name lib-1\n@cwd /pkg\n")]);
    // The archive ends exactly there.
    for bytes in [1 << 16, (1 << 17) - 1, 1 << 17, (1 << 17) + 1] {
        content.resize(bytes, 0);
        let archive = signed(&place, "lib-1", &content).unwrap();
        std::fs::write(place.at("signed"), &archive).unwrap();
        assert_eq!(Metadata::of(&place.at("signed")).unwrap().name(), b"lib-1");
        let text = Metadata::of(&place.at("signed")).unwrap().signed().unwrap().text.clone();
        let text = String::from_utf8(text).unwrap();
        let block: u64 = text.split("block size: ").nth(1).unwrap().split('\n').next().unwrap().parse().unwrap();
        assert_ne!(bytes as u64 % block, 0, "pkg_add would take the last block to be empty");
    }
}

#[test]
fn malformed_signature_is_refused() {
    let place = Scratch::new("sign-none");
    for (made, why) in [
        (Err("no key".to_owned()), "no key"),
        (Ok(Vec::new()), "the signature is empty"),
        (Ok(vec![0; 70_000]), "the signature is too long"),
    ] {
        let mut file = file(&place, &package("lib-1"));
        let digest = client::digest(&mut file).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let signer = thread::spawn(move || signer::serve(theirs, |_| made.clone()));
        let mut client = Client::new(ours);
        assert_eq!(client.sign("lib-1", digest, &mut file).unwrap_err().to_string(), why);
        drop(client);
        signer.join().unwrap().unwrap();
    }
}

#[test]
fn malformed_request_ends_the_signer() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let signer = thread::spawn(move || signer::serve(theirs, |_| Ok(SIGNATURE.to_vec())));
        let mut nonsense: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        if let Some(first) = nonsense.first_mut() {
            *first = if *first < 128 { b'P' } else { *first };
        }
        // The signer may have ended.
        let _ = ours.write_all(&nonsense);
        drop(ours);
        let ended = signer.join().unwrap();
        assert_eq!(ended.is_ok(), nonsense.is_empty(), "seed {seed}");
    }
}
