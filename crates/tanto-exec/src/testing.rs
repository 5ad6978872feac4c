//! Helpers for tests.

use std::path::PathBuf;

use tanto_testing::Scratch;

/// Creates a named pipe; reading from it waits for a writer.
pub(crate) fn named_pipe(dir: &Scratch, name: &str) -> PathBuf {
    tanto_sys::ipc::token_pipe::make_fifo(&dir.at(name)).expect("make a named pipe");
    dir.at(name)
}
