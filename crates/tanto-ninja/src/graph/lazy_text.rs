//! Text of manifests that is read on demand. Hardly any build needs all of it (commands, above all), so it stays in
//! the files.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError, RwLock};

use tanto_sys::error::is_resource_exhausted;
use tanto_sys::fs::file::path;
use tanto_sys::fs::file_stamp::FileStamp;

use crate::disk::SourceState;
use crate::error::{Error, Result};
use crate::flat::Slab;
use crate::hash::{self, Map};
use crate::syntax::statements::Span;

pub(crate) struct Manifest {
    /// As written in the including file, or given by `-f`.
    pub(crate) path: Vec<u8>,
    /// `None` if it is not a regular file.
    pub(crate) state: Option<SourceState>,
    /// Checksums of its blocks when it was loaded.
    pub(crate) checksums: Slab<u64>,
    pub(crate) text: ManifestText,
}

pub(crate) enum ManifestText {
    InMemory(Vec<u8>),
    /// In the file, as long as it is unchanged.
    OnDisk,
}

#[derive(Default)]
pub(crate) struct Manifests {
    pub(crate) list: Vec<Manifest>,
    open: OpenFiles,
}

impl Manifests {
    pub(crate) fn new(list: Vec<Manifest>) -> Self {
        Manifests { list, open: OpenFiles::default() }
    }

    /// Returns the text of a span. Fails if the manifest has changed since it was loaded.
    pub(crate) fn read(&self, span: Span) -> Result<Cow<'_, [u8]>> {
        if span.len == 0 {
            return Ok(Cow::Borrowed(b""));
        }
        if let Some(Manifest { text: ManifestText::InMemory(text), .. }) = self.list.get(span.file as usize) {
            return text.get(range(span)).map(Cow::Borrowed).ok_or_else(|| self.changed(span));
        }
        let mut text = Vec::new();
        self.read_into(span, &mut text)?;
        // Checked after reading, to notice a change before or during it.
        if self.is_unchanged(span.file) { Ok(Cow::Owned(text)) } else { Err(self.changed(span)) }
    }

    /// Appends the text of a span. It is valid only if `is_unchanged` returns true afterwards.
    pub(crate) fn read_into(&self, span: Span, text: &mut Vec<u8>) -> Result<()> {
        if span.len == 0 {
            return Ok(());
        }
        let Some(manifest) = self.list.get(span.file as usize) else { return Err(self.changed(span)) };
        let appended = match &manifest.text {
            ManifestText::InMemory(all) => all.get(range(span)).map(|part| text.extend_from_slice(part)),
            ManifestText::OnDisk => match self.open.get(span.file, &manifest.path) {
                Ok(file) => manifest.append(&file, &range(span), text),
                // The manifest may be unchanged: this process lacks resources to read it.
                Err(error) if is_resource_exhausted(&error) => return Err(manifest.unreadable(&error)),
                Err(_) => None,
            },
        };
        appended.ok_or_else(|| self.changed(span))
    }

    /// Returns true if the manifest has not changed since it was loaded.
    pub(crate) fn is_unchanged(&self, number: u32) -> bool {
        let Some(manifest) = self.list.get(number as usize) else { return false };
        match &manifest.text {
            ManifestText::InMemory(_) => true,
            ManifestText::OnDisk => {
                let file = self.open.get(number, &manifest.path);
                let now = file.and_then(|file| FileStamp::of(&file)).ok();
                now.is_some() && now == manifest.state.map(|state| state.stamp)
            }
        }
    }

    fn changed(&self, span: Span) -> Error {
        let path = self.list.get(span.file as usize).map_or(&b"?"[..], |manifest| &manifest.path);
        Error::ManifestChanged { path: path.into() }
    }
}

impl Manifest {
    fn unreadable(&self, error: &io::Error) -> Error {
        Error::new(&[&self.path, b": ", &tanto_sys::error::text(error)])
    }

    /// Appends these bytes of the file; `None` if the checksums of their blocks differ.
    fn append(&self, file: &File, wanted: &Range<usize>, text: &mut Vec<u8>) -> Option<()> {
        let size = usize::try_from(self.state?.stamp.size).ok()?;
        let blocks = wanted.start / hash::TEXT_BLOCK..wanted.end.div_ceil(hash::TEXT_BLOCK);
        if wanted.end > size || blocks.end > self.checksums.len() {
            return None;
        }
        let whole = blocks.start * hash::TEXT_BLOCK..(blocks.end * hash::TEXT_BLOCK).min(size);
        let start = text.len();
        text.resize(start + whole.len(), 0);
        file.read_exact_at(&mut text[start..], whole.start as u64).ok()?;
        if !hash::block_checksums(&text[start..]).eq(self.checksums.slice(blocks).iter().copied()) {
            return None;
        }
        let skipped = wanted.start - whole.start;
        text.copy_within(start + skipped..start + skipped + wanted.len(), start);
        text.truncate(start + wanted.len());
        Some(())
    }
}

