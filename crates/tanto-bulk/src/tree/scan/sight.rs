//! Where on the machine something is that a scan sees: there itself, or in what its sandbox shows in that place. Does not
//! know who looks at it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_sys::fs::file;

use crate::config::{Config, NO_SANDBOX};

/// What a scan sees of the machine.
#[derive(Clone, Default, Debug)]
pub(super) struct Sight {
    /// The system; none: the machine's.
    root: Option<PathBuf>,
    /// What is seen as it is on the machine.
    same: Vec<PathBuf>,
    /// What the bootstrap kit has.
    kept: Vec<PathBuf>,
    kit: Option<PathBuf>,
}

impl Sight {
    /// What the configuration makes of it.
    pub fn of(config: &Config) -> Sight {
        if config.sandbox == NO_SANDBOX {
            return Sight::default();
        }
        let same = [&config.pkgsrc, &config.state, &config.packages, &config.distdir].map(PathBuf::from);
        Sight {
            root: Some(PathBuf::from(&config.sandbox_root)),
            same: same.into_iter().chain(config.makeconf()).collect(),
            kept: [&config.prefix, &config.pkgdb].map(PathBuf::from).to_vec(),
            kit: Some(PathBuf::from(&config.bootstrapkit)).filter(|kit| !kit.as_os_str().is_empty()),
        }
    }

    /// Where it is; none if the kit has it, or nobody.
    pub fn real(&self, path: &Path) -> Option<PathBuf> {
        let Some(root) = &self.root else { return Some(path.to_owned()) };
        let is_in = |all: &[PathBuf]| all.iter().any(|it| path.starts_with(it));
        match () {
            () if is_in(&self.same) => Some(path.to_owned()),
            () if is_in(&self.kept) => None,
            () => Some(root.join(path.strip_prefix("/").unwrap_or(path))),
        }
    }

    /// The same for a path as makefiles name it.
    pub fn real_bytes(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.root.is_none() {
            return Some(path.to_vec());
        }
        self.real(file::path(path)).map(|path| path.into_os_string().into_vec())
    }

    /// What is in the place of what was installed, if there is a sandbox: the system's name, and the kit.
    pub fn sandbox(&self) -> Option<(&[u8], Option<&Path>)> {
        let root = self.root.as_ref()?;
        Some((root.as_os_str().as_bytes(), self.kit.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_shows_another_system_the_kit_and_the_tree() {
        let text = |name: &str| name.to_owned();
        let mut config = Config { sandbox: text(NO_SANDBOX), pkgsrc: text("/src"), ..Config::default() };
        let real = |config: &Config, path: &str| Sight::of(config).real(Path::new(path));
        assert_eq!(real(&config, "/usr/pkg/etc/mk.conf"), Some("/usr/pkg/etc/mk.conf".into()));
        assert!(Sight::of(&config).sandbox().is_none());
        config.sandbox = text("overlay");
        config.sandbox_root = text("/template");
        assert_eq!(real(&config, "/usr/pkg/etc/mk.conf"), None, "that is the kit's");
        assert_eq!(real(&config, "/usr/include/zlib.h"), Some("/template/usr/include/zlib.h".into()));
        assert_eq!(real(&config, "/src/mk/all.mk"), Some("/src/mk/all.mk".into()));
        assert_eq!(Sight::of(&config).real_bytes(b"/bin"), Some(b"/template/bin".to_vec()));
        assert_eq!(Sight::of(&config).sandbox(), Some((&b"/template"[..], None)));
    }
}
