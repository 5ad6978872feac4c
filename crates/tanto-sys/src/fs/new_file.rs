//! A file that gets its name when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, linkat};
use rustix::io::Errno;

/// Without a name, if the file system can give it one later: then nothing is left of it if this process is killed.
/// Otherwise with a temporary name beside the final one.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temp_path: Option<TempPath>,
}

/// Removes the file when it is dropped.
#[derive(Debug)]
struct TempPath(PathBuf);

/// An unnamed file could not get a name: `/proc` is missing, or the file system cannot link such files.
static LINKS_FAIL: AtomicBool = AtomicBool::new(false);

/// Makes temporary names unique within this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl NewFile {
    /// Creates a file for writing in the directory of `path`. The umask limits `mode`.
    pub fn create(path: &Path, mode: u32) -> io::Result<NewFile> {
        if let Some(file) = create_unnamed(path, mode) {
            return Ok(NewFile { file, temp_path: None });
        }
        let temp_path = path_beside(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temp_path)?;
        Ok(NewFile { file, temp_path: Some(TempPath(temp_path)) })
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name. Replaces a file that has it.
    pub fn publish(self, path: &Path) -> io::Result<File> {
        match self.temp_path {
            Some(temp_path) => temp_path.rename(path)?,
            None => name(&self.file, path)?,
        }
        Ok(self.file)
    }
}

impl TempPath {
    fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.0, to)?;
        self.0.clear();
        Ok(())
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.0);
        }
    }
}

fn path_beside(path: &Path) -> PathBuf {
    let mut temp_path = path.as_os_str().to_os_string();
    temp_path.push(format!(".tanto-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    temp_path.into()
}

fn create_unnamed(path: &Path, mode: u32) -> Option<File> {
    if LINKS_FAIL.load(Ordering::Relaxed) {
        return None;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = OpenOptions::new().write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(dir).ok()?;
    // Before Linux 6.0, the umask was ignored on some file systems.
    let is_limited = file.metadata().is_ok_and(|data| data.mode() & 0o777 != mode);
    is_limited.then_some(file)
}

fn name(file: &File, path: &Path) -> io::Result<()> {
    let linked = match link(file, path) {
        Err(Errno::EXIST) => {
            let temp_path = path_beside(path);
            link(file, &temp_path)?;
            return TempPath(temp_path).rename(path);
        }
        linked => linked,
    };
    LINKS_FAIL.fetch_or(linked.is_err(), Ordering::Relaxed);
    Ok(linked?)
}

fn link(file: &File, path: &Path) -> Result<(), Errno> {
    // A descriptor beside an empty path would need a capability.
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tanto_testing::Scratch;

    fn named(path: &Path) -> NewFile {
        let temp_path = path.with_extension("temp");
        let file = File::create_new(&temp_path).unwrap();
        NewFile { file, temp_path: Some(TempPath(temp_path)) }
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_complete() {
        let dir = Scratch::new("new-file");
        let path = dir.at("f");
        for create in [|path: &Path| NewFile::create(path, 0o666).unwrap(), named] {
            let mut new = create(&path);
            new.file().write_all(b"content").unwrap();
            assert!(!path.exists());
            new.publish(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"content");
            assert_eq!(fs::read_dir(dir.at(".")).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn it_has_the_permissions_of_any_new_file() {
        let dir = Scratch::new("new-file-mode");
        File::create(dir.at("usual")).unwrap();
        NewFile::create(&dir.at("new"), 0o666).unwrap().publish(&dir.at("new")).unwrap();
        let mode = |name: &str| fs::metadata(dir.at(name)).unwrap().mode();
        assert_eq!(mode("usual"), mode("new"));
    }

    #[test]
    fn nothing_is_left_of_a_file_without_a_name() {
        let dir = Scratch::new("new-file-dropped");
        drop(NewFile::create(&dir.at("f"), 0o666).unwrap());
        drop(named(&dir.at("f")));
        assert_eq!(fs::read_dir(dir.at(".")).unwrap().count(), 0);
    }

    #[test]
    fn it_replaces_a_file() {
        let dir = Scratch::new("new-file-taken");
        let path = dir.at("f");
        for create in [|path: &Path| NewFile::create(path, 0o666).unwrap(), named] {
            dir.write("f", "before");
            let mut new = create(&path);
            new.file().write_all(b"after").unwrap();
            new.publish(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"after");
            assert_eq!(fs::read_dir(dir.at(".")).unwrap().count(), 1);
        }
        fs::create_dir(dir.at("d")).unwrap();
        NewFile::create(&dir.at("d"), 0o666).unwrap().publish(&dir.at("d")).unwrap_err();
        assert_eq!(fs::read_dir(dir.at(".")).unwrap().count(), 2);
    }
}
