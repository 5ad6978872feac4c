//! The work directories of packages that are built in the machine itself. Each is noted in a file while it may be there, so
//! that it is known how large it is, and what a killed build has left. Does not know what is done in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::shell::quoted;

/// Where notes are, below the state directory.
const NOTES: &str = "works";

/// All notes of a state directory.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Works {
    dir: PathBuf,
}

impl Works {
    /// Those of this state directory.
    pub fn of(state: &str) -> Works {
        Works { dir: Path::new(state).join(NOTES) }
    }

    /// The line that runs `line`, what this prints last being the package's work directory, and notes that.
    pub fn noting(&self, package: &str, line: &str) -> String {
        let (dir, note) = (quoted(&self.dir.to_string_lossy()), self.note(package));
        // What cannot be noted, since the disk is full, is no failure of the package.
        let keep = format!("mkdir -p {dir} && printf '%s\\n' \"$out\" | tail -n 1 >{note}");
        format!("out=$({line}); status=$?; printf '%s\\n' \"$out\"; {{ {keep}; }} 2>/dev/null; exit $status")
    }

    /// The line that runs `line`, after which there is no work directory any more.
    pub fn forgetting(&self, package: &str, line: &str) -> String {
        format!("{line} && rm -f {}", self.note(package))
    }

    /// The word for the shell that is the package's work directory.
    pub fn word(&self, package: &str) -> String {
        format!("\"$(cat {})\"", self.note(package))
    }

    fn note(&self, package: &str) -> String {
        quoted(&self.dir.join(package).to_string_lossy())
    }

    /// Where the package works, if that is noted.
    pub fn get(&self, package: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(self.dir.join(package)).ok()?;
        // One that is not whole could be that of another directory.
        text.strip_suffix('\n').filter(|path| path.starts_with('/')).map(PathBuf::from)
    }

    /// All packages of which something is noted, in the order of their names.
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

    /// Nothing is there any more.
    pub fn forget(&self, package: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(package))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tanto_testing::Scratch;

    fn run(line: &str) -> (Option<i32>, String) {
        let output = Command::new("/bin/sh").args(["-c", line]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn what_is_noted_is_known_until_it_is_gone() {
        let place = Scratch::new("works");
        let works = Works::of(place.text());
        assert_eq!((works.all().unwrap(), works.get("a-1")), (vec![], None));
        let noted = run(&works.noting("a-1", "echo cleans; echo /there/a"));
        assert_eq!(noted, (Some(0), "cleans\n/there/a\n".into()), "it is in the log too");
        assert_eq!(run(&works.noting("b-1", "echo no path; exit 3")).0, Some(3));
        assert_eq!((works.get("a-1"), works.get("b-1")), (Some("/there/a".into()), None));
        assert_eq!(works.all().unwrap(), ["a-1", "b-1"]);
        assert_eq!(run(&format!("echo {}", works.word("a-1"))).1, "/there/a\n");
        assert_eq!(run(&works.forgetting("a-1", "false")).0, Some(1));
        assert!(works.get("a-1").is_some(), "it may be there still");
        std::fs::write(place.at("works/a-1"), "/ther").unwrap();
        assert_eq!(works.get("a-1"), None, "it was torn");
        assert_eq!(run(&works.forgetting("a-1", "true")).0, Some(0));
        works.forget("b-1").unwrap();
        assert!(works.all().unwrap().is_empty());
    }
}
