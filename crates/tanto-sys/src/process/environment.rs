//! The environment of child processes.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::ptr::null;

/// Variables in the form that `exec` needs.
#[derive(Debug)]
pub struct Environment {
    /// `NAME=value` each.
    strings: Vec<CString>,
    /// Pointers to the strings, and a null pointer.
    pointers: Vec<*const libc::c_char>,
}

impl Environment {
    /// Copies the environment of this process and sets `extra`. Omits names and values with NUL bytes. Sets `PWD` to
    /// the current directory, as a shell does.
    pub fn inherit_with(extra: &[(OsString, OsString)]) -> Environment {
        let directory = directory().map(|directory| (OsString::from("PWD"), directory));
        let extra = || directory.iter().chain(extra);
        let is_extra = |name: &OsStr| extra().any(|(n, _)| n == name);
        let ours = env::vars_os().filter(|(name, _)| !is_extra(name));
        let strings: Vec<CString> = ours.chain(extra().cloned()).filter_map(string).collect();
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([null()]).collect();
        Environment { strings, pointers }
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.strings.iter().filter_map(|string| {
            let string = string.to_bytes();
            // A name may begin with `=`, as in `std::env`.
            let end = 1 + string.get(1..)?.iter().position(|&b| b == b'=')?;
            Some((&string[..end], &string[end + 1..]))
        })
    }

    /// Iterates over `NAME=value` strings.
    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        self.strings.iter().map(|string| string.to_bytes())
    }

    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(its, _)| *its == name).map(|(_, value)| value)
    }

    /// Sets a variable for future children. Ignores values with NUL bytes.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let text = [name.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        let Ok(string) = CString::new(text) else { return };
        let at = self.position(name).unwrap_or(self.strings.len());
        if at == self.strings.len() {
            self.pointers.insert(at, null());
            self.strings.push(string);
        } else {
            self.strings[at] = string;
        }
        self.pointers[at] = self.strings[at].as_ptr();
    }

    /// Removes a variable for future children.
    pub fn remove(&mut self, name: &str) {
        if let Some(at) = self.position(name) {
            self.pointers.remove(at);
            self.strings.remove(at);
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        let is_its = |it: &CString| it.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest[..1] == *b"=");
        self.strings.iter().position(is_its)
    }

    /// Returns a null-terminated array for `exec`, valid as long as the environment.
    pub(super) fn pointers(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }
}

fn string((name, value): (OsString, OsString)) -> Option<CString> {
    let mut string = name.into_vec();
    string.push(b'=');
    string.extend_from_slice(value.as_bytes());
    CString::new(string).ok()
}

/// Returns the current directory, as `PWD` if that is right (it may contain symbolic links).
fn directory() -> Option<OsString> {
    let pwd = env::var_os("PWD").filter(|pwd| pwd.as_bytes().starts_with(b"/") && is_here(pwd));
    pwd.or_else(|| env::current_dir().ok().map(OsString::from))
}

fn is_here(path: &OsStr) -> bool {
    match (fs::metadata(path), fs::metadata(".")) {
        (Ok(there), Ok(here)) => (there.dev(), there.ino()) == (here.dev(), here.ino()),
        _ => false,
    }
}
