//! Records which files and variables a command looks at, found or not, with a library that is loaded into its programs.

pub mod input_list;
pub(crate) mod obstacle;
pub(crate) mod record;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::{mounts, private_files};
use tanto_sys::random;

use self::input_list::InputList;

/// The library, for programs of this machine's C library.
pub(crate) const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtanto-preload.so"));
/// The name of the file to which programs append.
const RECORD_VARIABLE: &str = "TANTO_RECORD";
pub(crate) const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// A longer record is not read, in bytes.
const MAX_RECORD: u64 = 256 << 20;

/// The files for recording the inputs of commands. They are removed at the end.
pub struct InputRecorder {
    dir: PathBuf,
}

impl InputRecorder {
    /// Creates the library in the directory for temporary files. Fails if the dynamic loader could not load it from
    /// there: it would print an error in each command.
    pub fn create() -> io::Result<InputRecorder> {
        let parent = std::env::temp_dir();
        if let Some(why) = reason_against(&parent) {
            return Err(io::Error::other(format!("{}: {why}", parent.display())));
        }
        let dir = parent.join(format!("tanto-record-{:016x}", u64::from_ne_bytes(random::bytes()?)));
        if !private_files::create_dir(&dir)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let recorder = InputRecorder { dir };
        private_files::create(&recorder.library())?.write_all(LIBRARY)?;
        Ok(recorder)
    }

    /// Returns the variable that loads the library into commands, beside the libraries that the user loads.
    pub fn preload(&self) -> (&'static str, OsString) {
        let mut libraries = OsString::from(self.library());
        if let Some(others) = std::env::var_os(PRELOAD_VARIABLE).filter(|it| !it.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        (PRELOAD_VARIABLE, libraries)
    }

    /// Creates the record of the command with this number. Returns the variable that names it.
    pub fn begin(&self, command: u32) -> io::Result<(&'static str, OsString)> {
        Ok((RECORD_VARIABLE, self.create_record(command)?.into()))
    }

    /// Creates the record of the command with this number.
    pub(crate) fn create_record(&self, command: u32) -> io::Result<PathBuf> {
        let record = self.record(command);
        match fs::remove_file(&record) {
            // Otherwise, a command that could not start is started again.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => private_files::create(&record)?,
        };
        Ok(record)
    }

    /// Returns the inputs of a command that has ended.
    pub fn end(&self, command: u32) -> InputList {
        let record = self.record(command);
        let list = match fs::metadata(&record) {
            Ok(found) if found.len() > MAX_RECORD => InputList::lost("its record has more than 256 MiB"),
            _ => {
                fs::read(&record).map_or_else(|_| InputList::lost("its record cannot be read"), |it| InputList::of(&it))
            }
        };
        // The directory is removed at the end.
        let _ = fs::remove_file(&record);
        list
    }

    fn library(&self) -> PathBuf {
        self.dir.join("libtanto-preload.so")
    }

    fn record(&self, command: u32) -> PathBuf {
        self.dir.join(command.to_string())
    }
}

/// Returns why libraries in a directory cannot be loaded with `LD_PRELOAD`.
fn reason_against(dir: &Path) -> Option<&'static str> {
    let bytes = dir.as_os_str().as_bytes();
    if !dir.is_absolute() {
        Some("the path of the directory for temporary files is not absolute")
    } else if bytes.iter().any(|byte| b" :$".contains(byte)) {
        Some("the path of the directory for temporary files has a space, a colon or a dollar sign")
    } else if mounts::forbids_programs(dir) {
        Some("no library can be loaded from the directory for temporary files (mount option noexec)")
    } else {
        None
    }
}

impl Drop for InputRecorder {
    fn drop(&mut self) {
        // It is in the directory for temporary files, which is emptied at times.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_has_to_be_able_to_load_the_library() {
        assert_eq!(reason_against(Path::new("/")), None);
        for dir in ["relative", "/with space", "/a:b", "/$LIB"] {
            assert!(reason_against(Path::new(dir)).is_some(), "{dir}");
        }
    }
}
