//! Blobs that clients may read: those of the store, and files that coordinators provide.

mod provided;
mod pushed;
mod room;
mod roots;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tanto_cas::manifest::ManifestLimits;
use tanto_cas::pack::{PackError, PackLimits, PackWriter, unpack};
use tanto_cas::store::{Collected, Durability, Epoch, StoreLimits, Upload, UploadOwner};
use tanto_cas::tree::TreeBlobs;
use tanto_cas::{BlobInfo, Digest, Manifest, Store, StoreError};
use tanto_protocol::{MAX_DIGESTS, MAX_PACK, MAX_PACKED, PUSHED_TREES, PushedTree, ToServer};

use self::provided::{Content, Provided};
use self::pushed::PushedTrees;
use self::room::Room;
use self::roots::Roots;

pub(crate) use self::pushed::PushedTreeError;

/// Memory for the window of a compressed stream, as a power of two.
const MAX_WINDOW_LOG: u32 = 23;
pub(crate) const MAX_WINDOW: u64 = 1 << MAX_WINDOW_LOG;
/// Unfinished uploads are kept for this long.
const KEPT_UPLOADS: Duration = Duration::from_secs(24 * 3_600);

pub(crate) struct Blobs {
    room: Room,
    store: Store,
    roots: Roots,
    pushed: PushedTrees,
    provided: Mutex<Provided>,
}

/// The place of a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Store,
    Provided,
}

impl Blobs {
    /// Opens the store `blobs` in the server's directory.
    pub(crate) fn open(server_dir: &Path, limits: StoreLimits, reserve: u64) -> Result<Blobs, StoreError> {
        let dir = server_dir.join("blobs");
        let store = Store::open(&dir, limits)?;
        let roots = Roots::open(&server_dir.join("roots"))?;
        let pushed = PushedTrees::open(&server_dir.join(PUSHED_TREES))?;
        Ok(Blobs { room: Room::new(dir, reserve), store, roots, pushed, provided: Mutex::default() })
    }

    /// Notes the files that the coordinator of a build provides, and the blobs that it needs. Other messages are ignored.
    pub(crate) fn provide(&self, build: &str, message: ToServer) -> Result<(), String> {
        match message {
            ToServer::Provide { files } => self.provided().add_files(build, files),
            ToServer::ProvideTree { manifest, root } => {
                let digest = Digest(manifest.0);
                let tree = self.read_tree(build, digest, &root).map_err(|error| format!("tree {digest}: {error}"))?;
                self.provided().add_tree(build, digest, tree);
            }
            ToServer::Roots { epoch, digests } => {
                let digests: Vec<Digest> = digests.into_iter().map(|digest| Digest(digest.0)).collect();
                let set = self.roots.set(build, epoch, &digests);
                set.map_err(|error| format!("cannot store which blobs it needs: {error}"))?;
            }
            ToServer::Build { .. } | ToServer::Answer { .. } | ToServer::Gauges { .. } => {}
        }
        Ok(())
    }

    /// Reads a manifest, from the store or a provided file.
    fn read_tree(&self, build: &str, manifest: Digest, root: &Path) -> Result<TreeBlobs, String> {
        let limits = ManifestLimits::default();
        let found = self.read(build, manifest, 0).map_err(|error| error.to_string())?;
        let mut reader = found.ok_or("its manifest is missing")?;
        if reader.size > limits.text_bytes as u64 {
            return Err("its manifest is too long".to_owned());
        }
        let text = self.read_next(&mut reader, limits.text_bytes).map_err(|error| error.to_string())?;
        let manifest = Manifest::parse(&text, &limits).map_err(|error| error.to_string())?;
        TreeBlobs::new(root, &manifest).map_err(|error| error.to_string())
    }

    fn provided(&self) -> MutexGuard<'_, Provided> {
        self.provided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns those that are not there.
    pub(crate) fn missing(&self, build: &str, digests: &[Digest]) -> Result<Vec<Digest>, StoreError> {
        let mut missing = digests.to_vec();
        {
            let provided = self.provided();
            missing.retain(|digest| provided.size(build, digest).is_none());
        }
        self.store.missing(&missing)
    }

