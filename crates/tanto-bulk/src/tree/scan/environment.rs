//! The environment of scan commands, independent of the caller's.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::shell::quoted;

/// Fixed variables.
const FIXED: [(&str, &str); 3] = [("HOME", "/nonexistent"), ("LC_ALL", "C"), ("SHELL", "/bin/sh")];
/// Inherited variables.
const INHERITED: [&str; 2] = ["MAKECONF", "PATH"];

/// All variables: `[environment]` first, then inherited, then fixed ones.
pub(super) fn variables(config: &Config) -> BTreeMap<String, String> {
    let fixed = FIXED.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut all = BTreeMap::from(fixed);
    let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    all.extend(inherited.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())));
    all.extend(config.environment.clone());
    all
}

/// Words that give a shell command exactly this environment.
pub(super) fn words(config: &Config) -> String {
    let all = variables(config);
    all.iter().fold("env -i".to_owned(), |line, (name, value)| format!("{line} {name}={}", quoted(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_overrides_environment() {
        let environment = [("LC_ALL", "de_DE"), ("PATH", "/a b:/bin")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = Config { environment, ..Config::default() };
        let line = words(&config);
        assert!(line.starts_with("env -i HOME=/nonexistent LC_ALL=de_DE "), "{line}");
        assert!(line.ends_with(" PATH='/a b:/bin' SHELL=/bin/sh"), "{line}");
        assert!(variables(&config).keys().all(|name| name != "USER" && name != "CARGO_MANIFEST_DIR"));
    }
}