fn range(span: Span) -> Range<usize> {
    span.at as usize..span.at as usize + span.len as usize
}

/// Number of files kept open. Fewer: manifests that are read alternately are opened repeatedly. More: too few
/// descriptors remain for commands; the limit is often 1,024.
const MAX_OPEN_FILES: usize = 64;

/// Open manifests by number.
#[derive(Default)]
struct OpenFiles(RwLock<Map<u32, Arc<File>>>);

impl OpenFiles {
    fn get(&self, number: u32, name: &[u8]) -> io::Result<Arc<File>> {
        if let Some(file) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(File::open(path(name))?);
        let mut files = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MAX_OPEN_FILES {
            files.clear();
        }
        Ok(Arc::clone(files.entry(number).or_insert(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    /// One manifest with this text.
    fn manifests(dir: &Scratch, text: &[u8]) -> Manifests {
        dir.write("m", text);
        let state = Some(SourceState { stamp: FileStamp::at(&dir.bytes("m")).unwrap(), text_hash: None });
        let checksums: Vec<u64> = hash::block_checksums(text).collect();
        Manifests::new(vec![Manifest {
            path: dir.bytes("m"),
            state,
            checksums: checksums.into(),
            text: ManifestText::OnDisk,
        }])
    }

    #[test]
    fn reads_spans_from_the_file() {
        let dir = Scratch::new("late");
        let text: Vec<u8> = (0..3 * hash::TEXT_BLOCK + 100).map(|at| (at % 251) as u8).collect();
        let manifests = manifests(&dir, &text);
        for (at, len) in [(0, 1), (0, 0), (4095, 2), (4096, 4096), (0, text.len()), (12_000, 388), (12_387, 1)] {
            let span = Span { file: 0, at: at as u32, len: len as u32 };
            assert_eq!(manifests.read(span).unwrap(), &text[at..at + len]);
            let mut more = b"before".to_vec();
            manifests.read_into(span, &mut more).unwrap();
            assert_eq!(more, [b"before", &text[at..at + len]].concat());
        }
        for (file, at, len) in [(0, 12_388, 1), (0, 0, 12_389), (1, 0, 1), (0, u32::MAX, 1)] {
            let error = manifests.read(Span { file, at, len }).unwrap_err().to_string();
            assert!(error.ends_with(": manifest changed during the build"), "{error}");
        }
    }

    #[test]
    fn changed_block_is_noticed_despite_equal_stamp() {
        let dir = Scratch::new("late-changed");
        let text = vec![b'x'; 3 * hash::TEXT_BLOCK];
        let mut other = text.clone();
        other[5000] = b'y';
        let mut manifests = manifests(&dir, &text);
        dir.write("m", &other);
        // As if both were written at the same moment.
        let stamp = FileStamp::at(&dir.bytes("m")).unwrap();
        manifests.list[0].state = Some(SourceState { stamp, text_hash: None });
        let read = |at, len| manifests.read(Span { file: 0, at, len });
        assert!(read(8000, 200).is_err());
        assert!(read(0, 4096).is_ok() && read(8192, 10).is_ok());
    }

    #[test]
    fn changed_file_is_noticed() {
        let dir = Scratch::new("late-other");
        let manifests = manifests(&dir, b"text");
        assert!(manifests.is_unchanged(0) && !manifests.is_unchanged(1));
        dir.write("m", "text and more");
        assert!(!manifests.is_unchanged(0));
        assert!(manifests.read(Span { file: 0, at: 0, len: 4 }).is_err());
    }

    #[test]
    fn number_of_open_files_is_limited() {
        let dir = Scratch::new("open");
        let open = OpenFiles::default();
        let count = || open.0.read().unwrap().len();
        for number in 0..3 * MAX_OPEN_FILES as u32 {
            dir.write(&number.to_string(), "");
            let name = dir.bytes(&number.to_string());
            let file = open.get(number, &name).unwrap();
            assert!(Arc::ptr_eq(&file, &open.get(number, &name).unwrap()));
            assert!((1..=MAX_OPEN_FILES).contains(&count()));
        }
        assert!(open.get(u32::MAX, &dir.bytes("none")).is_err());
    }
}
