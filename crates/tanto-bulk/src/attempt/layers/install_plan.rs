//! Computes which packages pkg_add would install, and in which order.

use std::cmp::Ordering;

use super::LayerError;
use super::package_info::PackageInfo;
use crate::package::name::Name;
use crate::package::pattern::Pattern;

/// The packages that pkg_add would install. Packages are indices into the list of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InstallPlan {
    /// Default values for packages that are not installed.
    pub packages: Vec<PackageInfo>,
    /// In the order in which pkg_add registers them.
    pub order: Vec<usize>,
    /// For each package: it is installed only as a dependency.
    pub automatic: Vec<bool>,
    /// The packages that depend on each, in the order of `+REQUIRED_BY`.
    pub needed_by: Vec<Vec<usize>>,
    /// The same for the kit's packages.
    pub kit_needed_by: Vec<Vec<usize>>,
}

/// Plans the installation of the first `direct` of these packages, on top of the bootstrap kit. Dependencies are chosen
/// among `names` and `kit`. `load` is called once for each installed package. Fails if pkg_add would fail or could choose
/// differently.
pub(super) fn plan_install(
    names: &[String],
    direct: usize,
    kit: &[PackageInfo],
    load: &mut dyn FnMut(usize) -> Result<PackageInfo, LayerError>,
) -> Result<InstallPlan, LayerError> {
    let mut installer = Installer::new(names, kit, load)?;
    for package in 0..direct {
        installer.add(package, false, 0)?;
    }
    Ok(installer.plan)
}

/// The maximum depth of dependencies.
const MAX_DEPTH: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Installed {
    Layered(usize),
    Kit(usize),
}

struct Installer<'a> {
    load: &'a mut dyn FnMut(usize) -> Result<PackageInfo, LayerError>,
    names: Vec<Name<'a>>,
    kit_names: Vec<Name<'a>>,
    progress: Vec<InstallState>,
    /// Conflicts of all installed packages.
    conflicts: Vec<Matcher>,
    plan: InstallPlan,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InstallState {
    Absent,
    Installing,
    Installed,
}

impl<'a> Installer<'a> {
    fn new(
        names: &'a [String],
        kit: &'a [PackageInfo],
        load: &'a mut dyn FnMut(usize) -> Result<PackageInfo, LayerError>,
    ) -> Result<Installer<'a>, LayerError> {
        let conflicts = kit.iter().flat_map(|info| &info.conflicts);
        Ok(Installer {
            load,
            names: names.iter().map(|name| Name::new(name.as_bytes())).collect(),
            kit_names: kit.iter().map(|info| Name::new(&info.name)).collect(),
            progress: vec![InstallState::Absent; names.len()],
            conflicts: conflicts.map(|pattern| Matcher::new(pattern)).collect::<Result<_, _>>()?,
            plan: InstallPlan {
                packages: vec![PackageInfo::default(); names.len()],
                order: Vec::new(),
                automatic: vec![false; names.len()],
                needed_by: vec![Vec::new(); names.len()],
                kit_needed_by: vec![Vec::new(); kit.len()],
            },
        })
    }

    fn add(&mut self, it: usize, automatic: bool, depth: usize) -> Result<(), LayerError> {
        let name = text(&self.names[it]);
        if self.kit_names.iter().any(|kit| kit.text() == self.names[it].text()) {
            return Ok(());
        }
        match self.progress[it] {
            InstallState::Installed => {
                // A direct dependency is not automatic, even if others depend on it too.
                self.plan.automatic[it] &= automatic;
                return Ok(());
            }
            InstallState::Installing => return unsupported(format!("{name} depends on itself")),
            InstallState::Absent if depth > MAX_DEPTH => {
                return unsupported(format!("the chain of dependencies to {name} is too long"));
            }
            InstallState::Absent => self.progress[it] = InstallState::Installing,
        }
        let info = (self.load)(it)?;
        if info.name != self.names[it].text() {
            return unsupported(format!("the package file of {name} contains another package"));
        }
        self.check_conflicts(it, &info)?;
        let mut needed: Vec<Installed> = Vec::new();
        for pattern in &info.depends {
            let wanted = Matcher::new(pattern)?;
            let Some(found) = self.find_or_install(&wanted, depth)? else {
                return unsupported(format!("{name} needs {}, which does not exist", String::from_utf8_lossy(pattern)));
            };
            if !needed.contains(&found) {
                needed.push(found);
            }
        }
        self.progress[it] = InstallState::Installed;
        self.plan.packages[it] = info;
        self.plan.automatic[it] = automatic;
        self.plan.order.push(it);
        for needed in needed {
            match needed {
                Installed::Layered(needed) => self.plan.needed_by[needed].push(it),
                Installed::Kit(needed) => self.plan.kit_needed_by[needed].push(it),
            }
        }
        Ok(())
    }

    /// Returns the best installed match. If there is none, installs the best one.
    fn find_or_install(&mut self, wanted: &Matcher, depth: usize) -> Result<Option<Installed>, LayerError> {
        if let Some(found) = self.best_installed(wanted) {
            return Ok(Some(found));
        }
        let all = (0..self.names.len()).filter(|&it| self.progress[it] != InstallState::Installed);
        let Some(best) = best(all.map(|it| (it, &self.names[it])), wanted) else { return Ok(None) };
        self.add(best, true, depth + 1)?;
        Ok(self.best_installed(wanted))
    }

    fn best_installed(&self, wanted: &Matcher) -> Option<Installed> {
        let known = self.plan.order.iter().map(|&it| (Installed::Layered(it), &self.names[it]));
        let kit = self.kit_names.iter().enumerate().map(|(it, name)| (Installed::Kit(it), name));
        best(known.chain(kit), wanted)
    }

    /// Checks for another version of a package, and for conflicts in both directions.
    fn check_conflicts(&mut self, it: usize, info: &PackageInfo) -> Result<(), LayerError> {
        let name = &self.names[it];
        let installed = || self.plan.order.iter().map(|&it| &self.names[it]).chain(&self.kit_names);
        if let Some(other) = installed().find(|other| other.base() == name.base()) {
            return unsupported(format!("{} conflicts with {}", text(name), text(other)));
        }
        let own = info.conflicts.iter().map(|pattern| Matcher::new(pattern)).collect::<Result<Vec<_>, _>>()?;
        let unwanted = own.iter().any(|own| installed().any(|other| own.matches(other)));
        if unwanted || self.conflicts.iter().any(|unwanted| unwanted.matches(name)) {
            return unsupported(format!("{} conflicts with another package", text(name)));
        }
        self.conflicts.extend(own);
        Ok(())
    }
}

