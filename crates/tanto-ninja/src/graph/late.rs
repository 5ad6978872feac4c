//! Late text: what the manifests say and hardly any build asks for (commands, above all) is left where it is, and read
//! when it is needed. Does not know what the text means.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use tanto_sys::file::path;
use tanto_sys::version::Version;

use crate::disk::State;
use crate::error::{Error, Result};

tanto_sys::plain! {
    /// A part of a manifest.
    #[derive(Default, Debug, PartialEq, Eq)]
    pub(crate) struct Span {
        /// The manifest's number.
        pub(crate) file: u32,
        /// In bytes from its beginning.
        pub(crate) at: u32,
        /// In bytes.
        pub(crate) len: u32,
    }
}

/// A manifest that was read.
pub(crate) struct Manifest {
    /// As the includer, or `-f`, names it.
    pub(crate) path: Vec<u8>,
    /// None for what is no regular file.
    pub(crate) state: Option<State>,
    pub(crate) text: Text,
}

/// Where a manifest's text is.
pub(crate) enum Text {
    /// Here.
    Kept(Vec<u8>),
    /// In the file, as long as that is the same as it was.
    OnDisk(OnceLock<Option<File>>),
}

/// All manifests of a graph.
#[derive(Default)]
pub(crate) struct Manifests(pub(crate) Vec<Manifest>);

impl Manifests {
    /// The path and the state of each, by number.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&[u8], &Option<State>)> {
        self.0.iter().map(|manifest| (&manifest.path[..], &manifest.state))
    }

    /// The text of a span. An error if the manifest is not the one that was loaded.
    pub(crate) fn read(&self, span: Span) -> Result<Cow<'_, [u8]>> {
        if span.len == 0 {
            return Ok(Cow::Borrowed(b""));
        }
        let text = self.0.get(span.file as usize).and_then(|manifest| manifest.read(span));
        text.ok_or_else(|| self.changed(span))
    }

    /// Appends the text of a span. It counts only if the manifest `is_unchanged` afterwards.
    pub(crate) fn read_into(&self, span: Span, text: &mut Vec<u8>) -> Result<()> {
        if span.len == 0 {
            return Ok(());
        }
        let read = self.0.get(span.file as usize).and_then(|manifest| manifest.read_into(span, text));
        read.ok_or_else(|| self.changed(span))
    }

    /// Is the manifest of this number the one that was loaded?
    pub(crate) fn is_unchanged(&self, file: u32) -> bool {
        self.0.get(file as usize).is_some_and(|manifest| manifest.is_unchanged().is_some())
    }

    fn changed(&self, span: Span) -> Error {
        let path = self.0.get(span.file as usize).map_or(&b"?"[..], |manifest| &manifest.path);
        Error::of(&[path, b": manifest changed during the build"])
    }
}

impl Manifest {
    fn read(&self, span: Span) -> Option<Cow<'_, [u8]>> {
        if let Text::Kept(text) = &self.text {
            return text.get(range(span)).map(Cow::Borrowed);
        }
        let mut text = Vec::new();
        self.read_into(span, &mut text)?;
        // Asked after the reading, so that a change before or during it is seen.
        self.is_unchanged()?;
        Some(Cow::Owned(text))
    }

    fn read_into(&self, span: Span, text: &mut Vec<u8>) -> Option<()> {
        if let Text::Kept(all) = &self.text {
            text.extend_from_slice(all.get(range(span))?);
            return Some(());
        }
        if u64::from(span.at) + u64::from(span.len) > self.state?.version.size {
            return None;
        }
        let start = text.len();
        text.resize(start + span.len as usize, 0);
        self.file()?.read_exact_at(&mut text[start..], u64::from(span.at)).ok()
    }

    fn is_unchanged(&self) -> Option<()> {
        match &self.text {
            Text::Kept(_) => Some(()),
            Text::OnDisk(_) => (Version::of(self.file()?).ok()? == self.state?.version).then_some(()),
        }
    }

    fn file(&self) -> Option<&File> {
        match &self.text {
            Text::Kept(_) => None,
            Text::OnDisk(file) => file.get_or_init(|| File::open(path(&self.path)).ok()).as_ref(),
        }
    }
}

fn range(span: Span) -> Range<usize> {
    span.at as usize..span.at as usize + span.len as usize
}
