//! Formats configurations with a comment for each key.

use super::keys::{Field, KEYS};
use super::read::{AUTO, UNITS};
use super::{Config, Scratch};

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
";

pub(super) fn text(config: &Config) -> String {
    let mut config = config.clone();
    let mut text = HEAD.to_owned();
    for key in KEYS {
        let value = match key.field {
            Field::Path(field) | Field::Program(field) | Field::Text(field) | Field::Sandbox(field) => {
                quoted(field(&mut config))
            }
            Field::Flag(field) => field(&mut config).to_string(),
            Field::Count(field) => field(&mut config).to_string(),
            Field::Time(field) => time(*field(&mut config)),
            Field::Size(field) => size(*field(&mut config)),
            Field::Scratch(field) => scratch(*field(&mut config)),
        };
        text += &format!("\n# {}\n{} = {value}\n", key.doc, key.name);
    }
    if !config.environment.is_empty() {
        text += "\n[environment]\n";
        text.extend(config.environment.iter().map(|(name, value)| format!("{name} = {}\n", quoted(value))));
    }
    text
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

fn time(ms: Option<i64>) -> String {
    let seconds = ms.unwrap_or(0) / 1000;
    match seconds {
        0 => "\"0\"".to_owned(),
        it if it % 3600 == 0 => format!("\"{}h\"", it / 3600),
        it if it % 60 == 0 => format!("\"{}m\"", it / 60),
        it => format!("\"{it}s\""),
    }
}
