//! The contents of a tree as blobs, read from its directory.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_sys::fs::dir::Dir;

use super::TreeError;
use super::error::called;
use super::scan::read_link;
use crate::manifest::TreeMode;
use crate::{BlobInfo, Digest, Manifest};

/// Finds the blobs of a tree.
#[derive(Debug)]
pub struct TreeBlobs {
    root: Dir,
    places: HashMap<Digest, Place, RandomState>,
}

/// The first entry with a blob.
#[derive(Debug)]
struct Place {
    size: u64,
    mode: TreeMode,
    path: Vec<u8>,
}

/// The content of a blob. It is not verified: the tree may have changed since its scan.
#[derive(Debug)]
pub enum TreeContent {
    File(File),
    Target(Cursor<Vec<u8>>),
}

impl Read for TreeContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            TreeContent::File(file) => file.read(buffer),
            TreeContent::Target(target) => target.read(buffer),
        }
    }
}

impl TreeBlobs {
    pub fn new(dir: &Path, manifest: &Manifest) -> Result<TreeBlobs, TreeError> {
        let root = called("open", dir.as_os_str().as_encoded_bytes(), Dir::open(dir))?;
        let mut places: HashMap<_, _, RandomState> = HashMap::default();
        for entry in manifest.entries().iter().filter(|entry| entry.mode != TreeMode::EmptyDir) {
            let place = || Place { size: entry.size, mode: entry.mode, path: entry.path.clone() };
            places.entry(entry.digest).or_insert_with(place);
        }
        Ok(TreeBlobs { root, places })
    }

    /// The blob with this digest; `None` if the tree has none.
    pub fn get(&self, digest: &Digest) -> Option<BlobInfo> {
        self.places.get(digest).map(|place| BlobInfo { digest: *digest, size: place.size })
    }

    /// Opens a blob; `None` if the tree has none.
    pub fn open(&self, digest: &Digest) -> Result<Option<TreeContent>, TreeError> {
        let Some(Place { mode, path, .. }) = self.places.get(digest) else { return Ok(None) };
        if *mode == TreeMode::Symlink {
            let target = called("readlink", path, read_link(&self.root, path))?;
            return Ok(Some(TreeContent::Target(Cursor::new(target))));
        }
        let file = called("open", path, self.root.open_file(path))?;
        if !file.metadata()?.is_file() {
            return Err(TreeError::Changing(path.clone()));
        }
        Ok(Some(TreeContent::File(file)))
    }
}
