//! Compares two runs of a command: from a checkpoint, and as a process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::process::Argv;

use super::output::{Output, Overflow};
use super::shell_split;
use crate::job::{Command, Exit};

/// Result of the first run.
pub(super) struct FirstRun {
    exit: Exit,
    printed: Vec<u8>,
    /// Output files; `None` for missing ones.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl FirstRun {
    pub(super) fn record(command: &Command, exit: Exit, output: &Output) -> FirstRun {
        let mut words = Argv::default();
        let files = match shell_split::split(&command.line, &mut words) {
            true => outputs_of(&words.iter().collect::<Vec<_>>()),
            false => Vec::new(),
        };
        let files = files.into_iter().map(|path| (fs::read(&path).ok(), path)).map(|(it, path)| (path, it)).collect();
        FirstRun { exit, printed: output.so_far(), files }
    }

    /// Compares the second run. Returns its exit or, if the runs differ, a failure that is explained in the output.
    pub(super) fn compare(&self, exit: Exit, output: &mut Output, overflow: Option<&Overflow>) -> Exit {
        let mut differences = Vec::new();
        if self.exit != exit {
            differences.push(format!("exit {:?} instead of {exit:?}", self.exit));
        }
        if self.printed != output.so_far() {
            differences.push("different output".to_owned());
        }
        let differ = self.files.iter().filter(|(path, content)| fs::read(path).ok() != *content);
        differences.extend(differ.map(|(path, _)| format!("{} differs", path.display())));
        if differences.is_empty() {
            return exit;
        }
        let message = format!(
            "tanto: error: the compile from a checkpoint differs from a full compile: {}\n",
            differences.join(", ")
        );
        output.push(message.as_bytes(), overflow);
        Exit::Code(1)
    }
}

/// Returns the object and depfile of a compile, as far as they are in its arguments.
fn outputs_of(words: &[&[u8]]) -> Vec<PathBuf> {
    let path = |word: &[u8]| PathBuf::from(OsStr::from_bytes(word));
    let after = |wanted: &[u8]| words.windows(2).find(|two| two[0] == wanted).map(|two| path(two[1]));
    let object = after(b"-o");
    let beside = object.as_deref().map(|object: &Path| object.with_extension("d"));
    object.into_iter().chain(after(b"-MF").or(beside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn differing_outputs_are_reported_and_fail() {
        let dir = Scratch::new("twin");
        let (object, depfile) = (dir.at("a.o"), dir.at("deps"));
        fs::write(&object, "object").unwrap();
        let line = format!("clang -c a.c -o {} -MF {}", object.display(), depfile.display());
        let command = Command { line: line.into(), ..Command::default() };
        let mut output = Output::new(None);
        output.push(b"warning", None);
        let first_run = FirstRun::record(&command, Exit::Code(0), &output);
        assert_eq!(first_run.compare(Exit::Code(0), &mut output, None), Exit::Code(0));
        assert_eq!(output.so_far(), b"warning");
        fs::write(&depfile, "a.o: a.c").unwrap();
        assert_eq!(first_run.compare(Exit::Code(0), &mut output, None), Exit::Code(1));
        let message = String::from_utf8(output.so_far()).unwrap();
        assert!(message.ends_with(&format!("full compile: {} differs\n", depfile.display())), "{message}");
        let mut output = Output::new(None);
        fs::remove_file(&depfile).unwrap();
        assert_eq!(first_run.compare(Exit::Code(1), &mut output, None), Exit::Code(1));
        assert!(
            String::from_utf8(output.so_far()).unwrap().contains("exit Code(0) instead of Code(1), different output")
        );
    }

    #[test]
    fn outputs_of_a_compile_are_found_in_its_arguments() {
        let made = |line: &str| outputs_of(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(made("clang -c a.c -o b/a.o"), paths(&["b/a.o", "b/a.d"]));
        assert_eq!(made("clang -c a.c -o b/a.o -MD -MF a.o.d"), paths(&["b/a.o", "a.o.d"]));
        assert_eq!(made("clang -c a.c"), paths(&[]));
    }
}
