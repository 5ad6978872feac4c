//! Tests of uploads in parts.

use super::*;

const OWNER: UploadOwner = [7; 16];

#[test]
fn an_upload_continues_after_a_restart() {
    let place = Scratch::new("cas-upload");
    let content = b"first, second";
    let digest = Digest::of(content);
    let begin = open(&place);
    let mut upload = begin.upload(&OWNER, &digest, 13).unwrap();
    assert_eq!(upload.append(0, &mut &content[..5]).unwrap(), 5);
    assert!(matches!(upload.append(4, &mut &content[4..]), Err(StoreError::Offset { length: 5 })));
    assert!(matches!(begin.upload(&OWNER, &digest, 13), Err(StoreError::Busy(_))));
    drop(upload);
    let store = open(&place);
    let mut upload = store.upload(&OWNER, &digest, 13).unwrap();
    assert_eq!(upload.length(), 5);
    upload.append(5, &mut &content[5..]).unwrap();
    assert!(!store.contains(&digest).unwrap());
    assert_eq!(upload.finish(Durability::PowerLoss).unwrap().size, 13);
    assert_eq!(get(&store, &digest).unwrap(), content);
    assert_eq!(store.uploads.names().unwrap(), [b"lock"]);
}

#[test]
fn an_upload_is_verified() {
    let place = Scratch::new("cas-upload-bad");
    let store = open(&place);
    let digest = Digest::of(b"right");
    let mut upload = store.upload(&OWNER, &digest, 5).unwrap();
    upload.append(0, &mut &b"wro"[..]).unwrap();
    assert!(matches!(upload.append(3, &mut &b"ngs"[..]), Err(StoreError::TooLarge { limit: 5 })));
    assert!(matches!(upload.finish(Durability::Process), Err(StoreError::Incomplete { length: 3, size: 5 })));
    let mut upload = store.upload(&OWNER, &digest, 5).unwrap();
    upload.append(3, &mut &b"ng"[..]).unwrap();
    assert!(matches!(upload.finish(Durability::Process), Err(StoreError::Mismatch { .. })));
    let mut upload = store.upload(&OWNER, &digest, 5).unwrap();
    assert_eq!(upload.length(), 0, "the wrong content is gone");
    upload.append(0, &mut &b"right"[..]).unwrap();
    upload.finish(Durability::Process).unwrap();
}

#[test]
fn an_upload_beyond_the_quota_can_be_finished_later() {
    let place = Scratch::new("cas-upload-quota");
    let store = Store::open(&place.at("store"), StoreLimits { max_bytes: 8, ..limits() }).unwrap();
    put(&store, b"12345");
    let digest = Digest::of(b"right");
    let mut upload = store.upload(&OWNER, &digest, 5).unwrap();
    upload.append(0, &mut &b"right"[..]).unwrap();
    assert!(matches!(upload.finish(Durability::Process), Err(StoreError::Quota { .. })));
    store.collect(store.begin_epoch().unwrap(), [], 0).unwrap();
    let upload = store.upload(&OWNER, &digest, 5).unwrap();
    assert_eq!(upload.length(), 5);
    upload.finish(Durability::Process).unwrap();
}

#[test]
fn the_limits_of_an_owner_apply() {
    let place = Scratch::new("cas-upload-limits");
    let limits = StoreLimits { uploads_per_owner: 2, upload_bytes_per_owner: 100, uploads: 3, ..limits() };
    let store = Store::open(&place.at("store"), limits).unwrap();
    let upload = |owner: u8, name: &str, size| store.upload(&[owner; 16], &Digest::of(name.as_bytes()), size).map(drop);
    assert!(matches!(upload(1, "a", 101), Err(StoreError::UploadQuota { limit: 100 })));
    upload(1, "a", 60).unwrap();
    assert!(matches!(upload(1, "b", 41), Err(StoreError::UploadQuota { .. })));
    assert!(matches!(upload(1, "b", u64::MAX), Err(StoreError::UploadQuota { .. })));
    upload(1, "b", 40).unwrap();
    upload(1, "a", 60).unwrap();
    assert!(matches!(upload(1, "c", 0), Err(StoreError::Uploads { limit: 2 })));
    upload(2, "a", 60).unwrap();
    assert!(matches!(upload(3, "a", 1), Err(StoreError::Uploads { limit: 3 })));
    assert_eq!(store.remove_uploads(&[1; 16]).unwrap(), 2);
    upload(3, "a", 1).unwrap();
    // Another size replaces the announcement.
    upload(2, "a", 100).unwrap();
    assert_eq!(store.remove_uploads(&[2; 16]).unwrap(), 1);
}

#[test]
fn stale_uploads_are_removed() {
    let place = Scratch::new("cas-upload-stale");
    let store = open(&place);
    let digests = [b"old", b"new", b"far", b"use"].map(|name| Digest::of(name));
    for digest in &digests {
        store.upload(&OWNER, digest, 3).unwrap().append(0, &mut &b"x"[..]).unwrap();
    }
    let hour = 3_600_000_000_000;
    let now = tanto_sys::fs::file_stamp::coarse_now();
    let name = |digest: &Digest| format!("{}-{digest}-3", "07".repeat(16)).into_bytes();
    for (digest, time) in [(digests[0], now - 2 * hour), (digests[2], now + 2 * hour), (digests[3], now - 2 * hour)] {
        store.uploads.set_time(&name(&digest), time).unwrap();
    }
    place.write("store/uploads/hostile", "x");
    let in_use = store.upload(&OWNER, &digests[3], 3).unwrap();
    assert_eq!(store.remove_stale_uploads(Duration::from_secs(3600)).unwrap(), 2);
    drop(in_use);
    let mut left = store.uploads.names().unwrap();
    left.sort();
    let mut expected = vec![name(&digests[1]), name(&digests[3]), b"lock".to_vec()];
    expected.sort();
    assert_eq!(left, expected);
}
