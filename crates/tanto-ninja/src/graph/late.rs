//! Late text: what the manifests say and hardly any build asks for (commands, above all) is left where it is, and read
//! when it is needed. Does not know what the text means.

use std::borrow::Cow;
use std::fs::File;
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

    fn changed(&self, span: Span) -> Error {
        let path = self.0.get(span.file as usize).map_or(&b"?"[..], |manifest| &manifest.path);
        Error::of(&[path, b": manifest changed during the build"])
    }
}

impl Manifest {
    fn read(&self, span: Span) -> Option<Cow<'_, [u8]>> {
        let (at, len) = (span.at as usize, span.len as usize);
        match &self.text {
            Text::Kept(text) => text.get(at..at.checked_add(len)?).map(Cow::Borrowed),
            Text::OnDisk(file) => {
                let version = self.state?.version;
                let file = file.get_or_init(|| File::open(path(&self.path)).ok()).as_ref()?;
                let mut text = vec![0; len];
                file.read_exact_at(&mut text, at as u64).ok()?;
                // Asked after the reading, so that a change before or during it is seen.
                (Version::of(file).ok()? == version).then_some(Cow::Owned(text))
            }
        }
    }
}
