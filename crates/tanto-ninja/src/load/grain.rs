//! How finely the reading of manifests is divided among threads. Does not know what is read.

/// What decides who reads how much. The default fits everybody; tests take a finer grain, so that a little text goes
/// all the ways that a lot of it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grain {
    /// Files are read in parts of about so many bytes. Smaller, a file's parts cost more to put together; larger,
    /// threads wait for the last one.
    pub part: usize,
    /// So much text is worth another thread, in bytes: reading it takes some three times as long as starting one.
    /// Smaller, small builds start threads for nothing; larger, middling ones are read by one.
    pub worth_a_thread: usize,
    /// So many threads fit; None for as many as there are processors.
    pub threads: Option<usize>,
    /// What may turn out not to belong to the manifests is read all the same, if that saves time.
    pub bold: bool,
}

impl Default for Grain {
    fn default() -> Self {
        Grain { part: 1 << 20, worth_a_thread: 256 << 10, threads: None, bold: true }
    }
}