    /// Opens a blob for reading from an offset. One that is provided counts as not used in the store.
    pub(crate) fn read(&self, build: &str, digest: Digest, from: u64) -> Result<Option<BlobReader>, StoreError> {
        let (content, size, place) = match self.open_provided(build, &digest)? {
            Some((content, size)) => (content, size, Place::Provided),
            None => match self.store.open_blob(&digest) {
                Ok((file, size)) => (Content::File(file), size, Place::Store),
                Err(StoreError::Missing(_)) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let mut reader = BlobReader { build: build.to_owned(), digest, size, place, content, at: from, hasher: None };
        match from {
            0 => reader.hasher = Some(Sha256::new()),
            // The client verifies the whole.
            from => reader.skip(from.min(size)).map_err(StoreError::Source)?,
        }
        Ok(Some(reader))
    }

    /// Forgets a provided file that cannot be read or has another size.
    fn open_provided(&self, build: &str, digest: &Digest) -> Result<Option<(Content, u64)>, StoreError> {
        // Not while the files are locked: a disk may be slow.
        let Some(source) = self.provided().source(build, digest) else { return Ok(None) };
        match source.open(digest) {
            Ok(opened) => Ok(Some(opened)),
            Err(_) => {
                self.provided().forget(build, digest);
                Ok(None)
            }
        }
    }

    /// Reads the next bytes into the buffer, up to its capacity; none at the end. Fails if the content is another one; the
    /// blob is forgotten then.
    pub(crate) fn read_next(&self, reader: &mut BlobReader, max: usize) -> io::Result<Vec<u8>> {
        let left = reader.size.saturating_sub(reader.at);
        let mut chunk = Vec::with_capacity(max.min(usize::try_from(left).unwrap_or(max)));
        (&mut reader.content).take((max as u64).min(left)).read_to_end(&mut chunk)?;
        reader.at += chunk.len() as u64;
        let is_short = chunk.is_empty() && left > 0;
        if let Some(hasher) = &mut reader.hasher {
            hasher.update(&chunk);
        }
        let is_wrong =
            reader.at == reader.size && reader.hasher.take().is_some_and(|hasher| !is_digest(hasher, reader));
        if is_short || is_wrong {
            self.forget(reader);
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("blob {} has changed", reader.digest)));
        }
        Ok(chunk)
    }

    fn forget(&self, reader: &BlobReader) {
        match reader.place {
            Place::Provided => self.provided().forget(&reader.build, &reader.digest),
            Place::Store => {
                // Reading it moves a damaged blob away.
                if let Ok(mut damaged) = self.store.read_verified(&reader.digest) {
                    let _ = io::copy(&mut damaged, &mut io::sink());
                }
            }
        }
    }

    /// Packs those of the blobs that are there, small, and fit. Compressed with zstd.
    pub(crate) fn pack(&self, build: &str, digests: &[Digest]) -> io::Result<Vec<u8>> {
        let compressed = zstd::stream::Encoder::new(Vec::new(), 3)?;
        let mut pack = PackWriter::new(compressed);
        let mut left = MAX_PACK;
        for digest in digests {
            let Some(mut reader) = self.read(build, *digest, 0).map_err(io::Error::other)? else { continue };
            if reader.size > MAX_PACKED || reader.size > left {
                continue;
            }
            // Unreadable ones are left out: a broken pack would lose the others.
            let Ok(content) = self.read_next(&mut reader, MAX_PACKED as usize) else { continue };
            if content.len() as u64 != reader.size {
                continue;
            }
            left -= reader.size;
            let info = BlobInfo { digest: *digest, size: reader.size };
            pack.add(&info, &mut &content[..]).map_err(io::Error::other)?;
        }
        pack.finish().map_err(io::Error::other)?.finish()
    }

    /// Adds the blobs of a compressed pack. Returns their number.
    pub(crate) fn unpack(&self, compressed: &[u8]) -> Result<u64, PackError> {
        let mut content = zstd::stream::Decoder::new(compressed)?;
        content.window_log_max(MAX_WINDOW_LOG)?;
        let limits = PackLimits { blobs: MAX_DIGESTS as u64, blob_bytes: MAX_PACKED, total_bytes: MAX_PACK };
        unpack(&mut content, limits, &self.store, Durability::Process, |_| true)
    }

