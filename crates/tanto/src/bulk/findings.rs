//! What a maintainer is told of a tree that does not fit together. Does not know how it is found.

use tanto_bulk::package::records::{Bad, Record};
use tanto_bulk::resolve::{Finding, Package, Resolution, Unknown};

/// A file that holds no scan.
pub(super) fn bad_scan(path: &[u8], bad: Bad) -> Vec<u8> {
    [path, format!(":{}: {}", bad.line, bad.why.told()).as_bytes()].concat()
}

/// A resolved scan in which something is needed that is not there.
pub(super) fn unknown(path: &[u8], unknown: &Unknown<'_>) -> Vec<u8> {
    [path, b": ", unknown.name, b" needs ", unknown.needs, b", which is not there"].concat()
}

/// A line or two for each finding.
pub(super) fn told(resolution: &Resolution<'_>, records: &[Record<'_>]) -> Vec<u8> {
    let teller = Teller { resolution, records };
    resolution.findings.iter().flat_map(|finding| teller.tell(finding)).collect()
}

/// What each package lacks that has not all that it needs, in words.
pub(super) fn lacking(resolution: &Resolution<'_>, records: &[Record<'_>]) -> Vec<(Package, String)> {
    let teller = Teller { resolution, records };
    let mut all: Vec<(Package, String)> = Vec::new();
    for finding in &resolution.findings {
        let (&Finding::NoMatch { package, .. } | &Finding::NoDependency { package, .. } | &Finding::NoList(package)) =
            finding
        else {
            continue;
        };
        let words = String::from_utf8_lossy(&teller.words(finding)).into_owned();
        match all.last_mut() {
            Some((last, told)) if *last == package => *told += &format!("; {words}"),
            _ => all.push((package, words)),
        }
    }
    all
}

struct Teller<'t, 'a> {
    resolution: &'a Resolution<'t>,
    records: &'a [Record<'t>],
}

impl Teller<'_, '_> {
    fn tell(&self, finding: &Finding<'_>) -> Vec<u8> {
        let level = if finding.is_error() { "error" } else { "warning" };
        [b"tanto: ", level.as_bytes(), b": ", &self.words(finding), b"\n"].concat()
    }

    fn words(&self, finding: &Finding<'_>) -> Vec<u8> {
        let name = |package: Package| self.records[package as usize].name;
        let place = |package: Package| self.records[package as usize].location;
        match *finding {
            Finding::NoMatch { package, pattern, location, ref nearest } => {
                let what = [name(package), b" needs ", pattern, b" (", location, b"), and nothing matches"].concat();
                [what, self.near(nearest)].concat()
            }
            Finding::Elsewhere { package, pattern, location, best } => {
                let what = [name(package), b" needs ", pattern, b" (", location, b"), and the best match is "].concat();
                [&what[..], name(best), b" in ", place(best)].concat()
            }
            Finding::NoDependency { package, text } => {
                let what = [place(package), b": ", name(package), b": '", text, b"' is no dependency"].concat();
                [what, b" (PATTERN:../../CATEGORY/DIRECTORY)".to_vec()].concat()
            }
            Finding::NoList(package) => [place(package), b": ", name(package), b" has no ALL_DEPENDS"].concat(),
            Finding::Duplicate { first, second } => {
                let what = [name(first), b" is made in ", place(first), b" and in ", place(second)].concat();
                [what, b"; the first is taken".to_vec()].concat()
            }
            Finding::Cycle(ref packages) => self.cycle(packages),
        }
    }

    fn near(&self, nearest: &[Package]) -> Vec<u8> {
        let told = |&package: &Package| {
            let record = &self.records[package as usize];
            [record.name, b" (", record.location, b")"].concat()
        };
        let told: Vec<Vec<u8>> = nearest.iter().map(told).collect();
        if told.is_empty() { Vec::new() } else { [b"; there is ", &told.join(&b", "[..])[..]].concat() }
    }

    fn cycle(&self, packages: &[Package]) -> Vec<u8> {
        let names: Vec<&[u8]> =
            packages.iter().chain(packages.first()).map(|&package| self.resolution.name(package).text()).collect();
        [b"packages need each other: ", &names.join(&b" -> "[..])[..]].concat()
    }
}
