//! Tests of the store.

mod collect;
mod damage;
mod model;
mod processes;
mod upload;

use std::io::Read;

use tanto_testing::Scratch;

use super::*;

/// Limits without a time for which used blobs are kept.
pub(super) fn limits() -> StoreLimits {
    StoreLimits { keep_used: Duration::ZERO, ..StoreLimits::default() }
}

pub(super) fn open(place: &Scratch) -> Store {
    Store::open(&place.at("store"), limits()).unwrap()
}

pub(super) fn put(store: &Store, content: &[u8]) -> Digest {
    let digest = Digest::of(content);
    store.put(&mut &content[..], &digest, content.len() as u64, Durability::Process).unwrap();
    digest
}

pub(super) fn get(store: &Store, digest: &Digest) -> Option<Vec<u8>> {
    match store.read_to_vec(digest, u64::MAX) {
        Err(StoreError::Missing(_)) => None,
        content => Some(content.unwrap()),
    }
}

/// Nothing is in the store but blobs and its own directories, and no temporary file.
pub(super) fn check_clean(store: &Store) {
    assert!(store.temp.names().unwrap().is_empty());
    for blob in store.list().unwrap() {
        let content = get(store, &blob.info.digest).unwrap();
        assert_eq!(content.len() as u64, blob.info.size);
    }
}

#[test]
fn blobs_are_found_by_digest() {
    let place = Scratch::new("cas-put");
    let store = open(&place);
    for content in [&b""[..], b"one", &vec![5; 300_000]] {
        let digest = Digest::of(content);
        assert!(!store.contains(&digest).unwrap() && get(&store, &digest).is_none());
        let info = store.add(&mut &content[..], u64::MAX, Durability::PowerLoss).unwrap();
        assert_eq!((info.digest, info.size), (digest, content.len() as u64));
        assert!(store.contains(&digest).unwrap());
        let (mut file, size) = store.open_blob(&digest).unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert!(read == content && size == content.len() as u64);
    }
    let absent = Digest::of(b"absent");
    assert_eq!(store.missing([&Digest::of(b"one"), &absent]).unwrap(), [absent]);
    assert!(matches!(store.open_blob(&absent), Err(StoreError::Missing(digest)) if digest == absent));
    check_clean(&store);
    let again = open(&place);
    assert_eq!(get(&again, &Digest::of(b"one")).unwrap(), b"one");
}

#[test]
fn refused_blobs_leave_nothing() {
    struct Failing(usize);
    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))?;
            buffer.fill(1);
            Ok(buffer.len())
        }
    }
    let place = Scratch::new("cas-refused");
    let store = open(&place);
    let digest = Digest::of(b"announced");
    let put = |source: &mut dyn Read, limit| store.put(source, &digest, limit, Durability::Process);
    assert!(matches!(put(&mut &b"other"[..], 99), Err(StoreError::Mismatch { expected, .. }) if expected == digest));
    assert!(matches!(put(&mut &b"announced"[..], 8), Err(StoreError::TooLarge { limit: 8 })));
    assert!(matches!(put(&mut Failing(3), u64::MAX), Err(StoreError::Source(_))));
    assert!(!store.contains(&digest).unwrap());
    check_clean(&store);
    put(&mut &b"announced"[..], 9).unwrap();
}

#[test]
fn files_are_copied() {
    let place = Scratch::new("cas-file");
    let store = open(&place);
    place.write("f", "content");
    let (digest, other) = (Digest::of(b"content"), Digest::of(b"x"));
    let put = |name: &str, digest, limit| store.put_file(&place.at(name), digest, limit, Durability::Process);
    assert!(matches!(put("f", Some(&other), 99), Err(StoreError::Mismatch { .. })));
    assert!(matches!(put("f", None, 6), Err(StoreError::TooLarge { limit: 6 })));
    std::os::unix::fs::symlink("f", place.at("link")).unwrap();
    for name in ["link", "none", "store"] {
        assert!(matches!(put(name, None, 99), Err(StoreError::Source(_))), "{name}");
    }
    assert_eq!(put("f", Some(&digest), 7).unwrap().digest, digest);
    // A change of the file does not reach the blob.
    place.write("f", "changed");
    assert_eq!(get(&store, &digest).unwrap(), b"content");
    check_clean(&store);
}

#[test]
fn the_quota_applies() {
    let place = Scratch::new("cas-quota");
    let limits = StoreLimits { max_bytes: 10, ..limits() };
    let store = Store::open(&place.at("store"), limits).unwrap();
    let first = put(&store, b"12345678");
    // The same blob again needs no more space.
    put(&store, b"12345678");
    let add = |store: &Store| store.add(&mut &b"abc"[..], 99, Durability::Process);
    assert!(matches!(add(&store), Err(StoreError::Quota { limit: 10 })));
    let again = Store::open(&place.at("store"), limits).unwrap();
    assert!(matches!(add(&again), Err(StoreError::Quota { limit: 10 })));
    let collected = store.collect(store.begin_epoch().unwrap(), [], 0).unwrap();
    assert_eq!((collected.removed_blobs, collected.kept_blobs), (1, 0));
    add(&store).unwrap();
    assert!(get(&store, &first).is_none());
    // The other store learns of the removal when it collects.
    again.collect(again.begin_epoch().unwrap(), [Digest::of(b"abc")], 0).unwrap();
    put(&again, b"1234567");
}