    /// Begins a collection. The builds name the blobs that they need after this.
    pub(crate) fn begin_epoch(&self) -> Result<Epoch, StoreError> {
        self.store.begin_epoch()
    }

    /// Whether a build has named the blobs that it needs in this epoch.
    pub(crate) fn has_roots(&self, build: &str, epoch: u64) -> bool {
        self.roots.has_answered(build, epoch)
    }

    /// Removes blobs that none of these builds needs and that were not used for a while.
    pub(crate) fn collect(&self, epoch: Epoch, builds: &HashSet<String>) -> Result<Collected, StoreError> {
        let mut roots = self.roots.of(builds)?;
        self.pushed.add_roots(&self.store, builds, &mut roots)?;
        self.store.collect(epoch, roots, 0)
    }

    /// Makes a tree that of a build. Returns the blobs that are missing; then nothing has changed.
    pub(crate) fn push_tree(&self, build: &str, tree: &PushedTree) -> Result<Vec<Digest>, PushedTreeError> {
        self.pushed.set(&self.store, build, tree)
    }

    /// Whether results of further packages may find no room.
    pub(crate) fn is_short(&self) -> bool {
        !self.has_room(0) || self.store.is_nearly_full()
    }

    /// Whether there is so much room on the disk besides the reserve.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.room.has(bytes)
    }

    /// Whether there was much more room a moment ago. Returns at once, while `has_room` and `is_short` access the disk.
    pub(crate) fn had_plenty_of_room(&self, bytes: u64) -> bool {
        self.room.had_plenty(bytes) && !self.store.is_nearly_full()
    }

    pub(crate) fn contains(&self, digest: &Digest) -> Result<bool, StoreError> {
        self.store.contains(digest)
    }

    /// Bytes of an upload that have arrived.
    pub(crate) fn uploaded(&self, owner: &UploadOwner, blob: &BlobInfo) -> Result<u64, StoreError> {
        self.upload(owner, blob).map(|upload| upload.length())
    }

    /// Adds bytes at an offset of an upload; the last ones end it. Returns the bytes that have arrived.
    pub(crate) fn append(
        &self,
        owner: &UploadOwner,
        blob: &BlobInfo,
        at: u64,
        bytes: &[u8],
    ) -> Result<u64, StoreError> {
        let mut upload = self.upload(owner, blob)?;
        let length = upload.append(at, &mut &bytes[..])?;
        if length == blob.size {
            upload.finish(Durability::Process)?;
        }
        Ok(length)
    }

    /// Opens an upload. Another request has it open for a moment only, unless it verifies the whole.
    fn upload(&self, owner: &UploadOwner, blob: &BlobInfo) -> Result<Upload<'_>, StoreError> {
        for _ in 0..100 {
            match self.store.upload(owner, &blob.digest, blob.size) {
                Err(StoreError::Busy(_)) => std::thread::sleep(Duration::from_millis(10)),
                opened => return opened,
            }
        }
        Err(StoreError::Busy(blob.digest))
    }

    pub(crate) fn remove_stale_uploads(&self) -> Result<(), StoreError> {
        self.store.remove_stale_uploads(KEPT_UPLOADS).map(drop)
    }
}

/// Decompresses bytes of a blob, of at most `limit`.
pub(crate) fn decompress(compressed: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let mut content = zstd::stream::Decoder::new(compressed)?;
    content.window_log_max(MAX_WINDOW_LOG)?;
    let mut bytes = Vec::new();
    content.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the content has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

fn is_digest(hasher: Sha256, reader: &BlobReader) -> bool {
    reader.digest == Digest(hasher.finalize().into())
}

/// A blob that is being read.
pub(crate) struct BlobReader {
    build: String,
    digest: Digest,
    size: u64,
    place: Place,
    content: Content,
    at: u64,
    /// If it is read from its begin.
    hasher: Option<Sha256>,
}

impl BlobReader {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match &mut self.content {
            Content::File(file) => seek(file, bytes),
            Content::Memory(content) => content.seek(SeekFrom::Start(bytes)).map(drop),
        }
    }
}

fn seek(file: &mut File, bytes: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(bytes)).map(drop)
}
