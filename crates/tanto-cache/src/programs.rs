//! Finds programs in PATH, and remembers them while no command runs.

use std::cell::RefCell;

use tanto_sys::fs::file;
use tanto_sys::process::find_program;

use crate::observer::{Map, last_component};

/// Paths of programs, by name.
type Found = Map<Box<[u8]>, Option<Vec<u8>>>;

#[derive(Default)]
pub(crate) struct Programs {
    found: RefCell<Found>,
}

impl Programs {
    /// Returns the program that a command of this name runs in `dir`. `path`: the value of PATH, always the same.
    pub(crate) fn find(&self, name: &[u8], path: &[u8], dir: &[u8]) -> Option<Vec<u8>> {
        if let Some(found) = self.found.borrow().get(name) {
            return found.clone();
        }
        let found = find_program(name, path, file::path(dir)).map(|path| path.into_os_string().into_encoded_bytes());
        self.found.borrow_mut().insert(name.into(), found.clone());
        found
    }

    /// A command has run. It may have created a program.
    pub(crate) fn forget(&self) {
        self.found.borrow_mut().clear();
    }

    /// Notes that a file was written while no command ran.
    pub(crate) fn file_was_written(&self, path: &[u8]) {
        if self.found.borrow().contains_key(last_component(path)) {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn a_program_that_a_command_made_is_found() {
        let dir = Scratch::new("cache-programs");
        dir.program("b/cc", "");
        let path = [dir.bytes("a"), dir.bytes("b")].join(&b':');
        let programs = Programs::default();
        let find = || programs.find(b"cc", &path, b"/");
        assert_eq!(find(), Some(dir.bytes("b/cc")));
        dir.program("a/cc", "");
        assert_eq!(find(), Some(dir.bytes("b/cc")), "no command has run");
        programs.forget();
        assert_eq!(find(), Some(dir.bytes("a/cc")));
        std::fs::remove_file(dir.at("a/cc")).unwrap();
        programs.file_was_written(b"out/ld");
        assert_eq!(find(), Some(dir.bytes("a/cc")));
        programs.file_was_written(b"out/cc");
        assert_eq!(find(), Some(dir.bytes("b/cc")));
    }
}
