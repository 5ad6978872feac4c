//! Messages about the findings of a resolution.

use std::borrow::Cow;
use std::fmt::Write;

use super::{Finding, PackageId, Resolution, cycle};
use crate::package::records::Record;

/// Describes all findings, a line for each.
pub fn describe(resolution: &Resolution<'_>, records: &[Record<'_>]) -> String {
    let mut text = String::new();
    for finding in &resolution.findings {
        let level = if finding.is_error() { "error" } else { "warning" };
        let _ = writeln!(text, "tanto: {level}: {}", message(finding, resolution, records));
    }
    text
}

/// Returns the packages with missing dependencies, and a message for each.
pub fn missing_dependencies(resolution: &Resolution<'_>, records: &[Record<'_>]) -> Vec<(PackageId, String)> {
    let mut all: Vec<(PackageId, String)> = Vec::new();
    for finding in &resolution.findings {
        let (&Finding::NoMatch { package, .. } | &Finding::NoDependency { package, .. } | &Finding::NoList(package)) =
            finding
        else {
            continue;
        };
        let message = message(finding, resolution, records);
        match all.last_mut() {
            Some((last, text)) if *last == package => *text += &format!("; {message}"),
            _ => all.push((package, message)),
        }
    }
    all
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn message(finding: &Finding<'_>, resolution: &Resolution<'_>, records: &[Record<'_>]) -> String {
    let name = |package: PackageId| text(records[package as usize].name);
    let place = |package: PackageId| text(records[package as usize].location);
    match *finding {
        Finding::NoMatch { package, pattern, location, ref nearest } => {
            let near: Vec<String> = nearest.iter().map(|&it| format!("{} ({})", name(it), place(it))).collect();
            let near = if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) };
            format!("{} needs {} ({}), but no package matches{near}", name(package), text(pattern), text(location))
        }
        Finding::Elsewhere { package, pattern, location, best } => {
            let needs = format!("{} needs {} ({})", name(package), text(pattern), text(location));
            format!("{needs}, and the best match is {} in {}", name(best), place(best))
        }
        Finding::NoDependency { package, text: words } => {
            let (place, name, words) = (place(package), name(package), text(words));
            format!("{place}: {name}: '{words}' is not a dependency (PATTERN:../../CATEGORY/DIRECTORY)")
        }
        Finding::NoList(package) => format!("{}: {} has no ALL_DEPENDS", place(package), name(package)),
        Finding::Duplicate { first, second } => {
            format!("{} is made in {} and in {}: using the first", name(first), place(first), place(second))
        }
        Finding::Cycle(ref packages) => cycle::message(packages, |package| resolution.name(package).text()),
    }
}
