//! What the tests of runners share.

use std::path::PathBuf;

use tanto_testing::Scratch;

/// A named pipe in the directory: who reads it waits until somebody writes.
pub(crate) fn named_pipe(dir: &Scratch, name: &str) -> PathBuf {
    tanto_sys::ipc::token_pipe::make_fifo(&dir.at(name)).unwrap();
    dir.at(name)
}
