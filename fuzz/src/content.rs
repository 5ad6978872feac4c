//! Fuzz targets for the formats of content: manifests of trees, packs, and records of inputs.

use std::cmp::Ordering;
use std::io::Read;
use std::path::Path;

use tanto_cas::manifest::{Manifest, ManifestLimits, path_order};
use tanto_cas::pack::{PackLimits, PackReader};
use tanto_cas::{BlobInfo, Digest};
use tanto_exec::input_recorder::input_list::InputList;

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
    assert!(text.lines().all(|line| (1..=2).contains(&line.matches('\t').count())));
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
