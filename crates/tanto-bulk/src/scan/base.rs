//! What all answers of a scan have in common: the system below, the environment, `mk.conf`. Does not know who asks for
//! it, nor which of it makes a difference to whom.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tanto_sys::file;

use super::files::{Files, Print, stamp};
use super::sight::{self, Sight};
use crate::config::Config;

/// Raised when what goes into a key changes.
const VERSION: &[u8] = b"tanto scan 1";
/// What a terminal or a shell changes from one call to the next. Scans do without, and so need not be made again.
pub(super) const VOLATILE: [&str; 15] = [
    "SHLVL",
    "OLDPWD",
    "TERM",
    "COLUMNS",
    "LINES",
    "WINDOWID",
    "COLORTERM",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "DISPLAY",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "XDG_SESSION_ID",
];
/// The shell sets these itself.
const SHELLS: [&str; 2] = ["_", "PWD"];
/// How the kernel calls itself.
const KERNEL: [&[u8]; 2] = [b"/proc/sys/kernel/ostype", b"/proc/sys/kernel/osrelease"];
/// `builtin.mk` files look for headers in here, at any depth.
const HEADERS: [&str; 2] = ["/usr/include", "/usr/local/include"];
/// And for libraries, programs and what describes them in here.
const OTHERS: [&str; 12] = [
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/pkgconfig",
    "/usr/share/pkgconfig",
    "/usr/local/lib/pkgconfig",
];
/// Deeper there is nothing but accidents.
const DEEPEST: usize = 12;

/// The digest of all of it.
pub(super) fn print(config: &Config, sight: &Sight, files: &mut Files) -> Print {
    let mut hash = Sha256::new_with_prefix(VERSION);
    add_environment(&mut hash, std::env::vars_os().collect());
    for path in KERNEL {
        hash.update(fs::read(file::path(path)).unwrap_or_default());
    }
    hash.update(std::env::consts::ARCH);
    if let Some((root, kit)) = sight.sandbox() {
        hash.update([b"in a sandbox\0", root, b"\0"].concat());
        kit.iter().for_each(|kit| add_kit(&mut hash, kit));
    }
    for path in settings(config).iter().filter_map(|path| sight.real(path)) {
        let id = files.file(path.as_os_str().as_bytes());
        hash.update(files.seen(id).print);
        // Our own state may be made beside it. Whoever looks at that directory only later cannot tell what was changed.
        path.parent().map(|dir| files.listing(dir.as_os_str().as_bytes()));
    }
    hash.update(config.make.as_bytes());
    if config.make.contains('/') {
        sight.real(Path::new(&config.make)).iter().for_each(|make| add(&mut hash, make));
    }
    let real = |dir: &Path| sight.real(dir).unwrap_or_default();
    HEADERS.iter().for_each(|dir| add_tree(&mut hash, &real(Path::new(dir)), DEEPEST));
    libraries().iter().for_each(|dir| add_tree(&mut hash, &real(dir), 1));
    hash.finalize().into()
}

/// What an empty prefix is made from: an archive, or a directory.
fn add_kit(hash: &mut Sha256, kit: &Path) {
    add(hash, kit);
    add_tree(hash, kit, DEEPEST);
}

fn add_environment(hash: &mut Sha256, mut environment: Vec<(OsString, OsString)>) {
    environment.retain(|(name, _)| !SHELLS.iter().chain(&VOLATILE).any(|it| name == it));
    environment.sort_unstable();
    for (name, value) in environment {
        hash.update([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    }
}

/// Where `mk.conf` may be.
fn settings(config: &Config) -> Vec<PathBuf> {
    let usual = [PathBuf::from("/etc/mk.conf"), Path::new(&config.prefix).join("etc/mk.conf")];
    sight::settings().into_iter().chain(usual).collect()
}

/// Debian's libraries are a directory deeper, by the kind of machine.
fn libraries() -> Vec<PathBuf> {
    let of_machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let deeper = [PathBuf::from(&of_machine), Path::new(&of_machine).join("pkgconfig")];
    OTHERS.iter().map(PathBuf::from).chain(deeper).collect()
}

/// Everything in a directory, so many levels down, by what tells a file that was changed from one that was not.
fn add_tree(hash: &mut Sha256, dir: &Path, levels: usize) {
    let mut names: Vec<OsString> = fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.file_name()).collect();
    names.sort_unstable();
    for name in names {
        let path = dir.join(name);
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir());
        match (is_dir, levels) {
            (true, 2..) => add_tree(hash, &path, levels - 1),
            // What is in it is not looked for.
            (true, _) => hash.update(path.as_os_str().as_bytes()),
            (false, _) => add(hash, &path),
        }
    }
}

fn add(hash: &mut Sha256, path: &Path) {
    hash.update(path.as_os_str().as_bytes());
    match fs::metadata(path).map(|data| stamp(&data)) {
        Ok(it) => {
            hash.update(it.inode.to_le_bytes());
            hash.update(it.bytes.to_le_bytes());
            hash.update(it.mtime_ns.to_le_bytes());
        }
        Err(_) => hash.update([0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn the_environment_counts_but_for_what_terminals_change() {
        let print = |pairs: &[(&str, &str)]| {
            let mut hash = Sha256::new();
            add_environment(&mut hash, pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect());
            hash.finalize()
        };
        let first = print(&[("A", "1"), ("B", "2"), ("TERM", "x"), ("PWD", "/a")]);
        assert_eq!(first, print(&[("PWD", "/b"), ("B", "2"), ("A", "1")]));
        assert_ne!(first, print(&[("A", "1"), ("B", "3")]));
    }

    #[test]
    fn a_header_that_comes_goes_or_changes_is_seen() {
        let place = Scratch::new("scan-base");
        place.write("include/deep/zlib.h", "1.2");
        let print = || {
            let mut hash = Sha256::new();
            add_tree(&mut hash, &place.at("include"), DEEPEST);
            hash.finalize()
        };
        let first = print();
        assert_eq!(first, print());
        place.write("include/deep/zlib.h", "1.2.1");
        let second = print();
        place.write("include/more.h", "");
        let third = print();
        assert!(first != second && second != third && first != third);
    }
}
