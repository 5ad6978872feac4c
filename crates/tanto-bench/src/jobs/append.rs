//! `--append`: a text file to which several experiments append their runs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::experiment::{JobsRun, Setup};
use super::file::{FileError, text};
use crate::Error;

const MAX_BYTES: u64 = 64 << 20;

pub struct AppendFile {
    file: File,
    path: PathBuf,
}

impl AppendFile {
    /// Opens or creates the file. A new file starts with comments about the setup. Fails if the file contains timings of
    /// another command, or no timings.
    pub fn open(path: &Path, setup: &Setup) -> Result<AppendFile, Error> {
        let failed = |error| Error::write(path, &error);
        let refused = |error| Error::Append { path: path.into(), error };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut before = Vec::new();
        (&file).take(MAX_BYTES + 1).read_to_end(&mut before).map_err(failed)?;
        if before.len() as u64 > MAX_BYTES {
            return Err(refused(FileError::TooLarge));
        }
        // A line cut short by a crash could be read as another number.
        let whole = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        before.truncate(whole);
        if before.is_empty() {
            file.set_len(0).and_then(|()| file.write_all(text::head(setup, path).as_bytes())).map_err(failed)?;
        } else {
            check_title(&before, setup).map_err(refused)?;
            file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        }
        Ok(AppendFile { file, path: path.into() })
    }

    /// Appends a run durably.
    pub fn add(&mut self, run: &JobsRun) -> Result<(), Error> {
        let written = self.file.write_all(text::appended(run).as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::write(&self.path, &error))
    }
}

fn check_title(before: &[u8], setup: &Setup) -> Result<(), FileError> {
    let lines = String::from_utf8_lossy(before);
    let title = lines.lines().find_map(|line| line.strip_prefix("# Timings of ")).map(str::trim);
    let ours = setup.command.replace(['\n', '\r'], " ");
    match title {
        Some(title) if title == ours.trim() => Ok(()),
        Some(title) => Err(FileError::OtherCommand { found: title.into(), expected: ours }),
        None => Err(FileError::NoTitle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::experiment::tests::experiment;
    use crate::jobs::file::Timings;
    use tanto_testing::Scratch;

    #[test]
    fn several_experiments_share_a_file() {
        let dir = Scratch::new("bench-append");
        let path = dir.at("t.txt");
        for times in [[(1, 20.0), (4, 6.5)], [(1, 21.0), (4, 7.5)]] {
            let it = experiment(&times);
            let mut file = AppendFile::open(&path, &it.setup).expect("the same command");
            it.runs.iter().for_each(|run| file.add(run).expect("added"));
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text.matches("# Timings of make -j{jobs}\n").count(), 1, "{text}");
        assert!(text.contains("\n# Compiling with 1 simultaneous job\n1  20.000\n"), "{text}");
        assert!(text.ends_with("\n# Compiling with 4 simultaneous jobs\n4  7.500\n"), "{text}");
        let read = Timings::read(text.as_bytes()).expect("valid");
        assert_eq!(read.points, [(1, vec![20.0, 21.0]), (4, vec![6.5, 7.5])]);
    }

    #[test]
    fn torn_lines_are_dropped_and_other_files_refused() {
        let dir = Scratch::new("bench-append-other");
        let it = experiment(&[(2, 3.0)]);
        dir.write("torn", "# Timings of make -j{jobs}\n1  20.000\n4  12");
        AppendFile::open(&dir.at("torn"), &it.setup).and_then(|mut file| file.add(&it.runs[0])).expect("added");
        let text = std::fs::read_to_string(dir.at("torn")).expect("a file");
        assert_eq!(text, "# Timings of make -j{jobs}\n1  20.000\n# Compiling with 2 simultaneous jobs\n2  3.000\n");
        dir.write("other", "# Timings of ninja\n1 2\n");
        dir.write("prose", "Dear diary\n");
        for (name, expected) in
            [("other", "contains timings of 'ninja', not of 'make -j{jobs}'"), ("prose", "not a file of timings")]
        {
            let before = std::fs::read(dir.at(name)).expect("a file");
            let error = AppendFile::open(&dir.at(name), &it.setup).err().expect("refused").to_string();
            assert!(error.starts_with("--append ") && error.contains(expected), "{error}");
            assert_eq!(std::fs::read(dir.at(name)).expect("a file"), before);
        }
        assert!(AppendFile::open(&dir.at("no/x"), &it.setup).is_err());
    }
}
