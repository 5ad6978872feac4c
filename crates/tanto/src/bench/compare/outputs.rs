//! Whether what commands leave behind is the same after each run. Does not know what it is.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::bytes::checksum;

/// So much of a file is read at a time.
const PIECE: usize = 1 << 20;

/// Paths, and what was there after the first run.
pub struct Outputs {
    paths: Vec<PathBuf>,
    first: Option<(String, Vec<u64>)>,
}

impl Outputs {
    /// Nothing seen yet.
    pub fn new(paths: &[PathBuf]) -> Outputs {
        Outputs { paths: paths.to_vec(), first: None }
    }

    /// After `run`. An error is a text for the user.
    pub fn check(&mut self, run: &str) -> Result<(), String> {
        let mut sums = Vec::new();
        for path in &self.paths {
            let sum = of(path)
                .map_err(|error| format!("--same {} cannot be read after {run}: {}", path.display(), words(&error)))?;
            sums.push(sum);
        }
        let Some((first, before)) = &self.first else {
            self.first = Some((run.to_owned(), sums));
            return Ok(());
        };
        match self.paths.iter().zip(before.iter().zip(&sums)).find(|(_, (before, now))| before != now) {
            Some((path, _)) => Err(format!("{} is not the same after {run} as after {first}", path.display())),
            None => Ok(()),
        }
    }
}

fn words(error: &io::Error) -> String {
    String::from_utf8_lossy(&tanto_sys::error::text(error)).into_owned()
}

/// Of a file's content, or of all files of a directory with their names.
fn of(path: &Path) -> io::Result<u64> {
    if !path.is_dir() {
        return of_file(path);
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable();
    let mut all = Vec::new();
    for name in entries {
        let below = path.join(&name);
        let kind = fs::symlink_metadata(&below)?.file_type();
        let sum = match () {
            () if kind.is_symlink() => checksum::of(fs::read_link(&below)?.as_os_str().as_bytes()).sum,
            () if kind.is_dir() || kind.is_file() => of(&below)?,
            // A pipe or a socket has no content.
            () => 0,
        };
        all.extend(checksum::of(name.as_bytes()).sum.to_le_bytes());
        all.extend(sum.to_le_bytes());
    }
    Ok(checksum::of(&all).sum)
}

fn of_file(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let (mut piece, mut all) = (Vec::new(), Vec::new());
    while file.by_ref().take(PIECE as u64).read_to_end(&mut piece)? > 0 {
        all.extend(checksum::of(&piece).sum.to_le_bytes());
        piece.clear();
    }
    Ok(checksum::of(&all).sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn a_changed_file_is_noticed() {
        let dir = Scratch::new("compare-outputs");
        dir.write("out/a/x", "1");
        dir.write("y", "2");
        let mut outputs = Outputs::new(&[dir.at("y"), dir.at("out")]);
        assert_eq!(outputs.check("run 1 of A"), Ok(()));
        assert_eq!(outputs.check("run 1 of B"), Ok(()));
        dir.write("out/a/x", "3");
        let why = outputs.check("run 2 of A").expect_err("it has changed");
        assert!(why.ends_with("/out is not the same after run 2 of A as after run 1 of A"), "{why}");
        fs::rename(dir.at("out/a/x"), dir.at("out/a/z")).expect("renamed");
        dir.write("out/a/z", "1");
        assert!(outputs.check("run 2 of B").is_err(), "a name is a difference");
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut outputs = Outputs::new(&["/nonexistent".into()]);
        let expected = "--same /nonexistent cannot be read after run 1 of A: No such file or directory";
        assert_eq!(outputs.check("run 1 of A"), Err(expected.into()));
    }

    #[test]
    fn a_large_file_is_read_in_pieces() {
        let dir = Scratch::new("compare-large");
        dir.write("x", "a".repeat(PIECE + 1));
        dir.write("y", "a".repeat(PIECE) + "b");
        assert_ne!(of(&dir.at("x")).expect("read"), of(&dir.at("y")).expect("read"));
        assert_eq!(of(&dir.at("x")).expect("read"), of(&dir.at("x")).expect("read"));
    }
}
