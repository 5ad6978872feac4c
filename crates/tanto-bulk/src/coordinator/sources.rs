//! Scan records of the packages of a run, and merging new records of some directories during the build.

use std::collections::HashMap;

use crate::package::name::Name;
use crate::package::records::{self, Record};
use crate::resolve::{Finding, PackageId, cycle, resolve};

/// The records of packages.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sources {
    /// By package, without variables that only a scan uses; empty for packages that were removed.
    texts: Vec<Vec<u8>>,
}

/// The result of merging new records.
#[derive(Debug)]
pub struct Merged {
    pub sources: Sources,
    /// Changed packages, and new ones, which have the last numbers.
    pub changed: Vec<PackageId>,
    /// Removed packages.
    pub gone: Vec<PackageId>,
}

/// The dependencies after a merge.
#[derive(Debug)]
pub struct Rewired {
    /// By package.
    pub depends: Vec<Vec<PackageId>>,
    /// Packages that cannot be built, with the reason.
    pub missing: HashMap<PackageId, String>,
}

/// Variables that a build does not use; 86 % of the bytes of a scan.
const LEFT_OUT: [&[u8]; 2] = [b"SCAN_DEPENDS=", b"DEPENDS="];

impl Sources {
    /// The records must be in the order of the packages.
    pub fn of(records: &[Record<'_>]) -> Sources {
        Sources { texts: records.iter().map(|record| kept(record.text)).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Replaces the records of some directories. A package keeps its number, also with another version.
    pub fn merged(&self, fresh: &[Record<'_>]) -> Merged {
        let mut it = Merged { sources: self.clone(), changed: Vec::new(), gone: Vec::new() };
        let mut at: HashMap<Vec<u8>, Vec<PackageId>> = HashMap::new();
        for (package, text) in (0..).zip(&self.texts) {
            if let Some(location) = records::read(text).ok().and_then(|all| all.first().map(|it| it.location.to_vec()))
            {
                at.entry(location).or_default().push(package);
            }
        }
        let mut locations: Vec<&[u8]> = fresh.iter().map(|record| record.location).collect();
        locations.sort_unstable();
        locations.dedup();
        for location in locations {
            let new: Vec<&Record<'_>> = fresh.iter().filter(|record| record.location == location).collect();
            it.directory(at.get(location).cloned().unwrap_or_default(), new);
        }
        it
    }

    pub fn record(&self, package: PackageId) -> Option<Record<'_>> {
        records::read(self.texts.get(package as usize)?).ok()?.first().copied()
    }

    /// Resolves the dependencies. An error describes a cycle.
    pub fn resolved(&self) -> Result<Rewired, String> {
        let (numbers, records): (Vec<PackageId>, Vec<Record<'_>>) =
            (0..self.texts.len() as PackageId).filter_map(|it| Some((it, self.record(it)?))).unzip();
        let resolution = resolve(&records, records.len());
        let mut resolved = Rewired { depends: vec![Vec::new(); self.texts.len()], missing: HashMap::new() };
        for finding in &resolution.findings {
            match finding {
                Finding::Cycle(cycle) => return Err(cycle::message(cycle, |it| resolution.name(it).text())),
                Finding::NoMatch { package, pattern, .. } => {
                    let why = format!("it needs {}, but no package matches", String::from_utf8_lossy(pattern));
                    resolved.missing.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::NoDependency { package, text } => {
                    let why = format!("'{}' is not a dependency", String::from_utf8_lossy(text));
                    resolved.missing.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::NoList(package) => {
                    let why = "it has no ALL_DEPENDS".into();
                    resolved.missing.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::Elsewhere { .. } | Finding::Duplicate { .. } => {}
            }
        }
        for (package, it) in resolution.packages() {
            let depends = it.depends.iter().map(|&needed| numbers[needed as usize]).collect();
            resolved.depends[numbers[package as usize] as usize] = depends;
        }
        Ok(resolved)
    }
}

impl Merged {
    /// Replaces the packages of a directory.
    fn directory(&mut self, mut old: Vec<PackageId>, new: Vec<&Record<'_>>) {
        let base = |name: &[u8]| Name::new(name).base().to_vec();
        let name = |it: &Self, package: PackageId| it.sources.record(package).map(|record| record.name.to_vec());
        let mut places: Vec<Option<PackageId>> = vec![None; new.len()];
        // First packages with the same name, then those with another version.
        for same_version in [true, false] {
            for (place, record) in places.iter_mut().zip(&new).filter(|(place, _)| place.is_none()) {
                let is_it = |package: &PackageId| {
                    name(self, *package).is_some_and(|name| match same_version {
                        true => name == record.name,
                        false => base(&name) == base(record.name),
                    })
                };
                *place = old.iter().position(is_it).map(|at| old.remove(at));
            }
        }
        for (place, record) in places.into_iter().zip(new) {
            let text = kept(record.text);
            match place {
                Some(package) if self.sources.texts[package as usize] == text => {}
                Some(package) => {
                    self.sources.texts[package as usize] = text;
                    self.changed.push(package);
                }
                None => {
                    self.changed.push(self.sources.texts.len() as PackageId);
                    self.sources.texts.push(text);
                }
            }
        }
        for package in old {
            self.sources.texts[package as usize] = Vec::new();
            self.gone.push(package);
        }
    }
}

fn kept(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.filter(|line| !LEFT_OUT.iter().any(|variable| line.starts_with(variable))).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "PKGNAME=lib-1.0\nPKG_LOCATION=a/lib\nALL_DEPENDS=\nSCAN_DEPENDS=long\n\
        PKGNAME=py1-x-1\nPKG_LOCATION=a/py-x\nALL_DEPENDS=\nPKGNAME=py2-x-1\nPKG_LOCATION=a/py-x\nALL_DEPENDS=\n\
        PKGNAME=app-1.0\nPKG_LOCATION=a/app\nALL_DEPENDS=lib>=1:../../a/lib\nDEPENDS=lib-1.0\n";

    fn sources() -> Sources {
        Sources::of(&records::read(TREE.as_bytes()).unwrap())
    }

    fn merged(fresh: &str) -> Merged {
        sources().merged(&records::read(fresh.as_bytes()).unwrap())
    }

    #[test]
    fn another_version_keeps_its_number() {
        let it = merged("PKGNAME=lib-1.1\nPKG_LOCATION=a/lib\nALL_DEPENDS=\n");
        assert_eq!((&it.changed[..], &it.gone[..]), (&[0][..], &[][..]));
        assert_eq!(it.sources.resolved().unwrap().depends, [vec![], vec![], vec![], vec![0]]);
    }

    #[test]
    fn equal_records_are_no_change() {
        let it = merged("PKGNAME=lib-1.0\nPKG_LOCATION=a/lib\nALL_DEPENDS=\nSCAN_DEPENDS=another\n");
        assert!(it.changed.is_empty() && it.gone.is_empty() && it.sources == sources());
    }

    #[test]
    fn packages_are_added_and_removed() {
        let it = merged(
            "PKGNAME=py2-x-1\nPKG_LOCATION=a/py-x\nALL_DEPENDS=new-[0-9]*:../../a/new\n\
            PKGNAME=new-3\nPKG_LOCATION=a/new\nALL_DEPENDS=\n",
        );
        assert_eq!((&it.changed[..], &it.gone[..]), (&[4, 2][..], &[1][..]));
        assert_eq!(it.sources.resolved().unwrap().depends, [vec![], vec![], vec![4], vec![0], vec![]]);
        assert!(it.sources.record(1).is_none());
    }

    #[test]
    fn missing_dependencies_and_cycles_are_reported() {
        let it = merged("PKGNAME=lib-0.9\nPKG_LOCATION=a/lib\nALL_DEPENDS=\n");
        let missing = it.sources.resolved().unwrap().missing;
        assert_eq!(missing, HashMap::from([(3, "it needs lib>=1, but no package matches".into())]));
        let it = merged("PKGNAME=lib-1.0\nPKG_LOCATION=a/lib\nALL_DEPENDS=app-[0-9]*:../../a/app\n");
        let error = it.sources.resolved().unwrap_err();
        assert!(error.starts_with("circular dependency: "), "{error}");
    }
}
