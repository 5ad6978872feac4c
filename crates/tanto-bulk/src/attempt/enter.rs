//! `tanto bulk enter`, which runs the command of a stage in its sandbox.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_exec::sandbox::{self, Entry, SandboxDir};

use super::layers::{self, LayerError, LayerRequest};

/// Runs a command in a sandbox. Returns its exit code, or `None` if the arguments are malformed.
pub fn run(args: &[Vec<u8>]) -> Option<i32> {
    let EnterArgs { place, entry, needs, action } = &read(args)?;
    Some(match (action, needs) {
        (Action::Line(line), None) => sandbox::enter(place, entry, line),
        (Action::Line(line), Some(needs)) => provide(place, entry, needs, line),
        (Action::Begin, _) => sandbox::mount_only(place, entry),
        (Action::Leave, _) => sandbox::unmount_only(place),
        (Action::Keep, _) => sandbox::keep(place, entry),
    })
}

/// Provides dependencies as layers; a command installs those that have none.
fn provide(place: &SandboxDir, entry: &Entry, needs: &Path, all: &str) -> i32 {
    let damaged = || io::Error::other("the list of dependencies is malformed");
    let request = fs::read_to_string(needs).and_then(|text| LayerRequest::read(&text).ok_or_else(damaged));
    match request.map_err(LayerError::Io).and_then(|request| layers::provide(place, &request)) {
        Ok(None) => sandbox::report_success(place),
        Ok(Some(line)) => sandbox::enter(place, entry, &line),
        Err(LayerError::Unsupported(why)) => {
            println!("tanto: pkg_add installs everything: {why}");
            sandbox::enter(place, entry, all)
        }
        Err(LayerError::Io(error)) => sandbox::report_fault(place, &error),
    }
}

struct EnterArgs {
    place: SandboxDir,
    entry: Entry,
    /// The file with the dependencies of the package.
    needs: Option<PathBuf>,
    action: Action,
}

#[derive(PartialEq, Eq, Debug)]
enum Action {
    /// Runs a command.
    Line(String),
    /// Mounts the sandbox.
    Begin,
    /// Removes the sandbox.
    Leave,
    /// Keeps the sandbox while this process runs.
    Keep,
}

fn read(args: &[Vec<u8>]) -> Option<EnterArgs> {
    let (mut place, mut entry, mut needs, mut action) = (None, Entry::default(), None, None);
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
            b"--leave" => action = Some(Action::Leave),
            b"--keep" => action = Some(Action::Keep),
            b"--" => break,
            _ => return None,
        }
    }
    let line = args.next().map(|line| String::from_utf8(line.clone())).transpose().ok()?;
    let action = match (action, line) {
        (None, None) if entry.fresh => Action::Begin,
        (action, None) => action?,
        (None, Some(line)) => Action::Line(line),
        (Some(_), Some(_)) => return None,
    };
    Some(EnterArgs { place: place?, entry, needs, action })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_enter_are_parsed() {
        let parse = |text: &str| read(&text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let entered = parse("--place=/a=b --fresh --hook=x --network --measure -- make").unwrap();
        assert_eq!(entered.action, Action::Line("make".into()));
        assert_eq!(entered.place, SandboxDir::new("/a=b"));
        let entry = Entry { fresh: true, hook: Some("x".into()), network: true, measures: true };
        assert_eq!(entered.entry, entry);
        assert_eq!(parse("--place=/p --fresh").unwrap().action, Action::Begin);
        assert_eq!(parse("--place=/p --needs=/n -- pkg_add").unwrap().needs, Some("/n".into()));
        assert_eq!(parse("--place=/p --leave").unwrap().action, Action::Leave);
        assert_eq!(parse("--keep --place=/p").unwrap().action, Action::Keep);
        for wrong in ["--place=/p", "-- make", "--place=/p --leave -- make", "--place=/p --odd -- make"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
