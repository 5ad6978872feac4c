//! Records the work directories of packages that are built without a sandbox, to measure them and to remove them after a
//! killed build.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::shell::quoted;

/// The directory of notes, in the state directory.
const NOTES: &str = "works";

/// The notes in a state directory.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Workdirs {
    dir: PathBuf,
}

impl Workdirs {
    pub fn of(state: &str) -> Workdirs {
        Workdirs { dir: Path::new(state).join(NOTES) }
    }

    /// Returns a line that runs `line` and notes the last line of its output as the work directory.
    pub fn record_line(&self, package: &str, line: &str) -> String {
        let (dir, note) = (quoted(&self.dir.to_string_lossy()), self.note(package));
        // A failed note, for example on a full disk, is no failure of the package.
        let keep = format!("mkdir -p {dir} && printf '%s\\n' \"$out\" | tail -n 1 >{note}");
        format!("out=$({line}); status=$?; printf '%s\\n' \"$out\"; {{ {keep}; }} 2>/dev/null; exit $status")
    }

    /// Returns a line that runs `line` and, on success, removes the note.
    pub fn forget_line(&self, package: &str, line: &str) -> String {
        format!("{line} && rm -f {}", self.note(package))
    }

    /// Returns a shell word that expands to the work directory.
    pub fn word(&self, package: &str) -> String {
        format!("\"$(cat {})\"", self.note(package))
    }

    fn note(&self, package: &str) -> String {
        quoted(&self.dir.join(package).to_string_lossy())
    }

    /// Returns the work directory, if it is noted.
    pub fn get(&self, package: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(self.dir.join(package)).ok()?;
        // An incomplete note could name another directory.
        text.strip_suffix('\n').filter(|path| path.starts_with('/')).map(PathBuf::from)
    }

    /// Returns the packages with a note, sorted.
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
    fn notes_last_until_the_work_directory_is_removed() {
        let place = Scratch::new("works");
        let workdirs = Workdirs::of(place.text());
        assert_eq!((workdirs.all().unwrap(), workdirs.get("a-1")), (vec![], None));
        let noted = run(&workdirs.record_line("a-1", "echo cleans; echo /there/a"));
        assert_eq!(noted, (Some(0), "cleans\n/there/a\n".into()), "the output is printed too");
        assert_eq!(run(&workdirs.record_line("b-1", "echo no path; exit 3")).0, Some(3));
        assert_eq!((workdirs.get("a-1"), workdirs.get("b-1")), (Some("/there/a".into()), None));
        assert_eq!(workdirs.all().unwrap(), ["a-1", "b-1"]);
        assert_eq!(run(&format!("echo {}", workdirs.word("a-1"))).1, "/there/a\n");
        assert_eq!(run(&workdirs.forget_line("a-1", "false")).0, Some(1));
        assert!(workdirs.get("a-1").is_some(), "the work directory may still exist");
        std::fs::write(place.at("works/a-1"), "/ther").unwrap();
        assert_eq!(workdirs.get("a-1"), None, "an incomplete note");
        assert_eq!(run(&workdirs.forget_line("a-1", "true")).0, Some(0));
        workdirs.forget("b-1").unwrap();
        assert!(workdirs.all().unwrap().is_empty());
    }
}