fn text(name: &Name<'_>) -> String {
    String::from_utf8_lossy(name.text()).into_owned()
}

fn unsupported<T>(why: String) -> Result<T, LayerError> {
    Err(LayerError::Unsupported(why))
}

/// A pattern, as pkg_add matches it: without a version, it matches all versions.
struct Matcher {
    patterns: Vec<Pattern>,
}

impl Matcher {
    fn new(text: &[u8]) -> Result<Matcher, LayerError> {
        let bad = || LayerError::Unsupported(format!("malformed pattern {}", String::from_utf8_lossy(text)));
        let parse = |text: &[u8]| Pattern::parse(text).map_err(|_| bad());
        let mut patterns = vec![parse(text)?];
        if !text.iter().any(|byte| b"<>".contains(byte)) {
            patterns.push(parse(&[text, b"-[0-9]*"].concat())?);
        }
        Ok(Matcher { patterns })
    }

    fn matches(&self, name: &Name<'_>) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns the match with the highest version; among equals, the first name.
fn best<'n, T>(all: impl Iterator<Item = (T, &'n Name<'n>)>, wanted: &Matcher) -> Option<T> {
    let matching = all.filter(|(_, name)| wanted.matches(name));
    let best = matching.reduce(|best, other| {
        let order = other.1.version().cmp(best.1.version()).then_with(|| best.1.text().cmp(other.1.text()));
        if order == Ordering::Greater { other } else { best }
    });
    best.map(|(it, _)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, depends: &[&str], conflicts: &[&str]) -> PackageInfo {
        let list = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        PackageInfo { name: name.into(), depends: list(depends), conflicts: list(conflicts), ..PackageInfo::default() }
    }

    fn installed(
        direct: &[&str],
        known: &[PackageInfo],
        kit: &[PackageInfo],
    ) -> Result<(Vec<String>, InstallPlan), String> {
        let text = |info: &PackageInfo| String::from_utf8(info.name.clone()).unwrap();
        let mut names: Vec<String> = direct.iter().map(|&name| name.into()).collect();
        names.extend(known.iter().map(text).filter(|name| !direct.contains(&&**name)));
        let mut asked = Vec::new();
        let mut ask = |it: usize| {
            asked.push(it);
            let found = known.iter().find(|info| text(info) == names[it]);
            found.cloned().ok_or_else(|| LayerError::Unsupported(format!("there is no {}", names[it])))
        };
        let done = plan_install(&names, direct.len(), kit, &mut ask).map_err(|error| match error {
            LayerError::Unsupported(why) => why,
            LayerError::Io(error) => error.to_string(),
        })?;
        asked.sort_unstable();
        let mut order = done.order.clone();
        order.sort_unstable();
        assert_eq!(asked, order, "only installed packages are loaded");
        Ok((done.order.iter().map(|&it| names[it].clone()).collect(), done))
    }

    #[test]
    fn dependencies_are_installed_first_and_recorded() {
        let known = [
            info("app-1", &["lib>=1", "tool-[0-9]*", "lib>=0"], &[]),
            info("lib-1.5", &["base"], &[]),
            info("lib-2.0", &[], &[]),
            info("tool-3", &["lib<2"], &[]),
        ];
        let kit = [info("base-7", &[], &[])];
        // An installed package wins over a better one.
        let (order, installed) = installed(&["lib-1.5", "app-1"], &known, &kit).unwrap();
        assert_eq!(order, ["lib-1.5", "tool-3", "app-1"]);
        assert_eq!(installed.automatic, [false, false, false, true]);
        assert_eq!((&installed.needed_by[0], &installed.kit_needed_by[0]), (&vec![3, 1], &vec![0]));
    }

    #[test]
    fn direct_dependencies_are_not_automatic() {
        let known = [info("app-1", &["lib"], &[]), info("lib-1", &[], &[])];
        let (_, done) = installed(&["app-1", "lib-1"], &known, &[]).unwrap();
        assert_eq!((done.order, done.automatic), (vec![1, 0], vec![false, false]));
        let (_, done) = installed(&["app-1"], &known, &[]).unwrap();
        assert_eq!(done.automatic, [false, true]);
    }

    #[test]
    fn best_match_is_installed_unless_the_kit_has_one() {
        let known = [info("app-1", &["{a,b}-[0-9]*", "kit>=1"], &[]), info("a-1", &[], &[]), info("b-1", &[], &[])];
        let kit = [info("kit-1", &[], &[])];
        assert_eq!(installed(&["app-1"], &known, &kit).unwrap().0, ["a-1", "app-1"]);
        assert_eq!(installed(&["app-1", "b-1"], &known, &kit).unwrap().0, ["a-1", "app-1", "b-1"]);
        let known = [info("kit-1", &[], &[])];
        assert_eq!(installed(&["kit-1"], &known, &kit).unwrap().0, [""; 0]);
    }

    #[test]
    fn conflicts_and_cycles_are_unsupported() {
        let why =
            |direct: &[&str], known: &[PackageInfo], kit: &[PackageInfo]| installed(direct, known, kit).unwrap_err();
        let conflicting = [info("a-1", &[], &["b-[0-9]*"]), info("b-1", &[], &[]), info("a-2", &[], &[])];
        assert_eq!(why(&["a-1", "b-1"], &conflicting, &[]), "b-1 conflicts with another package");
        assert_eq!(why(&["b-1", "a-1"], &conflicting, &[]), "a-1 conflicts with another package");
        assert_eq!(why(&["a-1", "a-2"], &conflicting, &[]), "a-2 conflicts with a-1");
        assert_eq!(why(&["a-2"], &conflicting, &[info("a-1", &[], &[])]), "a-2 conflicts with a-1");
        assert_eq!(why(&["b-1"], &conflicting, &[info("c-1", &[], &["b>=1"])]), "b-1 conflicts with another package");
        assert_eq!(why(&["x-1"], &[info("x-1", &["y>=2"], &[])], &[]), "x-1 needs y>=2, which does not exist");
        let cycle = [info("x-1", &["y"], &[]), info("y-1", &["x"], &[])];
        assert_eq!(why(&["x-1"], &cycle, &[]), "x-1 depends on itself");
        let misnamed = plan_install(&["z-1".into()], 1, &[], &mut |_| Ok(info("y-1", &[], &[])));
        assert!(
            matches!(misnamed, Err(LayerError::Unsupported(why)) if why == "the package file of z-1 contains another package")
        );
    }
}
