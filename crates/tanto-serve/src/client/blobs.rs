//! Transfers of blobs. All of them continue where an earlier one broke off.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use tanto_cas::pack::{PackError, PackLimits, PackWriter, unpack};
use tanto_cas::store::Durability;
use tanto_cas::{BlobInfo, Store};
use tanto_protocol::{Digest, MAX_DIGESTS, MAX_PART, VERSION};
use ureq::Body;

use super::transport::Arrived;
use super::{ClientError, Connection, PATIENCE};

/// Longest list of digests in an answer, in bytes.
const MAX_MISSING: usize = MAX_DIGESTS * 72;
/// Longest compressed pack, in bytes.
const MAX_COMPRESSED: usize = 64 << 20;
/// Fast, and good for texts.
const LEVEL: i32 = 3;
/// Bytes of a file that show whether compression is worth it.
const SAMPLE: u64 = 64 << 10;
const CHUNK: usize = 64 << 10;

impl Connection {
    fn blob_path(&self, digest: &Digest) -> String {
        format!("/v{VERSION}/{}/cas/{digest}", self.build)
    }

    fn digests(&self, route: &str, digests: &[Digest], max: usize) -> Result<Vec<u8>, ClientError> {
        let body = serde_json::to_vec(digests).map_err(ClientError::protocol)?;
        self.transport().post(&format!("/v{VERSION}/{}/{route}", self.build), &body, max, PATIENCE)
    }

    /// Returns those that the server does not have. It keeps the others for an hour.
    pub fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, ClientError> {
        let mut missing: Vec<Digest> = Vec::new();
        for digests in digests.chunks(MAX_DIGESTS) {
            let answer = self.digests("missing", digests, MAX_MISSING)?;
            missing.extend(serde_json::from_slice::<Vec<Digest>>(&answer).map_err(ClientError::protocol)?);
        }
        Ok(missing)
    }

    /// Adds small blobs to a store, of at most `MAX_DIGESTS`. Returns how many came. The others are larger than a pack's
    /// blobs, did not fit, or are missing: ask for the rest again while some come, then for each with `get`.
    pub fn get_pack(&self, digests: &[Digest], store: &Store) -> Result<u64, ClientError> {
        let answer = self.digests("pack", &digests[..digests.len().min(MAX_DIGESTS)], MAX_COMPRESSED)?;
        let mut wanted: Vec<[u8; 32]> = digests.iter().map(|digest| digest.0).collect();
        wanted.sort_unstable();
        let mut pack = zstd::stream::Decoder::new(&answer[..])?;
        let is_wanted = |blob: &BlobInfo| wanted.binary_search(&blob.digest.0).is_ok();
        unpack(&mut pack, PackLimits::default(), store, Durability::Process, is_wanted).map_err(|error| match error {
            PackError::Store(error) => ClientError::File(io::Error::other(error)),
            error => ClientError::protocol(error),
        })
    }

    /// Reads a blob from the server into a file. What the file has already is the begin of the blob from an earlier call.
    /// Returns the size. After `Mismatch` the file is empty: once more, the server may have noticed its own damage.
    pub fn get(&self, digest: &Digest, path: &Path) -> Result<u64, ClientError> {
        read_blob(digest, path, u64::MAX, |from| self.transport().get(&self.blob_path(digest), from))
    }

