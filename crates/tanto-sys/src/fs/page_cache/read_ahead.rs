//! The read-ahead of disks.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::call_error;

/// Changes the read-ahead of a disk until it is dropped.
#[derive(Debug)]
pub struct ReadAhead {
    file: PathBuf,
    before: String,
}

impl ReadAhead {
    /// Sets the read-ahead of the disk of a directory, in KiB. Fails if the directory is not on a disk, and without
    /// permission.
    pub fn set(dir: &Path, kib: u64) -> io::Result<ReadAhead> {
        ReadAhead::below(Path::new("/sys"), fs::metadata(dir)?.dev(), kib)
    }

    fn below(sys: &Path, device: u64, kib: u64) -> io::Result<ReadAhead> {
        let (major, minor) = (libc::major(device), libc::minor(device));
        let file = sys.join(format!("class/bdi/{major}:{minor}/read_ahead_kb"));
        let describe = |call: &'static str, error| call_error(call, Some(file.as_os_str().as_encoded_bytes()), error);
        let before = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                io::Error::new(ErrorKind::NotFound, "this directory is not on a disk with read-ahead")
            }
            _ => describe("read", error),
        })?;
        fs::write(&file, kib.to_string()).map_err(|error| describe("write", error))?;
        Ok(ReadAhead { file, before })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // The disk may be gone.
        let _ = fs::write(&self.file, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn read_ahead_is_changed_and_restored() {
        let sys = Scratch::new("read-ahead");
        sys.write("class/bdi/8:1/read_ahead_kb", "128\n");
        let read = || fs::read_to_string(sys.at("class/bdi/8:1/read_ahead_kb")).expect("it is there");
        let held = ReadAhead::below(sys.path(), libc::makedev(8, 1), 4096).expect("it can be set");
        assert_eq!(read(), "4096");
        drop(held);
        assert_eq!(read(), "128\n");
    }

    #[test]
    fn a_directory_without_a_disk_is_an_error() {
        let sys = Scratch::new("read-ahead-none");
        let error = ReadAhead::below(sys.path(), libc::makedev(0, 42), 4096).expect_err("there is none");
        assert_eq!(error.to_string(), "this directory is not on a disk with read-ahead");
    }
}
