//! Files that coordinators provide, by digest.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) use tanto_cas::tree::TreeContent as Content;

use tanto_cas::Digest;
use tanto_cas::tree::TreeBlobs;
use tanto_protocol::ProvidedFile;
use tanto_sys::fs::file::open_no_follow;

/// Most files of one build, without those of trees.
const MAX_FILES: usize = 1_000_000;
/// Most trees of one build. A retry provides another one while leases have the former.
const MAX_TREES: usize = 8;

#[derive(Default)]
pub(super) struct Provided {
    builds: HashMap<String, OfBuild>,
}

#[derive(Default)]
struct OfBuild {
    files: HashMap<Digest, (u64, PathBuf)>,
    /// By their manifests, the newest last.
    trees: Vec<(Digest, Arc<TreeBlobs>)>,
}

/// Where a provided blob is.
pub(super) enum Source {
    File { size: u64, path: PathBuf },
    Tree(Arc<TreeBlobs>),
}

impl Provided {
    pub(super) fn add_files(&mut self, build: &str, files: Vec<ProvidedFile>) {
        let of_build = self.builds.entry(build.to_owned()).or_default();
        for ProvidedFile { digest, size, path } in files {
            let digest = Digest(digest.0);
            if of_build.files.len() < MAX_FILES || of_build.files.contains_key(&digest) {
                of_build.files.insert(digest, (size, path));
            }
        }
    }

    pub(super) fn add_tree(&mut self, build: &str, manifest: Digest, tree: TreeBlobs) {
        let trees = &mut self.builds.entry(build.to_owned()).or_default().trees;
        trees.retain(|(other, _)| *other != manifest);
        trees.push((manifest, Arc::new(tree)));
        let surplus = trees.len().saturating_sub(MAX_TREES);
        trees.drain(..surplus);
    }

    pub(super) fn source(&self, build: &str, digest: &Digest) -> Option<Source> {
        let of_build = self.builds.get(build)?;
        if let Some((size, path)) = of_build.files.get(digest) {
            return Some(Source::File { size: *size, path: path.clone() });
        }
        let tree = of_build.trees.iter().rev().find(|(_, tree)| tree.get(digest).is_some());
        tree.map(|(_, tree)| Source::Tree(tree.clone()))
    }

    pub(super) fn size(&self, build: &str, digest: &Digest) -> Option<u64> {
        match self.source(build, digest)? {
            Source::File { size, .. } => Some(size),
            Source::Tree(tree) => tree.get(digest).map(|blob| blob.size),
        }
    }

    /// Trees are left as they are: another file of them may have the same content, and a changed tree is provided anew.
    pub(super) fn forget(&mut self, build: &str, digest: &Digest) {
        if let Some(of_build) = self.builds.get_mut(build) {
            of_build.files.remove(digest);
        }
    }
}

impl Source {
    /// Returns the content and its size.
    pub(super) fn open(&self, digest: &Digest) -> io::Result<(Content, u64)> {
        match self {
            Source::File { size, path } => {
                let file = open_no_follow(path)?;
                let data = file.metadata()?;
                let is_same = data.is_file() && data.len() == *size;
                if is_same { Ok((Content::File(file), *size)) } else { Err(io::ErrorKind::InvalidData.into()) }
            }
            Source::Tree(tree) => {
                let found = tree.open(digest).map_err(io::Error::other)?;
                let size = tree.get(digest).map(|blob| blob.size);
                let content = found.ok_or(io::ErrorKind::NotFound)?;
                check_size(&content, size.unwrap_or_default()).map(|size| (content, size))
            }
        }
    }
}

fn check_size(content: &Content, size: u64) -> io::Result<u64> {
    let length = match content {
        Content::File(file) => File::metadata(file)?.len(),
        Content::Memory(bytes) => bytes.get_ref().len() as u64,
    };
    if length == size { Ok(size) } else { Err(io::ErrorKind::InvalidData.into()) }
}
