//! What a scan has said of the packages of a run, kept for the case that a part of it is said anew while they are built.
//! Does not know what becomes of them.

use std::collections::HashMap;

use crate::package::name::Name;
use crate::package::records::{self, Record};
use crate::resolve::{Finding, Package, Resolution, resolve};

/// By number, each package's record, without what only a scan wants to know. Nothing where a directory does not make the
/// package any more.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sources {
    texts: Vec<Vec<u8>>,
}

/// What they have become when some directories were scanned again.
#[derive(Debug)]
pub struct Merged {
    /// All of them now.
    pub sources: Sources,
    /// Packages whose records say something else than before; those that are new have the last numbers.
    pub changed: Vec<Package>,
    /// Packages that are not made any more.
    pub gone: Vec<Package>,
}

/// What all packages need, found anew.
#[derive(Debug)]
pub struct Anew {
    /// By number.
    pub depends: Vec<Vec<Package>>,
    /// What those lack that cannot be built for it, in words.
    pub lacks: HashMap<Package, String>,
}

/// 86 % of a scan, and of no use to who builds.
const LEFT_OUT: [&[u8]; 2] = [b"SCAN_DEPENDS=", b"DEPENDS="];

impl Sources {
    /// Those of these records, whose numbers are those of the packages.
    pub fn of(records: &[Record<'_>]) -> Sources {
        Sources { texts: records.iter().map(|record| kept(record.text)).collect() }
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// These records are what their directories say now. A package that is still made, perhaps in another version, keeps its
    /// number.
    pub fn merged(&self, fresh: &[Record<'_>]) -> Merged {
        let mut it = Merged { sources: self.clone(), changed: Vec::new(), gone: Vec::new() };
        let mut at: HashMap<Vec<u8>, Vec<Package>> = HashMap::new();
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

    /// The record of a package; none if there is none any more.
    pub fn record(&self, package: Package) -> Option<Record<'_>> {
        records::read(self.texts.get(package as usize)?).ok()?.first().copied()
    }

    /// What they need. An error is a cycle, in words.
    pub fn resolved(&self) -> Result<Anew, String> {
        let (numbers, records): (Vec<Package>, Vec<Record<'_>>) =
            (0..self.texts.len() as Package).filter_map(|it| Some((it, self.record(it)?))).unzip();
        let resolution = resolve(&records, records.len());
        let mut anew = Anew { depends: vec![Vec::new(); self.texts.len()], lacks: HashMap::new() };
        for finding in &resolution.findings {
            match finding {
                Finding::Cycle(cycle) => return Err(told(&resolution, cycle)),
                Finding::NoMatch { package, pattern, .. } => {
                    let why = format!("it needs {}, and nothing matches", String::from_utf8_lossy(pattern));
                    anew.lacks.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::NoDependency { package, text } => {
                    let why = format!("'{}' is no dependency", String::from_utf8_lossy(text));
                    anew.lacks.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::NoList(package) => {
                    let why = "its directory does not say what it needs".into();
                    anew.lacks.entry(numbers[*package as usize]).or_insert(why);
                }
                Finding::Elsewhere { .. } | Finding::Duplicate { .. } => {}
            }
        }
        for (package, it) in resolution.packages() {
            let depends = it.depends.iter().map(|&needed| numbers[needed as usize]).collect();
            anew.depends[numbers[package as usize] as usize] = depends;
        }
        Ok(anew)
    }
}

impl Merged {
    /// A directory made `old` packages, and makes `new` ones now.
    fn directory(&mut self, mut old: Vec<Package>, new: Vec<&Record<'_>>) {
        let base = |name: &[u8]| Name::new(name).base().to_vec();
        let name = |it: &Self, package: Package| it.sources.record(package).map(|record| record.name.to_vec());
        let mut places: Vec<Option<Package>> = vec![None; new.len()];
        // What is called the same is the same; what is left over may have another version.
        for same_version in [true, false] {
            for (place, record) in places.iter_mut().zip(&new).filter(|(place, _)| place.is_none()) {
                let is_it = |package: &Package| {
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
                    self.changed.push(self.sources.texts.len() as Package);
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

fn told(resolution: &Resolution<'_>, cycle: &[Package]) -> String {
    let name = |&package: &Package| String::from_utf8_lossy(resolution.name(package).text()).into_owned();
    let names: Vec<String> = cycle.iter().chain(cycle.first()).map(name).collect();
    format!("packages would need each other: {}", names.join(" -> "))
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
    fn what_is_the_same_has_not_changed() {
        let it = merged("PKGNAME=lib-1.0\nPKG_LOCATION=a/lib\nALL_DEPENDS=\nSCAN_DEPENDS=another\n");
        assert!(it.changed.is_empty() && it.gone.is_empty() && it.sources == sources());
    }

    #[test]
    fn packages_come_and_go() {
        let it = merged(
            "PKGNAME=py2-x-1\nPKG_LOCATION=a/py-x\nALL_DEPENDS=new-[0-9]*:../../a/new\n\
            PKGNAME=new-3\nPKG_LOCATION=a/new\nALL_DEPENDS=\n",
        );
        assert_eq!((&it.changed[..], &it.gone[..]), (&[4, 2][..], &[1][..]));
        assert_eq!(it.sources.resolved().unwrap().depends, [vec![], vec![], vec![4], vec![0], vec![]]);
        assert!(it.sources.record(1).is_none());
    }

    #[test]
    fn what_is_missing_or_goes_in_a_circle_is_told() {
        let it = merged("PKGNAME=lib-0.9\nPKG_LOCATION=a/lib\nALL_DEPENDS=\n");
        let lacks = it.sources.resolved().unwrap().lacks;
        assert_eq!(lacks, HashMap::from([(3, "it needs lib>=1, and nothing matches".into())]));
        let it = merged("PKGNAME=lib-1.0\nPKG_LOCATION=a/lib\nALL_DEPENDS=app-[0-9]*:../../a/app\n");
        let told = it.sources.resolved().unwrap_err();
        assert!(told.starts_with("packages would need each other: "), "{told}");
    }
}
