//! Fuzz targets for the formats of content: manifests of trees, packs, records of inputs, and tables of file contents.

use std::cmp::Ordering;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tanto_cas::manifest::{Manifest, ManifestLimits, path_order};
use tanto_cas::pack::{PackLimits, PackReader};
use tanto_cas::{BlobInfo, ContentDigest, Digest, FileDigest};
use tanto_exec::input_recorder::input_list::InputList;
use tanto_ninja::content::{Contents, PathKey};
use tanto_ninja::hash::rapidhash;
use tanto_sys::fs::fingerprint::{FileState, Fingerprint, Trust};
use tanto_sys::fs::stat::{FileKind, Stat};

use crate::targets::Target;

/// The file of what commands were run with.
pub(crate) const CONTENTS: Target = Target {
    name: "contents",
    tokens: &[b"TCT2", b"\x01", b"\x02", b"\0\0\0\0", b"\x01\0\0\0", b"\x02\0\0\0", b"\xff\xff\xff\xff"],
    head: 0,
    run: table,
};

/// The files of the action cache. The scratch file is a table of names.
pub(crate) const ACTION: Target = Target {
    name: "action",
    tokens: &[b"\x01", b"\x02", b"\0\0\0\0", b"\x01\0\0\0", b"\x80", b"\xff\xff\xff\xff"],
    head: 0,
    run: tanto_cache::parsers::read,
};

/// An accepted manifest is canonical, and its paths stay in the tree.
pub(crate) fn tree(input: &[u8], _: &Path) {
    let limits = ManifestLimits { entries: 20, ..ManifestLimits::default() };
    let Ok(manifest) = Manifest::parse(input, &limits) else { return };
    assert!(manifest.text() == input && manifest.digest() == Digest::of(input));
    assert!(manifest.entries().len() <= limits.entries && manifest.total_bytes() <= limits.total_bytes);
    for entry in manifest.entries() {
        let mut names = entry.path.split(|byte| *byte == b'/');
        assert!(names.all(|name| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0)));
    }
    for pair in manifest.entries().windows(2) {
        assert_eq!(path_order(&pair[0].path, &pair[1].path), Ordering::Less);
        assert!(!pair[1].path.starts_with(&[&pair[0].path[..], b"/"].concat()));
    }
    assert_eq!(Manifest::new(manifest.entries().to_vec(), &limits), Ok(manifest));
}

/// Each input has a line, whose fields are separated by tabs. A list is only complete if the record ends with a whole record.
pub(crate) fn record(input: &[u8], _: &Path) {
    let list = InputList::of(input);
    let text = list.text();
    assert_eq!(text.lines().count(), list.inputs().len());
    let fields = |line: &str| line == "calendar" || (1..=2).contains(&line.matches('\t').count());
    assert!(text.lines().all(fields));
    if list.missing().is_none() && !input.is_empty() {
        assert!(InputList::of(&input[..input.len() - 1]).missing().is_some());
    }
}

/// A blob that is read to its end has the announced digest and size, and the limits apply.
pub(crate) fn pack(input: &[u8], _: &Path) {
    let limits = PackLimits { blobs: 5, blob_bytes: 1_000, total_bytes: 2_000 };
    let mut pack = PackReader::new(input, limits);
    let (mut blobs, mut bytes) = (0, 0);
    while let Ok(Some(blob)) = pack.next_blob() {
        (blobs, bytes) = (blobs + 1, bytes + blob.size);
        assert!(blobs <= limits.blobs && blob.size <= limits.blob_bytes && bytes <= limits.total_bytes);
        let mut content = Vec::new();
        if pack.content(&blob).read_to_end(&mut content).is_err() {
            return;
        }
        assert_eq!(BlobInfo { digest: Digest::of(&content), size: content.len() as u64 }, blob);
    }
}

/// A table of file contents: the input as a file, or as the payload of a block that is intact, by its length.
fn table(bytes: &[u8], scratch: &Path) {
    let file = match bytes.len() % 3 {
        0 => bytes.to_vec(),
        1 => block(1, bytes),
        _ => [block(2, &[7; 32]), block(1, bytes)].concat(),
    };
    fs::write(scratch, &file).expect("the scratch file is writable");
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mut contents = Contents::new(vec![scratch.into()]);
    let (key, fingerprint) = (PathKey::of(b"a"), Fingerprint(1));
    let state = FileState { mtime: 1, fingerprint };
    let found = FileDigest {
        digest: ContentDigest::of(b"a"),
        state,
        stat: Stat { kind: FileKind::File, size: 1, mtime: 1, ctime: 1, device: 1, inode: 1, is_executable: false },
        trust: Trust::Known,
    };
    contents.table().note_file(key, &found);
    contents.save(scratch).expect("the scratch file is writable");
    let mut again = Contents::new(vec![scratch.into()]);
    assert_eq!(again.table().file(key).map(|entry| entry.digest), Some(found.digest));
    assert_eq!(again.table().len(), contents.table().len(), "what was read is written");
}

/// A block of a table's file with its checksum.
fn block(kind: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut block = [&b"TCT2"[..], &kind.to_le_bytes(), &length.to_le_bytes(), &1_u32.to_le_bytes(), &[0; 8]].concat();
    let sum = rapidhash(payload).wrapping_add(rapidhash(&block).rotate_left(1));
    block.extend_from_slice(&sum.to_le_bytes());
    block.extend_from_slice(payload);
    block
}
