//! Finds the packages that distrusted clients have built, and those that were built with them.

use std::collections::{HashMap, HashSet};

use tanto_record::database::{Database, DatabaseError, ProvenanceRow, Sha256};

use super::plan::Plan;
use crate::resolve::PackageId;

/// The reason for building the packages of a distrusted client again, and those that were built with them.
pub const DISTRUSTED: &str = "a client that is distrusted has built it, or a package that it was built with";

/// The builds of packages so far, in their order.
#[derive(Default)]
struct Builds {
    /// Tokens that are distrusted.
    tokens: HashSet<String>,
    /// Files of good builds.
    good: HashSet<Sha256>,
    /// Files of distrusted builds.
    distrusted: HashSet<Sha256>,
    /// By PKGNAME: whether the last build is distrusted.
    last: HashMap<String, bool>,
}

impl Builds {
    /// Adds a build. The packages that it was made with were built before.
    fn add(&mut self, row: ProvenanceRow) {
        // A file that a good build has made too is no worse.
        let is_bad = |digest: &Sha256| self.distrusted.contains(digest) && !self.good.contains(digest);
        let is_distrusted = self.tokens.contains(&row.token) || row.built_with.iter().any(is_bad);
        let files = if is_distrusted { &mut self.distrusted } else { &mut self.good };
        files.extend(row.digest);
        self.last.insert(row.name, is_distrusted);
    }
}

/// Returns the PKGNAMEs of packages whose last build is distrusted.
pub fn packages(store: &Database) -> Result<HashSet<String>, DatabaseError> {
    let tokens: HashSet<String> = store.distrusted_tokens()?.into_iter().collect();
    if tokens.is_empty() {
        return Ok(HashSet::new());
    }
    let mut builds = Builds { tokens, ..Builds::default() };
    store.each_provenance(|row| builds.add(row))?;
    Ok(builds.last.into_iter().filter(|(_, is_distrusted)| *is_distrusted).map(|(name, _)| name).collect())
}

/// Returns the packages of a plan with these names, and all that need them.
pub fn with_dependents(plan: &Plan, names: &HashSet<String>) -> Vec<PackageId> {
    let named: Vec<PackageId> = plan.all().filter(|&it| names.contains(&plan.package(it).name)).collect();
    let users = plan.all_dependents(&named);
    named.into_iter().chain(users).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(name: &str, token: &str, digest: u8, built_with: &[u8]) -> ProvenanceRow {
        ProvenanceRow {
            job: 0,
            attempt: 1,
            name: name.into(),
            client: token.into(),
            token: token.into(),
            tree: String::new(),
            environment: String::new(),
            digest: Some([digest; 32]),
            dependencies: built_with.len() as u32,
            built_with: built_with.iter().map(|&digest| [digest; 32]).collect(),
            began_ms: 0,
            ended_ms: 0,
        }
    }

    fn distrusted(tokens: &[&str], rows: &[ProvenanceRow]) -> Vec<String> {
        let tokens = tokens.iter().map(|&token| token.to_owned()).collect();
        let mut builds = Builds { tokens, ..Builds::default() };
        rows.iter().cloned().for_each(|row| builds.add(row));
        let mut names: Vec<String> = builds.last.into_iter().filter(|(_, bad)| *bad).map(|(name, _)| name).collect();
        names.sort();
        names
    }

    #[test]
    fn distrust_spreads_along_digests() {
        let rows = [
            build("base-1", "", 1, &[]),
            build("lib-1", "x", 2, &[1]),
            build("app-1", "y", 3, &[1, 2]),
            build("other-1", "y", 4, &[1]),
            build("deep-1", "", 5, &[3]),
        ];
        assert_eq!(distrusted(&["x"], &rows), ["app-1", "deep-1", "lib-1"]);
        assert_eq!(distrusted(&["y"], &rows), ["app-1", "deep-1", "other-1"]);
        assert_eq!(distrusted(&["z"], &rows), [""; 0]);
    }

    #[test]
    fn last_build_counts() {
        let mut rows = vec![
            build("lib-1", "x", 2, &[]),
            build("app-1", "y", 3, &[2]),
            build("lib-1", "y", 6, &[]),
            build("tool-1", "y", 7, &[6]),
        ];
        assert_eq!(distrusted(&["x"], &rows), ["app-1"], "it was built with the first one");
        rows.push(build("app-1", "y", 8, &[6]));
        assert_eq!(distrusted(&["x"], &rows), [""; 0]);
    }

    #[test]
    fn file_that_a_good_client_has_made_too_is_good_from_then_on() {
        let rows = [
            build("lib-1", "x", 2, &[]),
            build("app-1", "y", 3, &[2]),
            build("lib-1", "y", 2, &[]),
            build("tool-1", "y", 4, &[2]),
        ];
        assert_eq!(distrusted(&["x"], &rows), ["app-1"]);
        assert_eq!(distrusted(&["x", "y"], &rows), ["app-1", "lib-1", "tool-1"]);
    }
}