    /// Reads a blob like `get`, but from the cache if one works. `size`: if it is known.
    pub fn get_cached(&self, digest: &Digest, size: Option<u64>, path: &Path) -> Result<u64, ClientError> {
        let Some(cache) = self.cache().filter(|cache| cache.is_ready(Instant::now())) else {
            return self.get(digest, path);
        };
        match size.or_else(|| self.size(digest)).map(|size| cache.get(digest, size, path)) {
            Some(Ok(Some(length))) => Ok(length),
            Some(Ok(None)) | None => self.get(digest, path),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// The size of a blob of the server.
    fn size(&self, digest: &Digest) -> Option<u64> {
        match self.transport().head(&self.blob_path(digest)) {
            Ok(Arrived::Whole { size }) => size,
            Ok(Arrived::Until(_)) | Err(_) => None,
        }
    }

    /// Uploads a file, from where an earlier call broke off.
    pub fn put(&self, digest: &Digest, path: &Path) -> Result<(), ClientError> {
        self.put_counted(digest, path, &|_| {})
    }

    /// Like `put`; calls `sent` with the number of bytes of each piece that is sent.
    pub fn put_counted(&self, digest: &Digest, path: &Path, sent: &dyn Fn(u64)) -> Result<(), ClientError> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let blob = self.blob_path(digest);
        let at = match self.transport().head(&format!("{blob}?size={size}"))? {
            Arrived::Whole { .. } => return Ok(()),
            Arrived::Until(at) => at.min(size),
        };
        if is_compressible(&mut file, at)? {
            return self.put_compressed(&blob, &mut file, (at, size), sent);
        }
        file.seek(SeekFrom::Start(at))?;
        let mut rest = Counted { from: (&mut file).take(size - at), sent };
        self.transport().patch(&format!("{blob}?at={at}&size={size}"), size - at, &mut rest)
    }

    /// Uploads the bytes of a file from an offset on, each part in a request of its own.
    fn put_compressed(
        &self,
        blob: &str,
        file: &mut File,
        (mut at, size): (u64, u64),
        sent: &dyn Fn(u64),
    ) -> Result<(), ClientError> {
        file.seek(SeekFrom::Start(at))?;
        while at < size {
            let mut part = Vec::new();
            (&mut *file).take(MAX_PART).read_to_end(&mut part)?;
            if part.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let compressed = zstd::stream::encode_all(&part[..], LEVEL)?;
            let mut body = Counted { from: &compressed[..], sent };
            let path = format!("{blob}?at={at}&size={size}");
            self.transport().patch_compressed(&path, compressed.len() as u64, &mut body)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Uploads small files in one request: at most `MAX_DIGESTS`, of at most `MAX_PACKED` bytes, and `MAX_PACK` in all.
    /// Calls `sent` with the number of bytes of each piece that is sent.
    pub fn put_pack(&self, files: &[(Digest, &Path)], sent: &dyn Fn(u64)) -> Result<(), ClientError> {
        let open = |(digest, path): &(Digest, &Path)| {
            let file = File::open(path)?;
            Ok((BlobInfo { digest: tanto_cas::Digest(digest.0), size: file.metadata()?.len() }, file))
        };
        self.put_blobs(files.iter().map(open), sent)
    }

    /// Like `put_pack`, of contents from anywhere.
    pub(super) fn put_blobs<R: Read>(
        &self,
        blobs: impl Iterator<Item = io::Result<(BlobInfo, R)>>,
        sent: &dyn Fn(u64),
    ) -> Result<(), ClientError> {
        let mut pack = PackWriter::new(zstd::stream::Encoder::new(Vec::new(), LEVEL)?);
        for blob in blobs {
            let (info, mut content) = blob?;
            pack.add(&info, &mut content).map_err(|error| ClientError::File(io::Error::other(error)))?;
        }
        let pack = pack.finish().map_err(|error| ClientError::File(io::Error::other(error)))?;
        let pack = pack.finish()?;
        let mut body = Counted { from: &pack[..], sent };
        self.transport().put(&format!("/v{VERSION}/{}/pack", self.build), pack.len() as u64, &mut body)
    }
}

/// Whether the bytes at an offset become at least a tenth shorter.
fn is_compressible(file: &mut File, at: u64) -> io::Result<bool> {
    let mut sample = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(SAMPLE).read_to_end(&mut sample)?;
    Ok(zstd::stream::encode_all(&sample[..], LEVEL)?.len() * 10 < sample.len() * 9)
}

/// Counts what is read.
struct Counted<'a, R> {
    from: R,
    sent: &'a dyn Fn(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        (self.sent)(read as u64);
        Ok(read)
    }
}

/// Reads a blob of at most `max` bytes into a file, which may have its begin. `ask` returns the blob from an offset, or from
/// its begin (`false`).
pub(super) fn read_blob(
    digest: &Digest,
    path: &Path,
    max: u64,
    ask: impl FnOnce(u64) -> Result<(Body, bool), ClientError>,
) -> Result<u64, ClientError> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut hasher = Sha256::new();
    let mut length = hash(&mut file, &mut hasher)?;
    // All of it may be there.
    if length > 0 && Digest(hasher.clone().finalize().into()) == *digest {
        return Ok(length);
    }
    let (body, continues) = match ask(length) {
        // The file is longer than the blob.
        Err(ClientError::Protocol(_)) if length > 0 => {
            file.set_len(0)?;
            return Err(ClientError::Mismatch(*digest));
        }
        body => body?,
    };
    if !continues {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        (hasher, length) = (Sha256::new(), 0);
    }
    // One byte more shows that the blob is too long.
    let body = body.into_with_config().limit(u64::MAX).reader();
    let left = max.saturating_sub(length).saturating_add(1);
    length += receive(&mut body.take(left), &mut file, &mut hasher)?;
    if Digest(hasher.finalize().into()) == *digest {
        return Ok(length);
    }
    file.set_len(0)?;
    Err(ClientError::Mismatch(*digest))
}

/// Hashes the file; leaves it at its end.
fn hash(file: &mut File, hasher: &mut Sha256) -> io::Result<u64> {
    let mut buffer = [0; CHUNK];
    let mut length = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(length),
            read => {
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

/// Fails with `Unreachable` if the body ends early: what came is kept.
fn receive(from: &mut dyn Read, to: &mut File, hasher: &mut Sha256) -> Result<u64, ClientError> {
    let mut buffer = [0; CHUNK];
    let mut length = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(length),
            Ok(read) => {
                to.write_all(&buffer[..read])?;
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ClientError::Unreachable(error.to_string())),
        }
    }
}
