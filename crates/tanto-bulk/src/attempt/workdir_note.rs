//! The note of the work directory of a package that is built without a sandbox, to measure it and to remove it after a
//! killed build.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use crate::shell::quoted;

/// A file with the path of a work directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkdirNote {
    file: PathBuf,
}

impl WorkdirNote {
    pub fn new(file: PathBuf) -> WorkdirNote {
        WorkdirNote { file }
    }

    /// Returns a line that runs `line` and notes the last line of its output as the work directory.
    pub fn record_line(&self, line: &str) -> String {
        // A failed note, for example on a full disk, is no failure of the package.
        let keep = format!("printf '%s\\n' \"$out\" | tail -n 1 >{}", self.quoted());
        format!("out=$({line}); status=$?; printf '%s\\n' \"$out\"; {{ {keep}; }} 2>/dev/null; exit $status")
    }

    /// Returns a line that runs `line` and, on success, removes the note.
    pub fn forget_line(&self, line: &str) -> String {
        format!("{line} && rm -f {}", self.quoted())
    }

    /// Returns a shell word that expands to the work directory.
    pub fn word(&self) -> String {
        format!("\"$(cat {})\"", self.quoted())
    }

    fn quoted(&self) -> Cow<'_, str> {
        quoted(self.file.to_string_lossy())
    }

    /// Returns the work directory, if it is noted.
    pub fn get(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(&self.file).ok()?;
        // An incomplete note could name another directory.
        text.strip_suffix('\n').filter(|path| path.starts_with('/')).map(PathBuf::from)
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
        let place = Scratch::new("workdir-note");
        let [a, b] = ["it's a", "b"].map(|name| WorkdirNote::new(place.at(name)));
        assert_eq!(a.get(), None);
        let noted = run(&a.record_line("echo cleans; echo /there/a"));
        assert_eq!(noted, (Some(0), "cleans\n/there/a\n".into()), "the output is printed too");
        assert_eq!(run(&b.record_line("echo no path; exit 3")).0, Some(3));
        assert_eq!((a.get(), b.get()), (Some("/there/a".into()), None));
        assert_eq!(run(&format!("echo {}", a.word())).1, "/there/a\n");
        assert_eq!(run(&a.forget_line("false")).0, Some(1));
        assert!(a.get().is_some(), "the work directory may still exist");
        place.write("it's a", "/ther");
        assert_eq!(a.get(), None, "an incomplete note");
        assert_eq!(run(&a.forget_line("true")).0, Some(0));
        assert!(!place.at("it's a").exists());
        let nowhere = WorkdirNote::new(place.at("none/note"));
        assert_eq!(run(&nowhere.record_line("echo /there")).0, Some(0), "the note cannot be written");
    }
}
