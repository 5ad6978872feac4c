//! Errors of system calls, with the call and its object.

use std::fmt;
use std::io;

/// A failed call and its object. Wrapped in an `io::Error` of the same kind.
#[derive(Debug)]
struct CallError {
    call: &'static str,
    object: Option<Vec<u8>>,
    cause: io::Error,
}

impl CallError {
    fn text(&self) -> Vec<u8> {
        let mut text = self.call.as_bytes().to_vec();
        if let Some(object) = &self.object {
            text.push(b'(');
            text.extend_from_slice(object);
            text.push(b')');
        }
        text.extend_from_slice(b": ");
        text.extend_from_slice(&self::text(&self.cause));
        text
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Adds the name of the call to an error: its `text` becomes `call: cause` or `call(object): cause`. The kind stays.
pub fn call_error(call: &'static str, object: Option<&[u8]>, cause: io::Error) -> io::Error {
    io::Error::new(cause.kind(), CallError { call, object: object.map(<[u8]>::to_vec), cause })
}

/// Returns whether the machine lacks a resource that other processes can free: processes, descriptors or memory.
pub fn is_resource_exhausted(error: &io::Error) -> bool {
    let cause =
        error.get_ref().and_then(|inner| inner.downcast_ref::<CallError>()).map_or(error, |failed| &failed.cause);
    matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Returns the message of `strerror` (`No such file or directory`), without Rust's `(os error 2)`. A call added by
/// `call_error` comes first (`mkdir(a/b): Permission denied`).
pub fn text(error: &io::Error) -> Vec<u8> {
    if let Some(failed) = error.get_ref().and_then(|inner| inner.downcast_ref::<CallError>()) {
        return failed.text();
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
    fn messages_are_those_of_strerror() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(text(&error), b"No such file or directory");
        assert_eq!(text(&io::Error::other("mine")), b"mine");
    }

    #[test]
    fn an_error_names_its_call_and_keeps_its_kind() {
        let error = call_error("mkdir", Some(b"a/\xff"), io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(text(&error), b"mkdir(a/\xff): Permission denied");
        let error = call_error("pipe", None, io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(text(&error), b"pipe: Too many open files");
    }

    #[test]
    fn exhausted_resources_are_recognized() {
        let shortage = io::Error::from_raw_os_error(libc::EAGAIN);
        assert!(is_resource_exhausted(&shortage) && is_resource_exhausted(&call_error("posix_spawn", None, shortage)));
        assert!(
            !is_resource_exhausted(&io::Error::from_raw_os_error(libc::E2BIG))
                && !is_resource_exhausted(&io::Error::other("mine"))
        );
    }
}
