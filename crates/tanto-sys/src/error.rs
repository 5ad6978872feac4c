//! Errors of system calls, with the call and its object.

use std::fmt;
use std::io;

/// A failed call and its object. Wrapped in an `io::Error` of the same kind.
#[derive(Debug)]
struct Refused {
    call: &'static str,
    about: Option<Vec<u8>>,
    why: io::Error,
}

impl Refused {
    fn text(&self) -> Vec<u8> {
        let mut text = self.call.as_bytes().to_vec();
        if let Some(about) = &self.about {
            text.push(b'(');
            text.extend_from_slice(about);
            text.push(b')');
        }
        text.extend_from_slice(b": ");
        text.extend_from_slice(&self::text(&self.why));
        text
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// Adds the name of the call to an error: its `text` becomes `call: cause` or `call(object): cause`. The kind stays.
pub fn call_error(call: &'static str, about: Option<&[u8]>, why: io::Error) -> io::Error {
    io::Error::new(why.kind(), Refused { call, about: about.map(<[u8]>::to_vec), why })
}

/// Returns whether the machine lacks a resource that other processes can free: processes, descriptors or memory.
pub fn is_resource_exhausted(error: &io::Error) -> bool {
    let why = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()).map_or(error, |refused| &refused.why);
    matches!(why.raw_os_error(), Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Returns the message of `strerror` (`No such file or directory`), without Rust's `(os error 2)`. A call added by
/// `call_error` comes first (`mkdir(a/b): Permission denied`).
pub fn text(error: &io::Error) -> Vec<u8> {
    if let Some(refused) = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()) {
        return refused.text();
    }
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).into(),
        None => text.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_c() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(text(&error), b"No such file or directory");
        assert_eq!(text(&io::Error::other("mine")), b"mine");
    }

    #[test]
    fn a_refused_call_is_named_and_keeps_its_kind() {
        let error = call_error("mkdir", Some(b"a/\xff"), io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(text(&error), b"mkdir(a/\xff): Permission denied");
        let error = call_error("pipe", None, io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(text(&error), b"pipe: Too many open files");
    }

    #[test]
    fn a_shortage_is_told_from_other_refusals() {
        let shortage = io::Error::from_raw_os_error(libc::EAGAIN);
        assert!(is_resource_exhausted(&shortage) && is_resource_exhausted(&call_error("posix_spawn", None, shortage)));
        assert!(
            !is_resource_exhausted(&io::Error::from_raw_os_error(libc::E2BIG))
                && !is_resource_exhausted(&io::Error::other("mine"))
        );
    }
}
