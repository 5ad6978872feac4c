//! How finely the reading of manifests is divided among threads. Does not know what is read.

/// What decides who reads how much. The default fits everybody; tests take a finer grain, so that a little text goes
/// all the ways that a lot of it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParallelOptions {
    /// Files are read in parts of about so many bytes. Smaller, a file's parts cost more to put together; larger,
    /// threads wait for the last one.
    pub chunk_size: usize,
    /// So much text is worth another thread, in bytes: reading it takes some three times as long as starting one.
    /// Smaller, small builds start threads for nothing; larger, middling ones are read by one.
    pub bytes_per_thread: usize,
    /// So many threads fit; None for as many as there are processors.
    pub max_threads: Option<usize>,
    /// What may turn out not to belong to the manifests is read all the same, if that saves time.
    pub speculative: bool,
}

impl Default for ParallelOptions {
    fn default() -> Self {
        ParallelOptions { chunk_size: 1 << 20, bytes_per_thread: 256 << 10, max_threads: None, speculative: true }
    }
}
