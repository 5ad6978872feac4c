//! Tests with damaged and hostile files in the store.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn blob_file(place: &Scratch, digest: &Digest) -> PathBuf {
    place.at("store").join(std::str::from_utf8(&blob_path(digest)).unwrap())
}

fn overwrite(path: &Path, content: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn damaged_blobs_are_moved_away() {
    let place = Scratch::new("cas-flip");
    let store = open(&place);
    let content = vec![9; 200_000];
    for bit in [0, 800_000, 1_599_999] {
        let digest = put(&store, &content);
        let mut damaged = content.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        overwrite(&blob_file(&place, &digest), &damaged);
        let mut reader = store.read_verified(&digest).unwrap();
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidData && is_corrupt(&error));
        assert!(!store.contains(&digest).unwrap());
        assert_eq!(fs::read(place.at("store/bad").join(digest.to_string())).unwrap(), damaged);
    }
    for length in [1, 199_999, 200_001] {
        let digest = put(&store, &content);
        overwrite(&blob_file(&place, &digest), &vec![9; length]);
        assert!(matches!(store.read_to_vec(&digest, u64::MAX), Err(StoreError::Corrupt(_))), "{length}");
    }
    assert_eq!(put(&store, &content), Digest::of(&content));
    check_clean(&store);
}

#[test]
fn few_damaged_blobs_are_kept() {
    let place = Scratch::new("cas-bad");
    let store = open(&place);
    for number in 0..12_u8 {
        let digest = put(&store, &[number]);
        overwrite(&blob_file(&place, &digest), b"damaged");
        assert!(matches!(store.read_to_vec(&digest, 99), Err(StoreError::Corrupt(_))));
    }
    assert_eq!(store.bad.names().unwrap().len(), 8);
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_reader_does_not_move_the_blob_that_replaced_its_own() {
    let place = Scratch::new("cas-replaced");
    let store = open(&place);
    let digest = put(&store, b"content");
    overwrite(&blob_file(&place, &digest), b"CONTENT");
    let mut reader = store.read_verified(&digest).unwrap();
    put(&store, b"content");
    assert!(reader.read_to_end(&mut Vec::new()).is_err());
    assert_eq!(get(&store, &digest).unwrap(), b"content");
}

#[test]
fn an_empty_file_is_not_another_blob() {
    let place = Scratch::new("cas-empty");
    let store = open(&place);
    let digest = put(&store, b"content");
    overwrite(&blob_file(&place, &digest), b"");
    assert!(!store.contains(&digest).unwrap());
    put(&store, b"content");
    assert_eq!(get(&store, &digest).unwrap(), b"content");
}

#[test]
fn links_and_foreign_files_are_no_blobs() {
    let place = Scratch::new("cas-links");
    let store = open(&place);
    let digest = put(&store, b"content");
    let file = blob_file(&place, &digest);
    let shard = file.parent().unwrap();
    place.write("outside/f", "content");
    // A link in the place of the blob, to the right content.
    fs::remove_file(&file).unwrap();
    symlink(place.at("outside/f"), &file).unwrap();
    assert!(!store.contains(&digest).unwrap() && store.list().unwrap().is_empty());
    put(&store, b"content");
    assert!(!file.is_symlink() && place.at("outside/f").exists());
    // A directory.
    fs::remove_file(&file).unwrap();
    fs::create_dir_all(file.join("d")).unwrap();
    assert!(!store.contains(&digest).unwrap());
    put(&store, b"content");
    // A link in the place of the blob's directory.
    fs::rename(shard, place.at("elsewhere")).unwrap();
    symlink(place.at("elsewhere"), shard).unwrap();
    assert!(!store.contains(&digest).unwrap() && store.list().unwrap().is_empty());
    let epoch = store.begin_epoch().unwrap();
    store.collect(epoch, [], 0).unwrap();
    assert_eq!(fs::read_dir(place.at("elsewhere")).unwrap().count(), 1, "nothing is removed there");
    put(&store, b"content");
    assert!(shard.is_dir() && !shard.is_symlink());
    for name in ["zz", "x", "00", "0\n"] {
        place.write(&format!("store/{name}/hostile"), "x");
    }
    place.write("store/ff", "a file");
    place.write("store/temp/d/hostile", "x");
    symlink("/", place.at("store/temp/link")).unwrap();
    let store = open(&place);
    assert_eq!(store.list().unwrap().len(), 1);
    check_clean(&store);
    assert!(Path::new("/tmp").exists());
}
