//! The contents of a tree as blobs, read from its directory.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tanto_sys::fs::dir::Dir;

use super::TreeError;
use super::error::called;
use super::scan::read_link;
use crate::digest::copy_hashed;
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

/// The content of a blob.
#[derive(Debug)]
pub enum TreeContent {
    /// It may change while it is read.
    File(File),
    Memory(Cursor<Vec<u8>>),
}

/// Files up to this size are read into memory.
const MAX_IN_MEMORY: u64 = 1 << 20;

impl Read for TreeContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            TreeContent::File(file) => file.read(buffer),
            TreeContent::Memory(bytes) => bytes.read(buffer),
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

    /// Opens a blob; `None` if the tree has none. Verifies it, because the tree may have changed since its scan.
    pub fn open(&self, digest: &Digest) -> Result<Option<TreeContent>, TreeError> {
        let Some(Place { mode, path, size }) = self.places.get(digest) else { return Ok(None) };
        let changed = || TreeError::Changing(path.clone());
        if *mode == TreeMode::Symlink {
            let target = called("readlink", path, read_link(&self.root, path))?;
            return in_memory(target, digest).map(Some).ok_or_else(changed);
        }
        let mut file = called("open", path, self.root.open_file(path))?;
        let data = file.metadata()?;
        if !data.is_file() || data.len() != *size {
            return Err(changed());
        }
        if *size <= MAX_IN_MEMORY {
            let mut bytes = Vec::with_capacity(*size as usize);
            called("read", path, file.take(*size).read_to_end(&mut bytes))?;
            return in_memory(bytes, digest).map(Some).ok_or_else(changed);
        }
        let found = called("read", path, copy_hashed(&mut file, &mut io::sink()))?;
        if found.digest != *digest {
            return Err(changed());
        }
        called("seek", path, file.rewind())?;
        Ok(Some(TreeContent::File(file)))
    }
}

fn in_memory(bytes: Vec<u8>, digest: &Digest) -> Option<TreeContent> {
    (Digest::of(&bytes) == *digest).then(|| TreeContent::Memory(Cursor::new(bytes)))
}
