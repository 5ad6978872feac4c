//! A client's first steps: it joins once, and fetches a package tree.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tanto_cas::manifest::Manifest;
use tanto_cas::tree::{DigestCache, ScanOptions, scan};
use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::Connection;
use tanto_serve::client::membership::member;
use tanto_serve::client::provision::{BlobSource, FetchedTree, fetch_file, fetch_similar_tree, fetch_tree};

use super::site::Site;

#[test]
fn a_client_joins_once_and_keeps_its_token() {
    let site = Site::new(Limits::default());
    let file = site.join_file("alpha", &[Role::Build], None);
    let dir = site.dir.at("client");
    fs::create_dir(&dir).unwrap();
    let joined = member(&file, &dir).unwrap();
    assert_eq!((member(&file, &dir).unwrap(), &*joined.name), (joined.clone(), "alpha"), "the secret works only once");
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [token] = &names[..] else { panic!("{names:?}") };
    assert_eq!(fs::metadata(token).unwrap().permissions().mode() & 0o777, 0o600);
    // Another file of the same client.
    tanto_serve::tokens::revoke(&site.dir.at("serve"), "main", "alpha").unwrap();
    let second = site.join_file("alpha", &[Role::Build], None);
    assert_ne!(member(&second, &dir).unwrap().token, joined.token);
}

#[test]
fn a_repeated_join_after_a_lost_answer_gets_the_same_token() {
    let site = Site::new(Limits::default());
    let file = site.join_file("alpha", &[Role::Build], None);
    let dir = site.dir.at("client");
    fs::create_dir(&dir).unwrap();
    let key = tanto_serve::client::random_key().unwrap();
    let lost = tanto_serve::client::join(&file, key).unwrap();
    let id = file.secret.split('.').next().unwrap();
    let path = dir.join(format!("key-{id}"));
    fs::write(&path, key.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(member(&file, &dir).unwrap(), lost);
}

fn scanned(dir: &std::path::Path) -> Manifest {
    scan(dir, &ScanOptions::default(), &mut DigestCache::default()).unwrap()
}

/// Uploads a tree; returns the digest of its manifest.
fn upload(site: &Site, client: &Connection) -> Digest {
    let manifest = scanned(&site.dir.at("tree"));
    for entry in manifest.entries().iter().filter(|entry| entry.mode.is_file()) {
        let path = site.dir.at("tree").join(String::from_utf8(entry.path.clone()).unwrap());
        client.put(&Digest(entry.digest.0), &path).unwrap();
    }
    for target in ["one", "two"] {
        site.dir.write("target", target);
        client.put(&Digest(tanto_cas::Digest::of(target.as_bytes()).0), &site.dir.at("target")).unwrap();
    }
    site.dir.write("manifest", manifest.text());
    let digest = Digest(manifest.digest().0);
    client.put(&digest, &site.dir.at("manifest")).unwrap();
    digest
}

#[test]
fn a_tree_is_fetched_and_then_only_its_changes() {
    // The test uploads each file with a request of its own.
    let site = Site::new(Limits { requests_at_once: 1e6, ..Limits::default() });
    let client = site.client("alpha");
    let dir = site.dir.at("client");
    fs::create_dir(&dir).unwrap();
    for number in 0..50 {
        site.dir.write(&format!("tree/cat/p{number}/Makefile"), format!("{number}\n"));
    }
    site.dir.write("tree/empty", "");
    site.dir.write("tree/big", vec![7; 5 << 20]);
    std::os::unix::fs::symlink("one", site.dir.at("tree/link")).unwrap();
    fs::set_permissions(site.dir.at("tree/cat/p1/Makefile"), fs::Permissions::from_mode(0o755)).unwrap();
    let first = upload(&site, &client);
    let fetched = fetch_tree(&client, &first, &dir).unwrap();
    assert_eq!((fetched.files, fetched.fetched), (52, 53), "the link too");
    assert_eq!(scanned(&dir.join("tree")).text(), scanned(&site.dir.at("tree")).text());
    assert_eq!(fetch_tree(&client, &first, &dir).unwrap(), FetchedTree { fetched: 0, bytes: 0, files: 52 });
    site.dir.write("tree/cat/p2/Makefile", "other\n");
    fs::remove_dir_all(site.dir.at("tree/cat/p3")).unwrap();
    fs::remove_file(site.dir.at("tree/link")).unwrap();
    std::os::unix::fs::symlink("two", site.dir.at("tree/link")).unwrap();
    let second = upload(&site, &client);
    let (other, tree) = (site.dir.at("other"), dir.join("tree"));
    let before = scanned(&tree);
    let fetched = fetch_similar_tree(&client, &second, &other, (&first, &dir)).unwrap();
    assert_eq!(fetched, FetchedTree { fetched: 2, bytes: 9, files: 51 });
    assert_eq!(scanned(&other.join("tree")).text(), scanned(&site.dir.at("tree")).text());
    let inode = |dir: &std::path::Path| fs::metadata(dir.join("tree/big")).unwrap().ino();
    assert_eq!((inode(&other), scanned(&tree)), (inode(&dir), before), "they share files");
    fs::write(dir.join("tree/own"), "of the client").unwrap();
    assert_eq!(fetch_tree(&client, &second, &dir).unwrap(), FetchedTree { fetched: 2, bytes: 9, files: 51 });
    assert_eq!(scanned(&dir.join("tree")).text(), scanned(&site.dir.at("tree")).text());
}

#[test]
fn a_part_of_another_file_does_no_harm() {
    let site = Site::new(Limits::default());
    let client = site.client("alpha");
    site.dir.write("from", "the kit");
    let digest = Digest(tanto_cas::Digest::of(b"the kit").0);
    client.put(&digest, &site.dir.at("from")).unwrap();
    site.dir.write("kit.part", "xxx");
    assert_eq!(fetch_file(&client, BlobSource::Server, &digest, &site.dir.at("kit")).unwrap(), 7);
    assert_eq!(fs::read(site.dir.at("kit")).unwrap(), b"the kit");
    assert!(fetch_tree(&client, &digest, &site.dir.at("")).is_err(), "it is no manifest");
}
