//! The directory of an attempt, below the logs of its package: logs of stages, notes, kept archives and, without a sandbox,
//! the package file. On the host, an attempt writes only there, to its client's sandbox and, verified, to DISTDIR.

use std::fs;
use std::path::{Path, PathBuf};

use tanto_protocol::AttemptSpec;

use super::build_settings::BuildSettings;
use super::workdir_note::WorkdirNote;
use crate::config::Stage;

/// The archive of the work directory of a failed package.
pub const WRKDIR_ARCHIVE: &str = "wrkdir.tar.gz";
/// The archive of its prefix.
pub const PREFIX_ARCHIVE: &str = "prefix.tar.gz";
/// The size of the work directory in KiB, as `du` prints it.
const SIZE: &str = "size";
/// The path of the work directory.
const WORKDIR: &str = "workdir";

/// Returns the directory that contains those of a package's attempts.
pub fn package_dir(logs: &str, package: &str) -> PathBuf {
    Path::new(logs).join(package)
}

/// The directory of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptDir {
    path: PathBuf,
}

impl AttemptDir {
    pub fn new(settings: &BuildSettings, package: &str, attempt: u32) -> AttemptDir {
        AttemptDir { path: package_dir(&settings.logs, package).join(attempt.to_string()) }
    }

    pub fn of(settings: &BuildSettings, spec: &AttemptSpec) -> AttemptDir {
        AttemptDir::new(settings, &spec.name, spec.attempt)
    }

    /// Returns the directory of the last attempt that kept an archive. Earlier versions of Tanto kept it beside the logs.
    pub fn with_archive(logs: &str, package: &str) -> Option<AttemptDir> {
        let dir = package_dir(logs, package);
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let mut attempts: Vec<u32> = fs::read_dir(&dir).ok()?.flatten().filter_map(number).collect();
        attempts.sort_unstable_by_key(|&attempt| std::cmp::Reverse(attempt));
        let dirs = attempts.iter().map(|attempt| dir.join(attempt.to_string())).chain([dir.clone()]);
        let mut dirs = dirs.map(|path| AttemptDir { path });
        dirs.find(|it| [WRKDIR_ARCHIVE, PREFIX_ARCHIVE].iter().any(|name| it.file(name).is_file()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes files of an attempt with the same number, whose build was killed before it was recorded. A failure is not an
    /// error: files are replaced when they are written.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Writes the log of a stage and returns its name; empty if there is no output or it cannot be written, which is no
    /// failure of the package.
    pub fn write_log(&self, stage: Stage, output: &[u8]) -> String {
        if output.is_empty() {
            return String::new();
        }
        let name = format!("{}.log", stage.name());
        let written = fs::create_dir_all(&self.path).and_then(|()| fs::write(self.file(&name), output));
        written.map_or_else(|_| String::new(), |()| name)
    }

    /// The file for the size of the work directory, if there is no sandbox.
    pub fn size_file(&self) -> PathBuf {
        self.file(SIZE)
    }

    /// Returns the measured size of the work directory; 0 if it is unknown.
    pub fn measured_kib(&self) -> u64 {
        let text = fs::read_to_string(self.size_file()).unwrap_or_default();
        text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The note of the work directory, if there is no sandbox.
    pub fn workdir_note(&self) -> WorkdirNote {
        WorkdirNote::new(self.file(WORKDIR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn logs_of_each_attempt_have_their_own_directory() {
        let place = Scratch::new("attempt-dir");
        let settings = BuildSettings { logs: place.text().to_owned(), ..BuildSettings::default() };
        let [first, second] = [1, 2].map(|attempt| AttemptDir::new(&settings, "a-1", attempt));
        assert_eq!(first.write_log(Stage::Build, b"one"), "build.log");
        assert_eq!(second.write_log(Stage::Build, b"two"), "build.log");
        assert_eq!(second.write_log(Stage::Install, b""), "", "it printed nothing");
        assert_eq!(std::fs::read(place.at("a-1/1/build.log")).unwrap(), b"one");
        assert_eq!(std::fs::read(place.at("a-1/2/build.log")).unwrap(), b"two");
        second.clear();
        assert!(first.path().exists() && !second.path().exists());
        place.write("a-1/2", "a file");
        assert_eq!(second.write_log(Stage::Build, b"lost"), "", "it cannot be written");
    }

    #[test]
    fn archives_are_those_of_the_last_attempt_that_kept_any() {
        let place = Scratch::new("attempt-archives");
        let found = || AttemptDir::with_archive(place.text(), "a-1").map(|it| it.path().to_owned());
        assert_eq!(found(), None);
        place.write("a-1/12/build.log", "");
        assert_eq!(found(), None);
        place.write("a-1/wrkdir.tar.gz", "of an earlier version");
        assert_eq!(found(), Some(place.at("a-1")));
        place.write("a-1/9/prefix.tar.gz", "");
        place.write("a-1/10/wrkdir.tar.gz", "");
        place.write("a-1/x/wrkdir.tar.gz", "");
        assert_eq!(found(), Some(place.at("a-1/10")));
    }
}
