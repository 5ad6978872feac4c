//! Finds packages similar to an unmatched pattern.

use std::cmp::Reverse;

use crate::package::name::Name;
use crate::package::records::Record;

use super::PackageId;

/// The limit of suggestions.
const MOST: usize = 3;
/// The limit of the edit distance.
const FARTHEST: usize = 2;

/// Other versions first, then packages of the directory, then similar names.
pub(super) fn find(pattern: &[u8], location: &[u8], names: &[Name<'_>], records: &[Record<'_>]) -> Vec<PackageId> {
    let base = base(pattern);
    let packages = || 0..names.len() as PackageId;
    let mut same: Vec<PackageId> = packages().filter(|&it| names[it as usize].base() == base).collect();
    same.sort_by(|&one, &other| names[other as usize].preference(&names[one as usize]));
    let there = packages().filter(|&it| records[it as usize].location == location);
    let mut nearest: Vec<PackageId> = Vec::new();
    for package in same.into_iter().chain(there) {
        if !nearest.contains(&package) {
            nearest.push(package);
        }
    }
    if nearest.is_empty() {
        nearest = alike(base, names);
    }
    nearest.truncate(MOST);
    nearest
}

/// The base name of a pattern: up to a relation, a version or a special character.
fn base(pattern: &[u8]) -> &[u8] {
    let special = pattern.iter().position(|byte| b"<>*?[]{}".contains(byte)).unwrap_or(pattern.len());
    let literal = &pattern[..special];
    let relation = matches!(pattern.get(special), Some(b'<' | b'>'));
    let version = literal.windows(2).rposition(|two| two[0] == b'-' && two[1].is_ascii_digit());
    match version {
        Some(dash) if !relation => &literal[..dash],
        _ => literal.strip_suffix(b"-").unwrap_or(literal),
    }
}

/// The closest names, each with its highest version.
fn alike(base: &[u8], names: &[Name<'_>]) -> Vec<PackageId> {
    let mut found: Vec<(usize, PackageId)> = (0..)
        .zip(names)
        .filter(|(_, name)| name.base().len().abs_diff(base.len()) <= FARTHEST)
        .map(|(package, name)| (distance(base, name.base()), package))
        .filter(|&(distance, _)| distance <= FARTHEST)
        .collect();
    found.sort_by_key(|&(distance, package)| (distance, names[package as usize].base(), Reverse(package)));
    found.dedup_by_key(|&mut (_, package)| names[package as usize].base());
    found.into_iter().map(|(_, package)| package).collect()
}

/// The edit distance.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], at + 1);
        for (column, against) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != against);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_has_a_base_name() {
        for (pattern, expected) in [
            ("gtk3>=3.0<4", "gtk3"),
            ("lib-3d-2.0>=1", "lib-3d-2.0"),
            ("gtk3-[0-9]*", "gtk3"),
            ("boost-libs-1.90{,nb*}", "boost-libs"),
            ("LPRng-doc-3.6.13", "LPRng-doc"),
        ] {
            assert_eq!(base(pattern.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn edit_distance_counts_letters() {
        for (one, other, expected) in [("", "ab", 2), ("gtk3", "gtk3", 0), ("gtk3", "gtk", 1), ("perl", "prel", 2)] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), expected);
        }
    }
}
