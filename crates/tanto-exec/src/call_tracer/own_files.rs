//! The files that a command has written, and its declared outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

#[derive(Debug)]
pub(super) struct OwnFiles {
    /// Declared outputs, and their declared paths.
    outputs: BTreeMap<PathBuf, Vec<u8>>,
    /// Files and directories that the command has created, replaced or removed.
    written: BTreeSet<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The command has written it.
    Command,
    /// It is a declared output that the command has not written yet.
    OldOutput,
    Other,
}

impl OwnFiles {
    pub(super) fn new(cwd: &Path, outputs: &[Vec<u8>]) -> OwnFiles {
        let outputs = outputs.iter().map(|output| {
            let path = cwd.join(file::path(output));
            (identity(&path, false), path.as_os_str().as_bytes().to_vec())
        });
        OwnFiles { outputs: outputs.collect(), written: BTreeSet::new() }
    }

    /// Returns the owner of a file, by its identity.
    pub(super) fn owner(&self, identity: &Path) -> Owner {
        if identity.ancestors().any(|dir| self.written.contains(dir)) {
            Owner::Command
        } else if self.outputs.contains_key(identity) {
            Owner::OldOutput
        } else {
            Owner::Other
        }
    }

    pub(super) fn note_written(&mut self, identity: PathBuf) {
        self.written.insert(identity);
    }

    /// Returns the paths of the written files that exist. Those of outputs are as declared.
    pub(super) fn remaining(&self) -> impl Iterator<Item = &[u8]> {
        let remaining = self.written.iter().filter(|path| fs::symlink_metadata(path).is_ok());
        remaining.map(|path| self.outputs.get(path).map_or(path.as_os_str().as_bytes(), |declared| declared))
    }
}

/// Returns one name for all paths of a file, also of one that does not exist yet. `follow`: of the target of a link.
pub(super) fn identity(path: &Path, follow: bool) -> PathBuf {
    if follow && let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent).map_or_else(|_| path.into(), |dir| dir.join(name)),
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tanto_testing::Scratch;

    #[test]
    fn all_paths_of_a_file_have_one_identity() {
        let dir = Scratch::new("own-files");
        dir.write("real/f", "");
        symlink("real", dir.at("dir")).unwrap();
        symlink("f", dir.at("real/link")).unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let identity = |path: &str, follow| identity(&dir.at(path), follow).strip_prefix(&root).unwrap().to_path_buf();
        for (path, follow, expected) in [
            ("dir/f", false, "real/f"),
            ("dir/../real/./f", true, "real/f"),
            ("dir/link", true, "real/f"),
            ("dir/link", false, "real/link"),
            ("dir/none", true, "real/none"),
            ("dir", false, "dir"),
            ("dir", true, "real"),
            ("none/x", true, "none/x"),
        ] {
            assert_eq!(identity(path, follow), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn owners_are_distinguished() {
        let dir = Scratch::new("own-owners");
        dir.write("sub/out", "");
        let root = fs::canonicalize(dir.path()).unwrap();
        let mut own = OwnFiles::new(&root, &[b"sub/../sub/out".to_vec()]);
        assert_eq!(own.owner(&root.join("sub/out")), Owner::OldOutput);
        own.note_written(root.join("sub/out"));
        own.note_written(root.join("gone"));
        assert_eq!(own.owner(&root.join("sub/out")), Owner::Command);
        assert_eq!(own.owner(&root.join("gone/below")), Owner::Command);
        assert_eq!(own.owner(&root.join("sub")), Owner::Other);
        let declared = root.join("sub/../sub/out");
        assert_eq!(own.remaining().collect::<Vec<_>>(), [declared.as_os_str().as_bytes()]);
    }
}
