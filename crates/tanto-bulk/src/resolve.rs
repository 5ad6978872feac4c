//! Resolves dependencies as pbulk's resolver does.

pub mod cycle;
mod index;
pub mod messages;
pub mod meta_dir;
mod nearest;
pub mod resolved_scan;
#[cfg(test)]
mod tests;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use thiserror::Error;

use crate::package::name::Name;
use crate::package::pattern::{Pattern, PatternError};
use crate::package::records::Record;

use index::Index;

/// The index of a package in the records.
pub type PackageId = u32;

/// The resolved dependencies.
#[derive(Debug)]
pub struct Resolution<'t> {
    names: Vec<Name<'t>>,
    packages: Vec<Resolved>,
    /// In the order of the packages.
    pub findings: Vec<Finding<'t>>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// A wanted package, or a dependency of one.
    pub wanted: bool,
    /// Unique, in the order of ALL_DEPENDS; empty if a dependency is missing.
    pub depends: Vec<PackageId>,
    /// A dependency is missing.
    pub broken: bool,
}

/// A problem of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding<'t> {
    /// Nothing matches a dependency: the package cannot be built.
    NoMatch {
        package: PackageId,
        pattern: &'t [u8],
        /// The location in the dependency.
        location: &'t [u8],
        /// Similar packages, the best first.
        nearest: Vec<PackageId>,
    },
    /// The best match is in another directory than the dependency names.
    Elsewhere {
        package: PackageId,
        pattern: &'t [u8],
        /// The location in the dependency.
        location: &'t [u8],
        /// The match.
        best: PackageId,
    },
    /// Not `pattern:../../category/directory`.
    NoDependency { package: PackageId, text: &'t [u8] },
    /// There is no ALL_DEPENDS.
    NoList(PackageId),
    /// Two packages with the same name; the first is used.
    Duplicate { first: PackageId, second: PackageId },
    /// Each package needs the next one, and the last one the first.
    Cycle(Vec<PackageId>),
}

impl Finding<'_> {
    /// Whether the packages cannot be built.
    pub fn is_error(&self) -> bool {
        !matches!(self, Finding::Elsewhere { .. } | Finding::Duplicate { .. })
    }
}

impl<'t> Resolution<'t> {
    pub fn package(&self, package: PackageId) -> &Resolved {
        &self.packages[package as usize]
    }

    pub fn name(&self, package: PackageId) -> &Name<'t> {
        &self.names[package as usize]
    }

    /// Returns the packages to build: their indices in the records, the records, and the dependencies by index in this
    /// list. Duplicates are left out.
    pub fn chosen(&self, records: &[Record<'t>]) -> (Vec<PackageId>, Vec<Record<'t>>, Vec<Vec<PackageId>>) {
        let second = |finding: &Finding<'_>| match *finding {
            Finding::Duplicate { second, .. } => Some(second),
            _ => None,
        };
        let seconds: HashSet<PackageId, RandomState> = self.findings.iter().filter_map(second).collect();
        let is_chosen = |(package, it): &(PackageId, &Resolved)| it.wanted && !seconds.contains(package);
        let chosen: Vec<PackageId> = self.packages().filter(is_chosen).map(|(package, _)| package).collect();
        let places: HashMap<PackageId, PackageId, RandomState> = chosen.iter().copied().zip(0..).collect();
        let needs = |package: &PackageId| {
            let needed = &self.package(*package).depends;
            needed.iter().filter_map(|needed| places.get(needed).copied()).collect()
        };
        let depends = chosen.iter().map(needs).collect();
        let records = chosen.iter().map(|&package| records[package as usize]).collect();
        (chosen, records, depends)
    }

    /// Iterates over all packages.
    pub fn packages(&self) -> impl Iterator<Item = (PackageId, &Resolved)> {
        (0..).zip(&self.packages)
    }
}

/// A dependency that a resolved scan does not contain.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{} needs {}, which is missing", String::from_utf8_lossy(.name), String::from_utf8_lossy(.needs))]
pub struct UnknownDependency<'t> {
    pub name: &'t [u8],
    pub needs: &'t [u8],
}

/// Reads the dependencies of a resolved scan from DEPENDS.
pub fn depends_of<'t>(records: &[Record<'t>]) -> Result<Vec<Vec<PackageId>>, UnknownDependency<'t>> {
    let mut places: HashMap<&[u8], PackageId, RandomState> = HashMap::default();
    for (package, record) in (0..).zip(records) {
        places.entry(record.name).or_insert(package);
    }
    let place =
        |record: &Record<'t>, needs| places.get(needs).copied().ok_or(UnknownDependency { name: record.name, needs });
    let words = |list: &'t [u8]| list.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let of = |record: &Record<'t>| {
        record.value("DEPENDS").into_iter().flat_map(words).map(|word| place(record, word)).collect()
    };
    records.iter().map(of).collect()
}

