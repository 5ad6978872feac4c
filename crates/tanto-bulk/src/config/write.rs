//! Formats configurations with a comment for each key.

use super::keys::{DISK_LIMIT, Field, KEYS, Key, OF_STAGES, SHARED};
use super::read::{AUTO, UNITS};
use super::{Config, Scratch, Stage};

const HEAD: &str =
    "# Configuration of `tanto bulk`. The file contains all keys with their defaults. Relative paths start at its directory.
# Single stages, and the scan, can have their own limits, at the end of the file:
#
#     [stage.build]
#     memory_limit = \"8G\"
#     [stage.scan]
#     timeout = \"10m\"
#
# Scans see a fixed environment: HOME, LC_ALL, MAKECONF, PATH and SHELL. To set more
# variables for scans and builds, add at the end of the file:
#
#     [environment]
#     VARIABLE = \"value\"
#
# Packages that need a machine with a label, by PKGPATH or, without a slash, name:
#
#     [place]
#     \"lang/ghc*\" = \"big\"
";

pub(super) fn text(config: &Config) -> String {
    let mut text = HEAD.to_owned();
    for key in KEYS {
        text += &format!("\n# {}\n{} = {}\n", key.doc, key.name, value(config, key));
    }
    text + &tables(config) + &place(config)
}

/// Formats the keys that packages can see. Of the bootstrap kit, only whether there is one.
pub(super) fn shared(config: &Config) -> String {
    let kit = if config.bootstrapkit.is_empty() { "" } else { "yes" };
    let config = Config { bootstrapkit: kit.to_owned(), ..config.clone() };
    let keys = KEYS.iter().filter(|key| SHARED.contains(&key.name));
    let lines: String = keys.map(|key| format!("{} = {}\n", key.name, value(&config, key))).collect();
    lines + &tables(&config)
}

fn value(config: &Config, key: &Key) -> String {
    let mut config = config.clone();
    match key.field {
        Field::Path(field)
        | Field::Program(field)
        | Field::Text(field)
        | Field::Sandbox(field)
        | Field::Address(field)
        | Field::Url(field)
        | Field::Name(field) => quoted(field(&mut config)),
        Field::Flag(field) => field(&mut config).to_string(),
        Field::Labels(field) => {
            let labels: Vec<String> = field(&mut config).iter().map(|label| quoted(label)).collect();
            format!("[{}]", labels.join(", "))
        }
        Field::Count(field) => field(&mut config).to_string(),
        Field::Share(field) => share(*field(&mut config)),
        Field::Time(field) => time(*field(&mut config)),
        Field::Size(field) => size(*field(&mut config)),
        Field::Scratch(field) => scratch(*field(&mut config)),
    }
}

/// The tables at the end: limits of stages, where they differ from those of all stages, and variables.
fn tables(config: &Config) -> String {
    let mut text = String::new();
    for (stage, limits) in &config.stages {
        text += &format!("\n[stage.{stage}]\n");
        let own = Config { limits: *limits, ..config.clone() };
        let may_write = Stage::ALL.into_iter().any(|it| it.name() == stage && it.writes());
        let keys = KEYS.iter().filter(|key| OF_STAGES.contains(&key.name) && (may_write || key.name != DISK_LIMIT));
        let lines = keys.map(|key| (key.name, value(&own, key), value(config, key)));
        text.extend(lines.filter(|(_, own, all)| own != all).map(|(name, own, _)| format!("{name} = {own}\n")));
    }
    if !config.environment.is_empty() {
        text += "\n[environment]\n";
        text.extend(config.environment.iter().map(|(name, value)| format!("{name} = {}\n", quoted(value))));
    }
    text
}

fn place(config: &Config) -> String {
    let lines = config.place.iter().map(|(pattern, label)| format!("{} = {}\n", quoted(pattern), quoted(label)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n[place]\n{lines}") }
}

/// A TOML string on one line.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for it in text.chars() {
        match it {
            '"' | '\\' => quoted.extend(['\\', it]),
            it if it.is_control() => quoted += &format!("\\u{:04X}", u32::from(it)),
            it => quoted.push(it),
        }
    }
    quoted + "\""
}

/// Formats a size in the largest exact unit; sizes are whole KiB.
fn size(bytes: Option<u64>) -> String {
    let mut number = bytes.unwrap_or(0) / 1024;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while number > 0 && number.is_multiple_of(1024) && units.len() > 0 {
        number /= 1024;
        unit = units.next();
    }
    match (number, unit) {
        (0, _) | (_, None) => "\"0\"".to_owned(),
        (number, Some(unit)) => format!("\"{number}{unit}\""),
    }
}

fn scratch(scratch: Scratch) -> String {
    match scratch {
        Scratch::Auto => format!("\"{AUTO}\""),
        Scratch::Disk => size(None),
        Scratch::Most(bytes) => size(Some(bytes)),
    }
}

/// Formats a share, which is in hundredths of a percent.
fn share(share: u32) -> String {
    match (share / 100, share % 100) {
        (whole, 0) => format!("\"{whole}%\""),
        (whole, fraction) => format!("\"{whole}.{fraction:02}%\""),
    }
}

fn time(ms: Option<i64>) -> String {
    let seconds = ms.unwrap_or(0) / 1000;
    match seconds {
        0 => "\"0\"".to_owned(),
        it if it % 3600 == 0 => format!("\"{}h\"", it / 3600),
        it if it % 60 == 0 => format!("\"{}m\"", it / 60),
        it => format!("\"{it}s\""),
    }
}
