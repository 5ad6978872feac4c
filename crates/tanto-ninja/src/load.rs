//! From the text of all manifests to the graph. Does not know the logs, nor which files exist.

use bumpalo::Bump;

use crate::disk::Disk;
use crate::error::Result;
use crate::graph::Graph;

/// What the user may choose about the language.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadOptions {
    /// `-w phonycycle=err`: a phony edge that names itself is an error, not a warning.
    pub phony_cycle_is_error: bool,
}

/// Loads `manifest` and everything it includes. The error's text begins as ninja's does
/// (`build.ninja:3: expected '='...`). Warnings (phony cycles, a newer `ninja_required_version`) go to `warn`.
pub fn load<'t>(
    _arena: &'t Bump,
    _disk: &mut dyn Disk,
    _manifest: &[u8],
    _options: LoadOptions,
    _warn: &mut dyn FnMut(&[u8]),
) -> Result<Graph<'t>> {
    todo!()
}