/// Resolves the first `wanted` records and their dependencies.
pub fn resolve<'t>(records: &[Record<'t>], wanted: usize) -> Resolution<'t> {
    let names: Vec<Name<'t>> = records.iter().map(|record| Name::new(record.name)).collect();
    let index = Index::new(&names);
    let mut resolver = Resolver {
        records,
        names: &names,
        index,
        known: HashMap::default(),
        packages: vec![Resolved::default(); records.len()],
        findings: Vec::new(),
    };
    resolver.duplicates();
    resolver.all(wanted);
    let Resolver { packages, mut findings, .. } = resolver;
    findings.extend(cycle::find(packages.len(), |it| &packages[it as usize].depends).map(Finding::Cycle));
    Resolution { names, packages, findings }
}

/// The result of a pattern; each is used seven times on average.
struct Known {
    pattern: Pattern,
    best: Option<PackageId>,
}

struct Resolver<'t, 'a> {
    records: &'a [Record<'t>],
    names: &'a [Name<'t>],
    index: Index,
    known: HashMap<&'t [u8], Result<Known, PatternError>, RandomState>,
    packages: Vec<Resolved>,
    findings: Vec<Finding<'t>>,
}

/// A word of ALL_DEPENDS.
#[derive(Clone, Copy)]
struct Dependency<'t> {
    pattern: &'t [u8],
    location: &'t [u8],
}

impl<'t> Dependency<'t> {
    fn parse(word: &'t [u8]) -> Option<Self> {
        let (pattern, location) = word.split_at(memchr::memchr(b':', word)?);
        Some(Dependency { pattern, location: location.strip_prefix(b":../../")? })
    }
}

impl<'t> Resolver<'t, '_> {
    /// Resolves wanted packages in order, then their dependencies.
    fn all(&mut self, wanted: usize) {
        let mut waiting: Vec<PackageId> = (0..wanted as PackageId).rev().collect();
        for &package in &waiting {
            self.packages[package as usize].wanted = true;
        }
        let mut found = Vec::new();
        while let Some(package) = waiting.pop() {
            self.one(package);
            let depends = std::mem::take(&mut self.packages[package as usize].depends);
            for &needed in &depends {
                if !std::mem::replace(&mut self.packages[needed as usize].wanted, true) {
                    found.push(needed);
                }
            }
            self.packages[package as usize].depends = depends;
            if waiting.is_empty() {
                waiting.extend(found.drain(..).rev());
            }
        }
    }

    fn one(&mut self, package: PackageId) {
        let record = &self.records[package as usize];
        let Some(list) = record.value("ALL_DEPENDS") else {
            self.findings.push(Finding::NoList(package));
            self.packages[package as usize].broken = true;
            return;
        };
        let (mut chosen, mut broken) = (Vec::new(), false);
        for word in list.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty()) {
            broken |= !self.dependency(package, word, &mut chosen);
        }
        if broken {
            chosen.clear();
        }
        self.packages[package as usize] = Resolved { depends: chosen, broken, ..self.packages[package as usize] };
    }

    /// Adds the match of a dependency, unless a package chosen before matches. Returns false if nothing matches.
    fn dependency(&mut self, package: PackageId, word: &'t [u8], chosen: &mut Vec<PackageId>) -> bool {
        let Some(dependency) = Dependency::parse(word) else {
            self.findings.push(Finding::NoDependency { package, text: word });
            return false;
        };
        let (names, index) = (self.names, &self.index);
        let known = self.known.entry(dependency.pattern).or_insert_with_key(|text| Known::new(text, names, index));
        let Ok(known) = known else {
            self.findings.push(Finding::NoDependency { package, text: word });
            return false;
        };
        let earlier = chosen.iter().copied().find(|&earlier| known.pattern.matches(&names[earlier as usize]));
        let Some(best) = earlier.or(known.best) else {
            self.no_match(package, dependency);
            return false;
        };
        if self.records[best as usize].location != dependency.location {
            let Dependency { pattern, location } = dependency;
            self.findings.push(Finding::Elsewhere { package, pattern, location, best });
        }
        if earlier.is_none() {
            chosen.push(best);
        }
        true
    }

    fn no_match(&mut self, package: PackageId, Dependency { pattern, location }: Dependency<'t>) {
        let nearest = nearest::find(pattern, location, self.names, self.records);
        self.findings.push(Finding::NoMatch { package, pattern, location, nearest });
    }

    fn duplicates(&mut self) {
        for (first, second) in self.index.duplicates(self.names) {
            self.findings.push(Finding::Duplicate { first, second });
        }
    }
}

impl Known {
    fn new(text: &[u8], names: &[Name<'_>], index: &Index) -> Result<Known, PatternError> {
        let pattern = Pattern::parse(text)?;
        let best = index.best(&pattern, names);
        Ok(Known { pattern, best })
    }
}
