//! `tanto bulk enter`: how a stage's command comes into its sandbox. For Tanto itself; does not know packages.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_bulk::attempt::layers::{self, Order, Trouble};
use tanto_exec::sandbox::{self, Entry, SandboxDir};

use crate::flags::door::Door;
use crate::flags::stop::Stop;

/// Runs a line in a sandbox, and ends as that does.
pub(crate) fn run(args: &[Vec<u8>]) -> Stop {
    let Some(asked) = read(args) else {
        return Stop::failed(Door::Tanto, "error", b"'tanto bulk enter' is for Tanto itself");
    };
    let Asked { place, entry, .. } = &asked;
    let code = match (&asked.what, &asked.needs) {
        (What::Line(line), None) => sandbox::enter(place, entry, line),
        (What::Line(line), Some(needs)) => provide(place, entry, needs, line),
        (What::Begin, _) => sandbox::begin(place, entry),
        (What::Leave, _) => sandbox::leave(place),
        (What::Keep, _) => sandbox::keep(place, entry),
    };
    Stop { out: Vec::new(), err: Vec::new(), code: u8::try_from(code).unwrap_or(u8::MAX) }
}

/// What a package needs comes as layers as far as it can; what cannot, a line installs.
fn provide(place: &SandboxDir, entry: &Entry, needs: &Path, all: &str) -> i32 {
    let damaged = || io::Error::other("what is needed is not told");
    let order = fs::read_to_string(needs).and_then(|text| Order::read(&text).ok_or_else(damaged));
    match order.map_err(Trouble::Machine).and_then(|order| layers::provide(place, &order)) {
        Ok(None) => sandbox::pass(place),
        Ok(Some(line)) => sandbox::enter(place, entry, &line),
        Err(Trouble::Odd(why)) => {
            println!("tanto: pkg_add installs everything: {why}");
            sandbox::enter(place, entry, all)
        }
        Err(Trouble::Machine(error)) => sandbox::fault(place, &error),
    }
}

struct Asked {
    place: SandboxDir,
    entry: Entry,
    /// Where it stands what the package needs.
    needs: Option<PathBuf>,
    what: What,
}

/// What is to be done with the sandbox.
#[derive(PartialEq, Eq, Debug)]
enum What {
    /// This is run in it.
    Line(String),
    /// It is mounted.
    Begin,
    /// It is not needed any more.
    Leave,
    /// It is there as long as we are.
    Keep,
}

fn read(args: &[Vec<u8>]) -> Option<Asked> {
    let (mut place, mut entry, mut needs, mut what) = (None, Entry::default(), None, None);
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let mut args = args.iter();
    for arg in args.by_ref() {
        let (name, value) = match arg.iter().position(|&byte| byte == b'=') {
            Some(at) => (&arg[..at], &arg[at + 1..]),
            None => (&arg[..], &b""[..]),
        };
        match name {
            b"--place" => place = Some(SandboxDir::new(path(value))),
            b"--fresh" => entry.fresh = true,
            b"--hook" => entry.hook = Some(String::from_utf8(value.to_vec()).ok()?),
            b"--network" => entry.network = true,
            b"--measure" => entry.measures = true,
            b"--needs" => needs = Some(path(value)),
            b"--leave" => what = Some(What::Leave),
            b"--keep" => what = Some(What::Keep),
            b"--" => break,
            _ => return None,
        }
    }
    let line = args.next().map(|line| String::from_utf8(line.clone())).transpose().ok()?;
    let what = match (what, line) {
        (None, None) if entry.fresh => What::Begin,
        (what, None) => what?,
        (None, Some(line)) => What::Line(line),
        (Some(_), Some(_)) => return None,
    };
    Some(Asked { place: place?, entry, needs, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_entered_with_and_a_place_is_left() {
        let asked = |text: &str| read(&text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let entered = asked("--place=/a=b --fresh --hook=x --network --measure -- make").unwrap();
        assert_eq!(entered.what, What::Line("make".into()));
        assert_eq!(entered.place, SandboxDir::new("/a=b"));
        let entry = Entry { fresh: true, hook: Some("x".into()), network: true, measures: true };
        assert_eq!(entered.entry, entry);
        assert_eq!(asked("--place=/p --fresh").unwrap().what, What::Begin);
        assert_eq!(asked("--place=/p --needs=/n -- pkg_add").unwrap().needs, Some("/n".into()));
        assert_eq!(asked("--place=/p --leave").unwrap().what, What::Leave);
        assert_eq!(asked("--keep --place=/p").unwrap().what, What::Keep);
        for wrong in ["--place=/p", "-- make", "--place=/p --leave -- make", "--place=/p --odd -- make"] {
            assert!(asked(wrong).is_none(), "{wrong}");
        }
    }
}
