//! Which attempt fetches a distfile that several packages need. The others wait for it, so that clients do not all download
//! it from its upstream server.

use std::collections::HashMap;

use crate::resolve::PackageId;

/// How long others wait while an attempt may fetch a file.
const FETCH_MS: i64 = 15 * 60_000;
/// How long they wait when it has fetched its files, and may be uploading them.
const UPLOAD_MS: i64 = 60_000;

#[derive(Default)]
pub(super) struct FetchClaims {
    /// By the name of the file.
    claims: HashMap<String, Claim>,
    /// Packages that wait, each for the file of this name.
    waiting: HashMap<PackageId, String>,
}

struct Claim {
    package: PackageId,
    until_ms: i64,
}

impl FetchClaims {
    /// An attempt of a package begins, and may fetch these files.
    pub(super) fn claim<'a>(&mut self, now_ms: i64, package: PackageId, names: impl Iterator<Item = &'a str>) {
        self.waiting.remove(&package);
        for name in names {
            self.claims.insert(name.to_owned(), Claim { package, until_ms: now_ms.saturating_add(FETCH_MS) });
        }
    }

    /// The attempt of a package fetches no more files.
    pub(super) fn fetched(&mut self, now_ms: i64, package: PackageId) {
        for claim in self.claims.values_mut().filter(|claim| claim.package == package) {
            claim.until_ms = claim.until_ms.min(now_ms.saturating_add(UPLOAD_MS));
        }
    }

    /// A file has arrived, or turned out to be of no use.
    pub(super) fn arrived(&mut self, name: &str) {
        self.claims.remove(name);
    }

    /// Has a package wait if another attempt fetches a file. Returns whether it waits.
    pub(super) fn wait(
        &mut self,
        now_ms: i64,
        package: PackageId,
        name: &str,
        is_active: impl Fn(PackageId) -> bool,
    ) -> bool {
        let waits = self.holder(now_ms, name, is_active).is_some_and(|holder| holder != package);
        if waits {
            self.waiting.insert(package, name.to_owned());
        }
        waits
    }

    /// Returns the file for which a package waits, and the package whose attempt fetches it.
    pub(super) fn awaited(
        &self,
        now_ms: i64,
        package: PackageId,
        is_active: impl Fn(PackageId) -> bool,
    ) -> Option<(&str, PackageId)> {
        let name = self.waiting.get(&package)?;
        self.holder(now_ms, name, is_active).map(|holder| (&**name, holder))
    }

    fn holder(&self, now_ms: i64, name: &str, is_active: impl Fn(PackageId) -> bool) -> Option<PackageId> {
        let claim = self.claims.get(name)?;
        (now_ms < claim.until_ms && is_active(claim.package)).then_some(claim.package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_wait_for_the_attempt_that_fetches() {
        let mut claims = FetchClaims::default();
        let runs = |_| true;
        assert!(!claims.wait(0, 1, "a", runs), "nobody fetches it");
        claims.claim(0, 1, ["a", "b"].into_iter());
        assert!(!claims.wait(0, 1, "a", runs), "it fetches the file itself");
        assert!(claims.wait(0, 2, "a", runs) && claims.wait(0, 3, "b", runs));
        assert_eq!(claims.awaited(0, 2, runs), Some(("a", 1)));
        assert_eq!(claims.awaited(0, 2, |package| package != 1), None, "the attempt has ended");
        claims.arrived("a");
        assert_eq!((claims.awaited(0, 2, runs), claims.awaited(0, 3, runs)), (None, Some(("b", 1))));
        claims.claim(0, 3, [].into_iter());
        assert_eq!(claims.awaited(0, 3, runs), None, "it does not wait any more");
    }

    #[test]
    fn waits_have_limits() {
        let mut claims = FetchClaims::default();
        let runs = |_| true;
        claims.claim(0, 1, ["a"].into_iter());
        assert!(claims.wait(FETCH_MS - 1, 2, "a", runs) && !claims.wait(FETCH_MS, 2, "a", runs));
        claims.fetched(1_000, 1);
        claims.fetched(1_000 + UPLOAD_MS, 1);
        assert!(claims.wait(999 + UPLOAD_MS, 2, "a", runs) && !claims.wait(1_000 + UPLOAD_MS, 2, "a", runs));
        claims.claim(FETCH_MS, 2, ["a"].into_iter());
        assert_eq!(claims.awaited(FETCH_MS, 2, runs), None);
        assert!(claims.wait(FETCH_MS, 1, "a", runs), "another attempt fetches it");
    }
}
