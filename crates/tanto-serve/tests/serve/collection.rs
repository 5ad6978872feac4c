//! Blobs that no build needs are removed, others never.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tanto_protocol::*;
use tanto_serve::Limits;
use tanto_serve::client::Connection;

use super::site::{Site, until, work};

/// Blobs are removed within seconds.
fn limits() -> Limits {
    Limits { keep_blobs: Duration::from_millis(1), ..Limits::default() }
}

fn upload(site: &Site, client: &Connection, content: &str) -> Digest {
    let digest = Digest(Sha256::digest(content).into());
    site.dir.write("from", content);
    client.put(&digest, &site.dir.at("from")).unwrap();
    digest
}

/// Without asking the server, which would count as use.
fn is_there(site: &Site, digest: &Digest) -> bool {
    let name = digest.to_string();
    site.dir.at(&format!("serve/blobs/{}/{}", &name[..2], &name[2..])).exists()
}

#[test]
fn only_needed_blobs_stay() {
    let mut site = Site::new(limits());
    let client = site.client("alpha");
    let needed = upload(&site, &client, "needed");
    let first = upload(&site, &client, "first");
    assert!(is_there(&site, &first), "the coordinator has not said which ones it needs");
    site.coordinator.need(Some(&[needed]));
    until("the first is removed", || !is_there(&site, &first));
    assert!(is_there(&site, &needed));
    // The coordinator does not answer.
    site.coordinator.need(None);
    let second = upload(&site, &client, "second");
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_there(&site, &second) && is_there(&site, &needed));
    // It has gone, and counts with its last answer.
    site.coordinator.end();
    until("the second is removed", || !is_there(&site, &second));
    assert!(is_there(&site, &needed));
    site.restart(limits());
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_there(&site, &needed), "the server has stored the last answer");
    std::fs::remove_dir_all(site.dir.at("state")).unwrap();
    until("the build's blobs are removed with its state directory", || !is_there(&site, &needed));
}

#[test]
fn nothing_is_removed_while_an_answer_is_damaged() {
    let mut site = Site::new(limits());
    let client = site.client("alpha");
    site.coordinator.end();
    let blob = upload(&site, &client, "blob");
    site.dir.write("serve/roots/main", "0123\n");
    site.restart(limits());
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_there(&site, &blob));
    std::fs::write(site.dir.at("serve/roots/main"), format!("{blob}\n")).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_there(&site, &blob));
    std::fs::write(site.dir.at("serve/roots/main"), "").unwrap();
    until("it is removed", || !is_there(&site, &blob));
}

#[test]
fn without_room_nothing_is_handed_out_until_blobs_are_removed() {
    let site = Site::new(Limits { store: 1_000, ..limits() });
    let client = site.client("alpha");
    client.work(work(0)).unwrap();
    upload(&site, &client, &"a".repeat(900));
    let refused = client.work(work(0)).unwrap_err();
    assert!(refused.is_transient() && refused.refusal() == Some(RefusalCode::DiskFull), "{refused}");
    site.dir.write("from", "b".repeat(200));
    let digest = Digest(Sha256::digest("b".repeat(200)).into());
    let refused = client.put(&digest, &site.dir.at("from")).unwrap_err();
    assert_eq!(refused.refusal(), Some(RefusalCode::DiskFull), "{refused}");
    site.coordinator.need(Some(&[]));
    until("there is room again", || client.work(work(0)).is_ok());
    client.put(&digest, &site.dir.at("from")).unwrap();
}
