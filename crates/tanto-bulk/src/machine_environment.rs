//! Describes a machine as far as packages depend on it, so that a coordinator can refuse clients that differ.

mod compare;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tanto_cas::Digest;
use tanto_protocol::{BuildDescription, Environment};
use tanto_sys::machine::system::SystemName;

pub use self::compare::{compare, differing};
use crate::config::Config;

/// The operating system.
pub const OS: &str = "os";
/// The release of its kernel, which may differ.
pub const KERNEL: &str = "kernel";
/// Of the processors.
pub const ARCHITECTURE: &str = "architecture";
/// The digest of `etc/os-release` of the system that packages see; empty if it has none.
pub const BASE: &str = "base";

/// The digests of what a build gives to its clients: they refuse to continue with that of an earlier run.
pub const SETTINGS: &str = "settings";
pub const KIT: &str = "kit";
pub const MAKECONF: &str = "mk.conf";

/// Longest `os-release` that is read, in bytes.
const MAX_RELEASE: u64 = 64 << 10;

/// Describes this machine and the system in its sandboxes.
fn machine_environment(config: &Config) -> Environment {
    let SystemName { system, release, architecture, .. } = SystemName::query();
    let root = if config.sandbox == crate::config::NO_SANDBOX { "/" } else { config.sandbox_root.as_str() };
    let base = base(&Path::new(root).join("etc/os-release")).unwrap_or_default();
    let named = [(OS, system), (KERNEL, release), (ARCHITECTURE, architecture), (BASE, base)];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Describes this machine, and what it has from the description of a build.
pub fn build_environment(config: &Config, description: &BuildDescription) -> Environment {
    let digest = |digest: Option<tanto_protocol::Digest>| digest.map(|it| it.to_string()).unwrap_or_default();
    let provided = [
        (SETTINGS, Digest::of(description.settings.as_bytes()).to_string()),
        (KIT, digest(description.kit)),
        (MAKECONF, digest(description.makeconf)),
    ];
    let provided = provided.into_iter().map(|(name, value)| (name.to_owned(), value));
    machine_environment(config).into_iter().chain(provided).collect()
}

fn base(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_RELEASE).read_to_end(&mut text).ok()?;
    Some(Digest::of(&text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn other_files_of_the_build_are_another_environment() {
        let config = Config::default();
        let kit = |byte| Some(tanto_protocol::Digest([byte; 32]));
        let first = BuildDescription { settings: "make_jobs = 1\n".into(), kit: kit(1), ..BuildDescription::default() };
        let own = build_environment(&config, &first);
        assert_eq!((&*own[KIT], &*own[MAKECONF]), (&*kit(1).unwrap().to_string(), ""));
        for second in [
            BuildDescription { settings: "make_jobs = 2\n".into(), ..first.clone() },
            BuildDescription { kit: kit(2), ..first.clone() },
            BuildDescription { makeconf: kit(3), ..first.clone() },
        ] {
            assert_ne!(build_environment(&config, &second), own);
        }
    }

    #[test]
    fn the_base_is_that_of_the_sandbox() {
        let root = Scratch::new("machine-environment");
        let config = Config { sandbox_root: root.text().to_owned(), ..Config::default() };
        let empty = machine_environment(&config);
        assert_eq!(empty[BASE], "");
        assert!([OS, KERNEL, ARCHITECTURE].iter().all(|name| !empty[*name].is_empty()), "{empty:?}");
        root.write("etc/os-release", "ID=test\n");
        assert_eq!(machine_environment(&config)[BASE], Digest::of(b"ID=test\n").to_string());
    }
}
