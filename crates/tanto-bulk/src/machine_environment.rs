//! Describes a machine as far as packages depend on it, so that a coordinator can refuse clients that differ.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tanto_cas::Digest;
use tanto_protocol::Environment;
use tanto_sys::machine::system::SystemName;

use crate::config::Config;

/// The operating system.
pub const OS: &str = "os";
/// The release of its kernel, which may differ.
pub const KERNEL: &str = "kernel";
/// Of the processors.
pub const ARCHITECTURE: &str = "architecture";
/// The digest of `etc/os-release` of the system that packages see; empty if it has none.
pub const BASE: &str = "base";

/// Longest `os-release` that is read, in bytes.
const MAX_RELEASE: u64 = 64 << 10;

/// Describes this machine and the system in its sandboxes.
pub fn machine_environment(config: &Config) -> Environment {
    let SystemName { system, release, architecture, .. } = SystemName::query();
    let root = if config.sandbox == crate::config::NO_SANDBOX { "/" } else { config.sandbox_root.as_str() };
    let base = base(&Path::new(root).join("etc/os-release")).unwrap_or_default();
    let named = [(OS, system), (KERNEL, release), (ARCHITECTURE, architecture), (BASE, base)];
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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
