//! Tests of packs.

use std::io::Read;

use tanto_testing::{Random, Scratch};

use super::*;
use crate::store::StoreLimits;

fn pack(blobs: &[&[u8]]) -> Vec<u8> {
    let mut writer = PackWriter::new(Vec::new());
    for content in blobs {
        let info = BlobInfo { digest: Digest::of(content), size: content.len() as u64 };
        writer.add(&info, &mut &content[..]).unwrap();
    }
    writer.finish().unwrap()
}

fn read(pack: &[u8], limits: PackLimits) -> Result<Vec<Vec<u8>>, PackError> {
    let mut reader = PackReader::new(pack, limits);
    let mut contents = Vec::new();
    while let Some(blob) = reader.next_blob()? {
        let mut content = Vec::new();
        reader.content(&blob).read_to_end(&mut content)?;
        contents.push(content);
    }
    Ok(contents)
}

#[test]
fn blobs_survive_a_pack() {
    let large = vec![b'\n'; 3 * CHUNK + 1];
    let blobs: [&[u8]; 4] = [b"one\n", b"", &large, b"end\n"];
    let packed = pack(&blobs);
    assert_eq!(read(&packed, PackLimits::default()).unwrap(), blobs);
    assert_eq!(read(&pack(&[]), PackLimits::default()).unwrap(), Vec::<Vec<u8>>::new());
    for length in (0..packed.len()).step_by(if packed.len() > 1000 { 997 } else { 1 }) {
        assert!(read(&packed[..length], PackLimits::default()).is_err(), "{length}");
    }
}

#[test]
fn skipped_blobs_are_not_verified() {
    let mut packed = pack(&[b"first", b"second"]);
    let at = packed.windows(5).position(|part| part == b"first").unwrap();
    packed[at] = b'F';
    assert!(read(&packed, PackLimits::default()).is_err());
    let mut reader = PackReader::new(&packed[..], PackLimits::default());
    reader.next_blob().unwrap().unwrap();
    let second = reader.next_blob().unwrap().unwrap();
    assert_eq!(second.digest, Digest::of(b"second"));
    let mut part = [0; 3];
    reader.content(&second).read_exact(&mut part).unwrap();
    assert!(reader.next_blob().unwrap().is_none() && reader.next_blob().unwrap().is_none());
}

#[test]
fn limits_apply() {
    let packed = pack(&[b"1234", b"5678"]);
    let exact = PackLimits { blobs: 2, blob_bytes: 4, total_bytes: 8 };
    assert!(read(&packed, exact).is_ok());
    assert!(matches!(read(&packed, PackLimits { blobs: 1, ..exact }), Err(PackError::TooManyBlobs(1))));
    assert!(matches!(read(&packed, PackLimits { blob_bytes: 3, ..exact }), Err(PackError::BlobTooLarge { .. })));
    assert!(matches!(read(&packed, PackLimits { total_bytes: 7, ..exact }), Err(PackError::TooLarge(7))));
}

#[test]
fn malformed_packs_are_refused() {
    let digest = Digest::of(b"x");
    for text in [
        "",
        "end",
        "end \n",
        "end\nx",
        "ending\n",
        &format!("{digest}\n"),
        &format!("{digest} 01\nxend\n"),
        &format!("{digest} 2\nxend\n"),
        &format!("{digest} 1 \nxend\n"),
        &format!("{digest}  1\nxend\n"),
        &"a".repeat(1_000_000),
    ] {
        assert!(read(text.as_bytes(), PackLimits::default()).is_err(), "{text:.99}");
    }
    assert!(read(format!("{digest} 1\nxend\n").as_bytes(), PackLimits::default()).is_ok());
}

#[test]
fn a_changed_file_breaks_the_pack_that_is_written() {
    let info = BlobInfo { digest: Digest::of(b"abc"), size: 3 };
    for changed in [&b"abd"[..], b"ab", b"abcd", b""] {
        let mut writer = PackWriter::new(Vec::new());
        assert!(matches!(writer.add(&info, &mut &changed[..]), Err(PackError::Changed(_))));
    }
}

#[test]
fn packs_are_unpacked_into_a_store() {
    let place = Scratch::new("cas-unpack");
    let store = Store::open(&place.at("s"), StoreLimits::default()).unwrap();
    let into = |packed: &[u8]| {
        let skipped = Digest::of(b"two");
        unpack(&mut &packed[..], PackLimits::default(), &store, Durability::Process, |blob| blob.digest != skipped)
    };
    let packed = pack(&[b"one", b"two", b"three"]);
    assert_eq!(into(&packed).unwrap(), 2);
    let present = [&b"one"[..], b"two", b"three"].map(|content| store.contains(&Digest::of(content)).unwrap());
    assert_eq!(present, [true, false, true]);
    let mut bad = packed.clone();
    let at = bad.windows(5).position(|part| part == b"three").unwrap();
    bad[at] = b'T';
    assert!(matches!(into(&bad), Err(PackError::Mismatch(digest)) if digest == Digest::of(b"three")));
    assert!(matches!(into(&packed[..at + 2]), Err(PackError::Truncated)));
}

#[test]
fn mutated_packs_never_yield_other_content() {
    let packed = pack(&[b"one", b"two\n", b"three"]);
    for seed in tanto_testing::seeds(2_000) {
        let mut random = Random::new(seed);
        let mut bytes = packed.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = random.number() as u8;
        }
        let mut reader = PackReader::new(&bytes[..], PackLimits::default());
        while let Ok(Some(blob)) = reader.next_blob() {
            let mut content = Vec::new();
            if reader.content(&blob).read_to_end(&mut content).is_err() {
                break;
            }
            assert_eq!(Digest::of(&content), blob.digest, "seed {seed}");
        }
    }
}
