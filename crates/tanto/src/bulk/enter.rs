//! `tanto bulk enter`: how a stage's command comes into its sandbox. For Tanto itself; does not know packages.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tanto_exec::sandbox::{self, Entry, Place};

use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Runs a line in a sandbox, and ends as that does.
pub(super) fn run(args: &[Vec<u8>]) -> Stop {
    let Some(Asked { place, entry, line }) = read(args) else {
        return Stop::failed(Door::Tanto, "error", b"'tanto bulk enter' is for Tanto itself");
    };
    let code = match line {
        Some(line) => sandbox::enter(&place, &entry, &line),
        None => sandbox::leave(&place),
    };
    Stop { out: Vec::new(), err: Vec::new(), code: u8::try_from(code).unwrap_or(u8::MAX) }
}

struct Asked {
    place: Place,
    entry: Entry,
    /// None: the sandbox is not needed any more.
    line: Option<String>,
}

fn read(args: &[Vec<u8>]) -> Option<Asked> {
    let (mut place, mut entry, mut leaves) = (None, Entry::default(), false);
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let mut args = args.iter();
    for arg in args.by_ref() {
        let (name, value) = match arg.iter().position(|&byte| byte == b'=') {
            Some(at) => (&arg[..at], &arg[at + 1..]),
            None => (&arg[..], &b""[..]),
        };
        match name {
            b"--place" => place = Some(Place::new(path(value))),
            b"--fresh" => entry.fresh = true,
            b"--hook" => entry.hook = Some(String::from_utf8(value.to_vec()).ok()?),
            b"--network" => entry.network = true,
            b"--write" => entry.writes.push(path(value)),
            b"--leave" => leaves = true,
            b"--" => break,
            _ => return None,
        }
    }
    let line = args.next().map(|line| String::from_utf8(line.clone())).transpose().ok()?;
    (leaves != line.is_some()).then_some(Asked { place: place?, entry, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_entered_with_and_a_place_is_left() {
        let asked = |text: &str| read(&text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let entered = asked("--place=/p --fresh --hook=x --network --write=/a=b --write=/c -- make").unwrap();
        assert_eq!(entered.line.as_deref(), Some("make"));
        let writes = vec!["/a=b".into(), "/c".into()];
        assert_eq!(entered.entry, Entry { fresh: true, hook: Some("x".into()), network: true, writes });
        assert!(asked("--place=/p --leave").unwrap().line.is_none());
        for wrong in ["--place=/p", "-- make", "--place=/p --leave -- make", "--place=/p --odd -- make"] {
            assert!(asked(wrong).is_none(), "{wrong}");
        }
    }
}
