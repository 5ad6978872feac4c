//! Package trees that are pushed to the server.

use std::fs;
use std::time::Duration;

use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::push::push_tree;
use tanto_serve::client::{ClientError, Connection};

use super::site::{Site, until};

fn pushed(site: &Site) -> Option<PushedTree> {
    fs::read(site.dir.at("serve/trees/main")).ok().map(|text| PushedTree::decode(&text).unwrap())
}

/// A connection with the role `tree`.
fn pusher(site: &Site) -> Connection {
    let (file, token) = site.token("laptop", &[Role::Tree]);
    Connection::new(&file, &token).unwrap()
}

fn write_tree(site: &Site) {
    for number in 0..50 {
        site.dir.write(&format!("tree/cat/p{number}/Makefile"), format!("{number}\n"));
    }
    site.dir.write("tree/again", "1\n");
    site.dir.write("tree/big", vec![7; 3 << 20]);
    site.dir.write("tree/.git/config", "of no interest");
    fs::create_dir(site.dir.at("tree/empty")).unwrap();
    std::os::unix::fs::symlink("big", site.dir.at("tree/link")).unwrap();
    fs::create_dir_all(site.dir.at("laptop")).unwrap();
}

#[test]
fn a_tree_is_pushed_and_then_only_its_changes() {
    let site = Site::plain(Limits::default());
    let connection = pusher(&site);
    write_tree(&site);
    let push = || push_tree(&connection, &site.dir.at("tree"), &site.dir.at("laptop")).unwrap();
    let first = push();
    assert_eq!((first.files, first.uploaded), (52, 52), "two files are equal, and there is a link");
    assert_eq!(pushed(&site), Some(PushedTree { manifest: first.manifest, name: "laptop".to_owned() }));
    assert_eq!(push(), tanto_serve::client::push::Push { uploaded: 0, bytes: 0, ..first });
    site.dir.write("tree/cat/p7/Makefile", "other\n");
    fs::remove_file(site.dir.at("tree/again")).unwrap();
    let second = push();
    assert_eq!((second.files, second.uploaded, second.bytes), (51, 1, 6));
    assert_eq!(pushed(&site).unwrap().manifest, second.manifest);
}

#[test]
fn an_incomplete_tree_is_not_accepted() {
    let site = Site::plain(Limits::default());
    let connection = pusher(&site);
    let upload = |content: &[u8]| {
        site.dir.write("from", content);
        let digest = Digest(tanto_cas::Digest::of(content).0);
        connection.put(&digest, &site.dir.at("from")).unwrap();
        digest
    };
    let file = Digest(tanto_cas::Digest::of(b"all:\n").0);
    let manifest = format!("f {file} 5 Makefile\n");
    let digest = Digest(tanto_cas::Digest::of(manifest.as_bytes()).0);
    let missing = |digest| Ok::<_, String>(TreeAnswer::Missing { digests: vec![digest] });
    let tree = |manifest| connection.tree(TreeRequest { manifest }).map_err(|error: ClientError| error.to_string());
    assert_eq!(tree(digest), missing(digest));
    upload(manifest.as_bytes());
    assert_eq!(tree(digest), missing(file));
    assert_eq!(pushed(&site), None);
    assert_eq!(
        tree(upload(b"all:\n")).unwrap_err(),
        "this is no manifest of a package tree: line 1 of the manifest: unknown mode"
    );
    assert_eq!(tree(digest), Ok(TreeAnswer::Accepted));
    assert_eq!(pushed(&site).unwrap().manifest, digest);
}

#[test]
fn only_the_last_tree_stays() {
    let site = Site::new(Limits { keep_blobs: Duration::from_millis(1), ..Limits::default() });
    let connection = pusher(&site);
    write_tree(&site);
    let push = || push_tree(&connection, &site.dir.at("tree"), &site.dir.at("laptop")).unwrap();
    let path = |content: &str| {
        let name = tanto_cas::Digest::of(content.as_bytes()).to_string();
        site.dir.at(&format!("serve/blobs/{}/{}", &name[..2], &name[2..]))
    };
    push();
    // Pins keep everything for a day.
    let unpin = || {
        fs::read_dir(site.dir.at("serve/blobs/pins"))
            .unwrap()
            .for_each(|pin| fs::remove_file(pin.unwrap().path()).unwrap())
    };
    unpin();
    site.dir.write("other", "other");
    connection.put(&Digest(tanto_cas::Digest::of(b"other").0), &site.dir.at("other")).unwrap();
    site.coordinator.need(Some(&[]));
    until("a blob of no tree is removed", || !path("other").exists());
    assert!(path("1\n").exists() && path("7\n").exists() && path("big").exists());
    site.dir.write("tree/cat/p7/Makefile", "other\n");
    push();
    unpin();
    until("the file of the former tree is removed", || !path("7\n").exists());
    assert!(path("1\n").exists() && path("other\n").exists());
}
