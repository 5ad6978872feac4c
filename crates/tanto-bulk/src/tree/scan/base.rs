//! The common inputs of all results: base system, environment, `mk.conf`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tanto_sys::fs::file;

use super::environment;
use super::files::{Files, InputHash, stamp};
use super::path_view::PathView;
use crate::config::Config;
use crate::package::digest::hex;

/// The version of the key.
const VERSION: &[u8] = b"tanto scan 2";
const KERNEL: [&[u8]; 2] = [b"/proc/sys/kernel/ostype", b"/proc/sys/kernel/osrelease"];
/// Directories in which `builtin.mk` files look for headers, at any depth.
const HEADERS: [&str; 2] = ["/usr/include", "/usr/local/include"];
/// Directories in which they look for libraries and programs.
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
/// The depth limit.
const DEEPEST: usize = 12;

/// Digests by parts that a user knows.
pub(super) struct Base(Vec<(String, InputHash)>);

impl Base {
    /// Reads the current state.
    pub(super) fn of(config: &Config, path_view: &PathView, files: &mut Files) -> Base {
        let mut parts = Vec::new();
        let mut add_part = |name: String, hash: Sha256| parts.push((name, hash.finalize().into()));
        for (name, value) in environment::variables(config) {
            add_part(format!("the environment variable {name}"), Sha256::new_with_prefix(value));
        }
        let kernel = KERNEL.map(|path| fs::read(file::path(path)).unwrap_or_default()).concat();
        add_part("the kernel".into(), Sha256::new_with_prefix(kernel).chain_update(std::env::consts::ARCH));
        if let Some((root, kit)) = path_view.sandbox() {
            add_part("sandbox_root".into(), Sha256::new_with_prefix(root));
            let mut hash = Sha256::new();
            kit.iter().for_each(|kit| add_kit(&mut hash, kit));
            add_part("the bootstrap kit".into(), hash);
        }
        for path in settings(config).iter().filter_map(|path| path_view.real(path)) {
            let id = files.file(path.as_os_str().as_bytes());
            add_part(path.display().to_string(), Sha256::new_with_prefix(files.seen(id).print));
            // Our state directory may be created beside it, which changes the mtime.
            path.parent().map(|dir| files.listing(dir.as_os_str().as_bytes()));
        }
        let mut make = Sha256::new_with_prefix(&config.make);
        if config.make.contains('/') {
            path_view.real(Path::new(&config.make)).iter().for_each(|path| add(&mut make, path));
        }
        add_part("the make program".into(), make);
        let deep = HEADERS.map(|dir| (PathBuf::from(dir), DEEPEST));
        for (dir, levels) in deep.into_iter().chain(libraries().into_iter().map(|dir| (dir, 1))) {
            let mut hash = Sha256::new();
            add_tree(&mut hash, &path_view.real(&dir).unwrap_or_default(), levels);
            add_part(dir.display().to_string(), hash);
        }
        Base(parts)
    }

    pub(super) fn print(&self) -> InputHash {
        let mut hash = Sha256::new_with_prefix(VERSION);
        for (name, print) in &self.0 {
            hash.update([name.as_bytes(), b"\0", print].concat());
        }
        hash.finalize().into()
    }

    /// Saves it for the next scan.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let line = |(name, print): &(String, InputHash)| format!("{} {name}\n", hex(print));
        fs::write(path, self.0.iter().map(line).collect::<String>())
    }

    /// Returns the changed parts; none without a file.
    pub(super) fn changed(&self, path: &Path) -> Vec<String> {
        let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
        let old: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(print, name)| (name, print)).collect();
        let is_other =
            |(name, print): &&(String, InputHash)| old.get(name.as_str()).is_none_or(|old| *old != hex(print));
        let gone = |name: &&&str| !self.0.iter().any(|(own, _)| own == **name);
        let changed = self.0.iter().filter(is_other).map(|(name, _)| name.clone());
        changed.chain(old.keys().filter(gone).map(|name| (*name).to_owned())).collect()
    }
}

/// An archive or a directory.
fn add_kit(hash: &mut Sha256, kit: &Path) {
    add(hash, kit);
    add_tree(hash, kit, DEEPEST);
}

/// The possible places of `mk.conf`.
fn settings(config: &Config) -> Vec<PathBuf> {
    let usual = [PathBuf::from("/etc/mk.conf"), Path::new(&config.prefix).join("etc/mk.conf")];
    config.makeconf().into_iter().chain(usual).collect()
}

/// Debian has libraries in a subdirectory for each architecture.
fn libraries() -> Vec<PathBuf> {
    let of_machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let deeper = [PathBuf::from(&of_machine), Path::new(&of_machine).join("pkgconfig")];
    OTHERS.iter().map(PathBuf::from).chain(deeper).collect()
}

/// Adds the stamps of everything in a directory, up to a depth.
fn add_tree(hash: &mut Sha256, dir: &Path, levels: usize) {
    let mut names: Vec<OsString> = fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.file_name()).collect();
    names.sort_unstable();
    for name in names {
        let path = dir.join(name);
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir());
        match (is_dir, levels) {
            (true, 2..) => add_tree(hash, &path, levels - 1),
            // The content is not searched.
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
    fn changed_part_is_named() {
        let place = Scratch::new("scan-parts");
        let base =
            |parts: &[(&str, u8)]| Base(parts.iter().map(|&(name, byte)| (name.to_owned(), [byte; 32])).collect());
        let first = base(&[("the kernel", 1), ("/etc/mk.conf", 2), ("/lib", 3)]);
        assert!(first.changed(&place.at("parts")).is_empty(), "there was no scan before");
        first.write(&place.at("parts")).unwrap();
        assert!(first.changed(&place.at("parts")).is_empty());
        let second = base(&[("the kernel", 1), ("/etc/mk.conf", 7), ("/usr/lib", 3)]);
        assert_eq!(second.changed(&place.at("parts")), ["/etc/mk.conf", "/usr/lib", "/lib"]);
        assert_ne!(first.print(), second.print());
    }

    #[test]
    fn new_removed_or_changed_header_is_detected() {
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
