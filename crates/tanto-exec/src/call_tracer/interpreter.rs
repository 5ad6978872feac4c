//! The programs that the kernel starts for a program: the interpreter of a script, or the dynamic loader.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tanto_sys::fs::file;

use crate::elf;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// A script; its interpreter.
    Script(Vec<u8>),
    /// A program; its dynamic loader, or none.
    Program(Option<Vec<u8>>),
    Unknown,
}

/// The kernel reads no more of the first line.
const MAX_LINE: u64 = 256;

pub(super) fn format(path: &Path) -> Format {
    let mut head = Vec::new();
    if File::open(path).and_then(|file| file.take(MAX_LINE).read_to_end(&mut head)).is_err() {
        return Format::Unknown;
    }
    if head.starts_with(b"\x7fELF") {
        return Format::Program(elf::loader(path).map(|loader| loader.as_os_str().as_bytes().to_vec()));
    }
    let Some(line) = head.strip_prefix(b"#!") else { return Format::Unknown };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_start();
    let interpreter = line.split(|byte| b" \t\0".contains(byte)).next().unwrap_or_default();
    if interpreter.is_empty() { Format::Unknown } else { Format::Script(interpreter.to_vec()) }
}

/// Returns the absolute path of an interpreter, whose path is relative to the working directory of the process.
pub(super) fn absolute(interpreter: &[u8]) -> Option<&Path> {
    interpreter.starts_with(b"/").then(|| file::path(interpreter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn formats_are_recognized() {
        let dir = Scratch::new("interpreter");
        for (text, expected) in [
            ("#!/bin/sh\n", Format::Script(b"/bin/sh".to_vec())),
            ("#! \t/usr/bin/env python3\n", Format::Script(b"/usr/bin/env".to_vec())),
            ("#!sh", Format::Script(b"sh".to_vec())),
            ("#!\nx", Format::Unknown),
            ("echo", Format::Unknown),
            ("", Format::Unknown),
        ] {
            dir.write("f", text);
            assert_eq!(format(&dir.at("f")), expected, "{text}");
        }
        let Format::Program(Some(loader)) = format(Path::new("/bin/sh")) else { panic!("no loader") };
        assert!(loader.starts_with(b"/"));
        assert_eq!(format(Path::new("/none")), Format::Unknown);
    }
}
