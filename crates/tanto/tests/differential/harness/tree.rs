//! A picture of a directory tree: names, kinds, modes, contents. It does not know what the files mean, but for the
//! two logs, which are shown by their meaning.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::logs::{DepsLog, NinjaLog, Times};

/// What lies under a directory: path to a line of description.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree(pub BTreeMap<String, String>);

impl Tree {
    /// What two programs have to leave alike: lock files are left out, logs are shown without times.
    pub fn of(root: &Path, times: Times) -> Tree {
        let mut tree = Tree::default();
        walk(root, "", &mut |name, path, meta| {
            let base = name.rsplit('/').next();
            // The referee leaves it behind where it ends in a hurry.
            if base == Some(".ninja_lock") {
                return false;
            }
            tree.0.insert(name.to_owned(), describe(root, name, path, meta, times));
            true
        });
        tree
    }

    /// Every byte and time of it: what a program that only answers may not change.
    pub fn raw(root: &Path) -> Tree {
        let mut tree = Tree::default();
        walk(root, "", &mut |name, path, meta| {
            let when = if meta.is_dir() { String::new() } else { format!("{} {}", meta.mtime(), meta.mtime_nsec()) };
            tree.0.insert(name.to_owned(), format!("{} {when}", plain(path, meta)));
            true
        });
        tree
    }
}

/// Calls `see` for everything under `dir`; it says whether to go down.
fn walk(dir: &Path, prefix: &str, see: &mut dyn FnMut(&str, &Path, &fs::Metadata) -> bool) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if see(&name, &path, &meta) && meta.is_dir() {
            walk(&path, &format!("{name}/"), see);
        }
    }
}

fn describe(root: &Path, name: &str, path: &Path, meta: &fs::Metadata, times: Times) -> String {
    let base = name.rsplit('/').next().unwrap_or(name);
    let bytes = || fs::read(path).unwrap_or_default();
    match base {
        ".ninja_log" if meta.is_file() => NinjaLog::parse(&bytes()).show(root, times),
        ".ninja_deps" if meta.is_file() => DepsLog::parse(&bytes()).show(root),
        _ => plain(path, meta),
    }
}

fn plain(path: &Path, meta: &fs::Metadata) -> String {
    let mode = meta.permissions().mode() & 0o777;
    if meta.is_dir() {
        format!("dir {mode:o}")
    } else if meta.is_symlink() {
        format!("link {:?}", fs::read_link(path).unwrap_or_default())
    } else if meta.is_file() {
        format!("file {mode:o} {:?}", String::from_utf8_lossy(&fs::read(path).unwrap_or_default()))
    } else {
        format!("special {mode:o}")
    }
}
