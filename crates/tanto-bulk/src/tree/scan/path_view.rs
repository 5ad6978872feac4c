//! Maps paths that a scan sees to paths of the machine.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use crate::config::{Config, NO_SANDBOX};

/// The file system as a scan sees it.
#[derive(Clone, Default, Debug)]
pub(super) struct PathView {
    /// The root of the template; `None` for `/`.
    root: Option<PathBuf>,
    /// Paths of the machine that are visible unchanged.
    same: Vec<PathBuf>,
    /// Paths of the bootstrap kit.
    kept: Vec<PathBuf>,
    kit: Option<PathBuf>,
}

impl PathView {
    pub fn of(config: &Config) -> PathView {
        if config.sandbox == NO_SANDBOX {
            return PathView::default();
        }
        let same = [&config.pkgsrc, &config.state, &config.packages, &config.distdir].map(PathBuf::from);
        PathView {
            root: Some(PathBuf::from(&config.sandbox_root)),
            same: same.into_iter().chain(config.makeconf()).collect(),
            kept: [&config.prefix, &config.pkgdb].map(PathBuf::from).to_vec(),
            kit: Some(PathBuf::from(&config.bootstrapkit)).filter(|kit| !kit.as_os_str().is_empty()),
        }
    }

    /// Returns the path on the machine; `None` for files of the kit and hidden ones.
    pub fn real(&self, path: &Path) -> Option<PathBuf> {
        let Some(root) = &self.root else { return Some(path.to_owned()) };
        let is_in = |all: &[PathBuf]| all.iter().any(|it| path.starts_with(it));
        match () {
            () if is_in(&self.same) => Some(path.to_owned()),
            () if is_in(&self.kept) => None,
            () => Some(root.join(path.strip_prefix("/").unwrap_or(path))),
        }
    }

    /// Maps a path of a makefile.
    pub fn real_bytes(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.root.is_none() {
            return Some(path.to_vec());
        }
        self.real(file::path(path)).map(|path| path.into_os_string().into_vec())
    }

    /// With a sandbox, the files of the template and the kit replace installed ones.
    pub fn sandbox(&self) -> Option<(&[u8], Option<&Path>)> {
        let root = self.root.as_ref()?;
        Some((root.as_os_str().as_bytes(), self.kit.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_shows_template_kit_and_tree() {
        let text = |name: &str| name.to_owned();
        let mut config = Config { sandbox: text(NO_SANDBOX), pkgsrc: text("/src"), ..Config::default() };
        let real = |config: &Config, path: &str| PathView::of(config).real(Path::new(path));
        assert_eq!(real(&config, "/usr/pkg/etc/mk.conf"), Some("/usr/pkg/etc/mk.conf".into()));
        assert!(PathView::of(&config).sandbox().is_none());
        config.sandbox = text("overlay");
        config.sandbox_root = text("/template");
        assert_eq!(real(&config, "/usr/pkg/etc/mk.conf"), None, "that is the kit's");
        assert_eq!(real(&config, "/usr/include/zlib.h"), Some("/template/usr/include/zlib.h".into()));
        assert_eq!(real(&config, "/src/mk/all.mk"), Some("/src/mk/all.mk".into()));
        assert_eq!(PathView::of(&config).real_bytes(b"/bin"), Some(b"/template/bin".to_vec()));
        assert_eq!(PathView::of(&config).sandbox(), Some((&b"/template"[..], None)));
    }
}
