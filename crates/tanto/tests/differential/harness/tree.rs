//! Snapshots of a directory tree: names, types, modes, contents. The two logs are shown parsed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::logs::{DepsLog, NinjaLog, Times};

/// Descriptions by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree(pub BTreeMap<String, String>);

impl Tree {
    /// The parts that both programs must leave alike: without lock files and with logs parsed.
    pub fn of(root: &Path, times: Times) -> Tree {
        let mut tree = Tree::default();
        walk(root, "", &mut |name, path, meta| {
            let base = name.rsplit('/').next();
            // The reference ninja leaves it when it exits early.
            if base == Some(".ninja_lock") {
                return false;
            }
            tree.0.insert(name.to_owned(), describe(root, name, path, meta, times));
            true
        });
        tree
    }

    /// All bytes and times, which read-only tools must not change.
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

/// Calls `see` for every entry under `dir`; the result tells whether to descend.
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
