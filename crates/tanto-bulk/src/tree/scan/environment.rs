//! The environment of a scan's commands, which is the same whoever starts the scan and from wherever.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::shell::quoted;

/// Variables with the same value in each scan.
const FIXED: [(&str, &str); 3] = [("HOME", "/nonexistent"), ("LC_ALL", "C"), ("SHELL", "/bin/sh")];
/// Variables that are taken from the environment of Tanto itself.
const INHERITED: [&str; 2] = ["MAKECONF", "PATH"];

/// All variables: `[environment]` of the configuration comes first, then what is inherited, then what is fixed.
pub(super) fn variables(config: &Config) -> BTreeMap<String, String> {
    let fixed = FIXED.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut all = BTreeMap::from(fixed);
    let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    all.extend(inherited.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())));
    all.extend(config.environment.clone());
    all
}

/// The words after which a command for the shell has this environment, and no other.
pub(super) fn words(config: &Config) -> String {
    let all = variables(config);
    all.iter().fold("env -i".to_owned(), |line, (name, value)| format!("{line} {name}={}", quoted(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_says_goes_before_all_else() {
        let environment = [("LC_ALL", "de_DE"), ("PATH", "/a b:/bin")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = Config { environment, ..Config::default() };
        let line = words(&config);
        assert!(line.starts_with("env -i HOME=/nonexistent LC_ALL=de_DE "), "{line}");
        assert!(line.ends_with(" PATH='/a b:/bin' SHELL=/bin/sh"), "{line}");
        assert!(variables(&config).keys().all(|name| name != "USER" && name != "CARGO_MANIFEST_DIR"));
    }
}
