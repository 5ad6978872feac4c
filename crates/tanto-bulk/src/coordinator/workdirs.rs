//! The table of work directories of packages that are built without a sandbox: the next build removes those that a killed
//! build left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::attempt::workdir_note::WorkdirNote;

/// The directory of the table, in the state directory. Each package has a note in it.
const NOTES: &str = "works";

/// The table in a state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workdirs {
    dir: PathBuf,
}

impl Workdirs {
    pub fn of(state: &str) -> Workdirs {
        Workdirs { dir: Path::new(state).join(NOTES) }
    }

    /// Takes over the note of an attempt, or forgets the package if there is none.
    pub fn update(&self, package: &str, note: &WorkdirNote) -> io::Result<()> {
        match note.get() {
            Some(workdir) => {
                fs::create_dir_all(&self.dir)?;
                fs::write(self.dir.join(package), format!("{}\n", workdir.display()))
            }
            None => self.forget(package),
        }
    }

    /// Returns the work directory of a package, if it is known.
    pub fn get(&self, package: &str) -> Option<PathBuf> {
        WorkdirNote::new(self.dir.join(package)).get()
    }

    /// Returns the packages in the table, sorted.
    pub fn all(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub fn forget(&self, package: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(package)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn table_follows_the_notes_of_attempts() {
        let place = Scratch::new("works");
        let workdirs = Workdirs::of(place.text());
        assert_eq!((workdirs.all().unwrap(), workdirs.get("a-1")), (vec![], None));
        let note = WorkdirNote::new(place.at("note"));
        workdirs.update("a-1", &note).unwrap();
        assert!(!place.at("works").exists());
        place.write("note", "/there/a\n");
        workdirs.update("b-1", &note).unwrap();
        workdirs.update("a-1", &note).unwrap();
        assert_eq!(workdirs.all().unwrap(), ["a-1", "b-1"]);
        assert_eq!(workdirs.get("a-1"), Some("/there/a".into()));
        place.write("works/b-1", "/ther");
        assert_eq!(workdirs.get("b-1"), None, "an incomplete note");
        std::fs::remove_file(place.at("note")).unwrap();
        workdirs.update("a-1", &note).unwrap();
        assert_eq!(workdirs.all().unwrap(), ["b-1"]);
        workdirs.forget("b-1").unwrap();
        assert!(workdirs.all().unwrap().is_empty());
    }
}
