//! Records which files and variables a command looks at, found or not, with a library that is loaded into its programs.

pub mod input_list;
mod record;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;

use tanto_sys::fs::private_files;
use tanto_sys::random;

use self::input_list::InputList;

/// The library, for programs of this machine's C library.
pub(crate) const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtanto-preload.so"));
/// The name of the file to which programs append.
const RECORD_VARIABLE: &str = "TANTO_RECORD";
pub(crate) const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// A longer record is not read, in bytes.
const MAX_RECORD: u64 = 256 << 20;

/// The files for recording one command. They are removed at the end.
pub struct InputRecorder {
    dir: PathBuf,
}

impl InputRecorder {
    /// Creates the files in the directory for temporary files.
    pub fn create() -> io::Result<InputRecorder> {
        let dir = std::env::temp_dir().join(format!("tanto-record-{:016x}", u64::from_ne_bytes(random::bytes()?)));
        if !private_files::create_dir(&dir)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let recorder = InputRecorder { dir };
        private_files::create(&recorder.library())?.write_all(LIBRARY)?;
        private_files::create(&recorder.record())?;
        Ok(recorder)
    }

    /// Loads the library into a command, beside those that the user loads.
    pub fn load_into(&self, command: &mut Command) {
        let mut libraries = OsString::from(self.library());
        if let Some(others) = std::env::var_os(PRELOAD_VARIABLE).filter(|it| !it.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        command.env(PRELOAD_VARIABLE, libraries).env(RECORD_VARIABLE, self.record());
    }

    /// Returns the inputs of a command that has ended.
    pub fn inputs(&self) -> io::Result<InputList> {
        let record = self.record();
        let size = fs::metadata(&record)?.len();
        if size > MAX_RECORD {
            return Err(io::Error::other(format!("the record has {size} bytes; the limit is {MAX_RECORD}")));
        }
        Ok(InputList::of(&fs::read(&record)?))
    }

    fn library(&self) -> PathBuf {
        self.dir.join("libtanto-preload.so")
    }

    fn record(&self) -> PathBuf {
        self.dir.join("record")
    }
}

impl Drop for InputRecorder {
    fn drop(&mut self) {
        // It is in the directory for temporary files, which is emptied at times.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
